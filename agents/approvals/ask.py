"""Ask a person: the rows of an interrupt, written in the transaction of its step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F

from agents.approvals import guards, sight
from agents.approvals.binding import digest_of, last_decision
from agents.approvals.escalate import named
from agents.approvals.forget import forget
from agents.approvals.guards import Look
from agents.delivery import outbox
from agents.models import Approval, Decision, Run, ToolCall
from agents.pure.digest import alike_digest
from agents.pure.terms import Demand, Terms
from agents.tools import Tool
from checkpoints import audit, clock, gate
from checkpoints.access import Reason, RunPrincipal, unscoped
from checkpoints.clock import ClockTimestamp
from checkpoints.keys.hierarchy import workspace_mac
from checkpoints.models import DataKey, Workspace
from checkpoints.pure.codec import same

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
    demand: Demand | None = None  # of a rule that is not the tool's own
    # It was begun, and what came of it is not known: what was raised, or "".
    in_doubt: str | None = None
    look: Look | None = None  # what its guard saw, and its preview

    @property
    def asked(self) -> dict[str, Any]:
        """The arguments that would run: its guard may put others in their place."""
        return self.look.arguments if self.look else self.arguments


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
        now = clock.now() if any(map(_has_times, requests)) else None
        asked = []
        for request in requests:
            call = calls[request.call.pk]
            _wait(call, run, request)
            approval = known.get(call.pk)
            if approval is not None:
                _renew(approval, run, request, call, now)
                if request.in_doubt is None:  # else it was approved, and begun
                    forget(approval, principal)
            else:
                approval = _approval(run, call, request, next(numbers), now)
                approval.save(force_insert=True)
            demand = request.demand
            audit.record(
                principal,
                "ask",
                obj=approval,
                via="worker",
                call=call.pk,
                revision=approval.revision,
                in_doubt=True if request.in_doubt is not None else None,
                policy=demand.policy if demand else None,
                policy_version=demand.version if demand else None,
                rule=demand.rule_id if demand else None,
            )
            outbox.queue(approval, outbox.Event.ASKED)
            request.call.status = call.status
            asked.append(approval)
        return asked


def demand_of(tool: Tool) -> Demand:
    """What a request demands where the tool's own rule asks."""
    grace = 0 if tool.question else settings.APPROVAL_GRACE_SECONDS
    return Demand(Terms(grace=grace), tool.rule.name if tool.rule else "")


def _approval(
    run: Run, call: ToolCall, request: Request, number: int, now: datetime | None
) -> Approval:
    approval = Approval(
        number=number,
        workspace_id=call.workspace_id,
        thread_id=call.thread_id,
        branch_id=call.branch_id,
        run=run,
        call=call,
        checkpoint_id=call.reply_id,
    )
    put(approval, request, call, now)
    return approval


def put(
    approval: Approval, request: Request, call: ToolCall, now: datetime | None
) -> list[str]:
    """Set on a request what is asked, by which rule, on what terms; not yet stored.

    The names of what was set.
    """
    tool, in_doubt = request.tool, request.in_doubt is not None
    demand = request.demand or demand_of(tool)
    values: dict[str, Any] = {
        "kind": Approval.Kind.UNKNOWN,
        "rule": IN_DOUBT_RULE,
        "allowed": list(IN_DOUBT_ALLOWED),
    }
    if not in_doubt:
        values = {
            "kind": Approval.Kind.QUESTION if tool.question else Approval.Kind.APPROVAL,
            "rule": demand.rule,
            "allowed": list(tool.rule.allowed if tool.rule else DEFAULT_ALLOWED),
        }
    if in_doubt and not approval._state.adding:  # as it was asked the first time
        terms = Terms.of(approval.terms)
    else:
        terms = demand.terms
        values |= {
            "risk": demand.risk or tool.risk,
            "policy_id": demand.policy,
            "terms": terms.as_json(),
            "approvers": terms.approvers,
        }
    # Whom a step can leave it with depends on both.
    approval.kind, approval.terms = values["kind"], terms.as_json()
    values |= _times(approval, terms, now, escalated=demand.escalated)
    key = workspace_mac(call.workspace_id, DataKey.Purpose.INDEX)
    values["alike"] = alike_digest(key, tool=tool.name, arguments=request.asked)
    if in_doubt:  # what its guard would say now may be what the call did itself
        values |= {"guard": "", "guard_asked_at": None}
        last = None if approval._state.adding else last_decision(approval)
        if last is not None and last.verdict == Decision.Verdict.EDIT:
            values["preview"] = None  # it was of the arguments before the edit
    else:
        values |= guards.columns(approval, request.look, at=now)
    for name, value in values.items():
        setattr(approval, name, value)
    approval.digest = digest_of(
        call, tool, request.asked, under=approval, in_doubt=in_doubt
    )
    return [*values, "digest"]


def _times(
    approval: Approval, terms: Terms, now: datetime | None, *, escalated: bool
) -> dict[str, Any]:
    """When it is due, and how far its escalation is."""
    steps = terms.escalation
    level, left_with = 0, {}
    if escalated and steps:
        approval.level = 0
        level, in_vain = sight.next_level(approval, steps, 1)
        left_with = {"assigned_to_id": named(steps[:level], in_vain)}
    after = steps[level].after if level < len(steps) else None
    return {
        "due_at": _later(now, terms.deadline),
        "level": level,
        "priority": max((step.priority for step in steps[:level]), default=0),
        "next_step_at": _later(now, after),
        **left_with,
    }


def _later(now: datetime | None, seconds: int | None) -> datetime | None:
    if now is None or seconds is None:
        return None
    return now + timedelta(seconds=seconds)


def _has_times(request: Request) -> bool:
    """Whether what it demands, or may have demanded before, depends on the clock."""
    if request.in_doubt is not None or request.look is not None:
        return True
    terms = request.demand.terms if request.demand else None
    return terms is not None and bool(terms.deadline or terms.escalation)


def _renew(
    approval: Approval,
    run: Run,
    request: Request,
    call: ToolCall,
    now: datetime | None,
) -> None:
    """Pending again: what was decided before stays on record, and does not count.

    `run` may be another than the one that asked first: a retry.
    """
    values = {
        "run": run,
        "status": Approval.Status.PENDING,
        "revision": approval.revision + 1,
        "decided_at": None,
        "decided_by": None,
        "final_at": None,
        "overdue_at": None,
    }
    for name, value in values.items():
        setattr(approval, name, value)
    changed = put(approval, request, call, now)
    approval.save(update_fields=[*values, *changed])
    Approval.objects.filter(pk=approval.pk).update(asked_at=ClockTimestamp())


def _wait(call: ToolCall, run: Run, request: Request) -> None:
    call.run = run
    call.tool_version = request.tool.version
    if request.in_doubt is None:
        call.status = ToolCall.Status.WAITING
        call.effective = None
        if not same(request.asked, request.arguments):
            call.effective = gate.seal(call, "effective", request.asked)
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
