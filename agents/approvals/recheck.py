"""What a check found is put on a request that waits: the same one, or a revision of its own.

Compare-and-set on what was checked: where it was decided, or changed, meanwhile, nothing is
written, and what was decided is checked again before it runs.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db import transaction

from agents.approvals.ask import Request, put
from agents.approvals.guards import Look, columns, revalidated
from agents.delivery import outbox
from agents.models import Approval, Run, ToolCall
from agents.pure.terms import Demand, Terms
from agents.tools import Tool
from checkpoints import clock, gate
from checkpoints.access import Reason, RunPrincipal, unscoped
from checkpoints.models import Branch
from checkpoints.pure.codec import same

# When it is due, and how far its escalation is: stays, where the rule is the same.
_TIMES = ("due_at", "level", "priority", "next_step_at", "assigned_to_id")


def found_same(
    row: Approval,
    look: Look,
    principal: RunPrincipal,
    *,
    at: datetime,
    same_preview: bool,
) -> bool:
    """It is still about what was asked, as found `at`. False where it is another request
    by now, or was looked at since.

    Another preview makes no revision: a decision for a page that showed the one before
    is refused by what the page showed (`settle`).
    """
    with unscoped(Reason.WORKER), transaction.atomic():
        now = _locked(row)
        if now is None or (now.guard_checked_at or at) > at:
            return False
        values = columns(now, look, at=at)
        del values["guard_seen"]  # the digest binds the record as it is
        if same_preview:
            del values["preview"]  # so that a decision that is under way holds
        Approval.objects.filter(pk=now.pk).update(**values)
        revalidated(now, look, principal, revision=now.revision)
    return True


def found_other(
    row: Approval,
    look: Look,
    principal: RunPrincipal,
    *,
    tool: Tool,
    proposed: dict[str, Any],
    demand: Demand | None,
) -> bool:
    """Something else is asked now: a revision of its own, which nobody has approved.

    `demand`: what the rules want for it; None: what they wanted before. False where it is
    another request by now.
    """
    with unscoped(Reason.WORKER), transaction.atomic():
        now = _locked(row)
        if now is None:
            return False
        call = ToolCall.objects.select_related("reply", "run").get(pk=row.call_id)
        call.effective = None
        if not same(look.arguments, proposed):
            call.effective = gate.seal(call, "effective", look.arguments)
        call.save(update_fields=["effective"])
        before = _demanded(now)
        wanted = before if demand is None else demand
        times = {name: getattr(now, name) for name in _TIMES}
        request = Request(call, tool, proposed, wanted, look=look)
        now.revision += 1
        changed = put(now, request, call, clock.now())
        if _demanded(now) == before:
            for name, value in times.items():
                setattr(now, name, value)
        else:  # another deadline: the old one does not count any more
            now.overdue_at = None
        now.save(update_fields=["revision", "overdue_at", *changed])
        revalidated(now, look, principal, revision=now.revision)
        outbox.queue(now, outbox.Event.ASKED)
    return True


def _demanded(row: Approval) -> Demand:
    """As the request keeps it."""
    return Demand(
        Terms.of(row.terms), row.rule, policy=row.policy_id, risk=str(row.risk)
    )


def refused(look: Look, message: str) -> Look:
    """The look, where a rule does not allow what it found."""
    found = {**(look.found or {}), "invalid": message}
    return replace(look, guard=Approval.Guard.INVALID, found=found)


def _locked(row: Approval) -> Approval | None:
    """The request with its branch and run locked, in this order; None: it is another."""
    Branch.objects.select_for_update(no_key=True).get(pk=row.branch_id)
    run = Run.objects.select_for_update(no_key=True).get(pk=row.run_id)
    now = Approval.objects.select_for_update(no_key=True).get(pk=row.pk)
    # Another run may ask it by now.
    known = now.is_pending and run.is_live and now.run_id == run.pk
    return now if known and now.as_shown() == row.as_shown() else None
