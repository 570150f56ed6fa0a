"""Ask a person: the rows of an interrupt, written in the transaction of its step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import F

from agents.approvals.binding import digest_of
from agents.models import Approval, Run, ToolCall
from agents.tools import Tool
from checkpoints import audit
from checkpoints.access import Reason, RunPrincipal, unscoped
from checkpoints.clock import ClockTimestamp
from checkpoints.models import Workspace

DEFAULT_ALLOWED = ("approve", "edit", "reject")


@dataclass(frozen=True)
class Request:
    """A call that a person must decide: its row, its tool, its checked arguments."""

    call: ToolCall
    tool: Tool
    arguments: dict[str, Any] = field(repr=False)
    rule: str = ""  # the rule that asks, where it is not the tool's own


def ask(run: Run, requests: Sequence[Request]) -> list[Approval]:
    """Pending approvals for these calls, which now wait.

    A call that was asked about before, and whose approval does not hold any more
    (`verify` said so), is asked about again: the same request, a revision later.
    Must run in the transaction of the interrupt step.
    """
    principal = RunPrincipal(run.pk, run.workspace_id, run.thread_id, run.grant_id)
    with unscoped(Reason.WORKER), transaction.atomic():
        calls = {
            call.pk: call
            for call in ToolCall.objects.select_related("reply", "run").filter(
                pk__in=[request.call.pk for request in requests]
            )
        }
        known = {
            approval.call_id: approval
            for approval in Approval.objects.select_for_update(no_key=True).filter(
                call__in=calls
            )
        }
        numbers = _numbers(run, len(requests) - len(known))
        asked = []
        for request in requests:
            call = calls[request.call.pk]
            _wait(call, run, request.tool)
            digest = digest_of(call, request.tool, request.arguments)
            approval = known.get(call.pk)
            if approval is not None:
                _renew(approval, run, digest)
            else:
                approval = _approval(run, call, request, digest, next(numbers))
                approval.save(force_insert=True)
            audit.record(
                principal, "ask", obj=approval, via="worker", revision=approval.revision
            )
            request.call.status = call.status
            asked.append(approval)
        return asked


def _approval(
    run: Run, call: ToolCall, request: Request, digest: bytes, number: int
) -> Approval:
    tool = request.tool
    return Approval(
        number=number,
        workspace_id=call.workspace_id,
        thread_id=call.thread_id,
        branch_id=call.branch_id,
        run=run,
        call=call,
        checkpoint_id=call.reply_id,
        kind=Approval.Kind.QUESTION if tool.question else Approval.Kind.APPROVAL,
        risk=tool.risk,
        rule=request.rule or (tool.rule.name if tool.rule else ""),
        allowed=list(tool.rule.allowed if tool.rule else DEFAULT_ALLOWED),
        digest=digest,
    )


def _renew(approval: Approval, run: Run, digest: bytes) -> None:
    """Pending again: what was decided before stays on record, and does not count.

    `run` may be another than the one that asked first: a retry.
    """
    approval.run = run
    approval.status = Approval.Status.PENDING
    approval.revision += 1
    approval.digest = digest
    approval.decided_at = None
    approval.decided_by = None
    approval.save(
        update_fields=[
            "run",
            "status",
            "revision",
            "digest",
            "decided_at",
            "decided_by",
        ]
    )
    Approval.objects.filter(pk=approval.pk).update(asked_at=ClockTimestamp())


def _wait(call: ToolCall, run: Run, tool: Tool) -> None:
    call.run = run
    call.status = ToolCall.Status.WAITING
    call.effective = None
    call.tool_version = tool.version
    call.save(update_fields=["run", "status", "effective", "tool_version"])


def _numbers(run: Run, count: int) -> Any:
    """Numbers for new approvals: APR-2041. The workspace's row is locked from here on."""
    if not count:
        return iter(())
    Workspace.objects.filter(pk=run.workspace_id).update(
        approvals_made=F("approvals_made") + count
    )
    last = Workspace.objects.values_list("approvals_made", flat=True).get(
        pk=run.workspace_id
    )
    return iter(range(last - count + 1, last + 1))
