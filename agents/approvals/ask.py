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
# It did not happen: run it again; it happened, with this result; leave it.
IN_DOUBT_ALLOWED = ("respond", "approve", "reject")
IN_DOUBT_RULE = "what came of a call is not known"


@dataclass(frozen=True)
class Request:
    """A call that a person must decide: its row, its tool, its checked arguments."""

    call: ToolCall
    tool: Tool
    arguments: dict[str, Any] = field(repr=False)
    rule: str = ""  # the rule that asks, where it is not the tool's own
    # It was begun, and what came of it is not known: what was raised, or "".
    in_doubt: str | None = None


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
            _wait(call, run, request)
            approval = known.get(call.pk)
            if approval is not None:
                _renew(approval, run, request, call)
            else:
                approval = _approval(run, call, request, next(numbers))
                approval.save(force_insert=True)
            audit.record(
                principal, "ask", obj=approval, via="worker", revision=approval.revision
            )
            request.call.status = call.status
            asked.append(approval)
        return asked


def _approval(run: Run, call: ToolCall, request: Request, number: int) -> Approval:
    return Approval(
        number=number,
        workspace_id=call.workspace_id,
        thread_id=call.thread_id,
        branch_id=call.branch_id,
        run=run,
        call=call,
        checkpoint_id=call.reply_id,
        risk=request.tool.risk,
        **_asked(request, call),
    )


def _asked(request: Request, call: ToolCall) -> dict[str, Any]:
    """What is asked, by which rule, and what may be said to it."""
    tool, in_doubt = request.tool, request.in_doubt is not None
    digest = digest_of(call, tool, request.arguments, in_doubt=in_doubt)
    if in_doubt:
        return {
            "kind": Approval.Kind.UNKNOWN,
            "rule": IN_DOUBT_RULE,
            "allowed": list(IN_DOUBT_ALLOWED),
            "digest": digest,
        }
    return {
        "kind": Approval.Kind.QUESTION if tool.question else Approval.Kind.APPROVAL,
        "rule": request.rule or (tool.rule.name if tool.rule else ""),
        "allowed": list(tool.rule.allowed if tool.rule else DEFAULT_ALLOWED),
        "digest": digest,
    }


def _renew(approval: Approval, run: Run, request: Request, call: ToolCall) -> None:
    """Pending again: what was decided before stays on record, and does not count.

    `run` may be another than the one that asked first: a retry.
    """
    values = {
        "run": run,
        "status": Approval.Status.PENDING,
        "revision": approval.revision + 1,
        "decided_at": None,
        "decided_by": None,
        **_asked(request, call),
    }
    for name, value in values.items():
        setattr(approval, name, value)
    approval.save(update_fields=list(values))
    Approval.objects.filter(pk=approval.pk).update(asked_at=ClockTimestamp())


def _wait(call: ToolCall, run: Run, request: Request) -> None:
    call.run = run
    call.tool_version = request.tool.version
    if request.in_doubt is None:
        call.status = ToolCall.Status.WAITING
        call.effective = None
    else:  # as it was tried
        call.status = ToolCall.Status.UNKNOWN
        call.error_class = request.in_doubt[:60]
    call.save(
        update_fields=["run", "status", "effective", "tool_version", "error_class"]
    )


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
