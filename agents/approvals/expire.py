"""Deadlines: what becomes of a request that nobody decided in time. Never an approval.

As its terms say: it is rejected (status `expired`; the agent reads that nobody decided,
and goes on), escalated as far as it goes, or held as it is. The reaper comes by every
second; whoever decides at that moment has the locks, or finds the request expired.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from agents.approvals import escalate
from agents.approvals.lock import locked_overdue
from agents.delivery import outbox
from agents.models import Approval
from agents.pure.terms import Terms
from agents.wake import wake_locked
from checkpoints import audit
from checkpoints.access import Reason, unscoped
from checkpoints.clock import ClockTimestamp


class Overdue(Exception):
    """The deadline of the request that was to be decided has passed."""

    def __init__(self, due_at: datetime) -> None:
        super().__init__("The deadline of this request has passed.")
        self.due_at = due_at


def require_in_time(row: Approval, terms: Terms, now: datetime) -> None:
    """Raises Overdue: after a deadline that rejects, nobody decides any more."""
    if row.due_at is not None and row.due_at <= now and terms.then == "reject":
        raise Overdue(row.due_at)


def overdue(most: int) -> list[UUID]:
    """Requests whose deadlines passed and were not acted upon, in any workspace."""
    with unscoped(Reason.REAPER):
        late = Approval.objects.pending().filter(due_at__lte=Now(), overdue_at=None)
        return list(late.order_by("due_at").values_list("pk", flat=True)[:most])


def expire(pk: UUID) -> bool:
    """Act on the deadline of this request, once; False when it is not for us to.

    It was decided, or is being decided, or another process is at it.
    """
    with unscoped(Reason.REAPER), transaction.atomic():
        found = locked_overdue(pk)
        if found is None:
            return False
        row, run = found
        mine = Approval.objects.filter(pk=pk, status=Approval.Status.PENDING)
        match Terms.of(row.terms).then:
            case "hold":
                mine.update(overdue_at=ClockTimestamp())
                _record(row, "overdue")
            case "escalate":
                mine.update(overdue_at=ClockTimestamp())
                _record(row, "overdue")
                escalate.take_all(row)
            case "reject":
                mine.update(
                    status=Approval.Status.EXPIRED,
                    overdue_at=ClockTimestamp(),
                    decided_at=ClockTimestamp(),
                )
                _record(row, "expire")
                outbox.queue(row, outbox.Event.EXPIRED)
                wake_locked(run)
    return True


def _record(row: Approval, action: str) -> None:
    audit.record(
        None,
        action,
        obj=row,
        via="worker",
        run=row.run_id,
        call=row.call_id,
        revision=row.revision,
    )
