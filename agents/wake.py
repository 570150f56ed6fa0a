"""`waiting → ready`, and the ring: so that a decision wakes a run without knowing the runner.

The `ready` row is the outbox. A ring that is lost (Redis away, a crash between
commit and hook) is rung again by the reaper.
"""

from __future__ import annotations

from functools import partial
from uuid import UUID

from django.db import transaction

from agents import queue
from agents.models import Approval, Run
from checkpoints import audit
from checkpoints.access import Actor, Reason, unscoped
from checkpoints.clock import ClockTimestamp
from checkpoints.failpoints import failpoint
from checkpoints.grants import grant_for


def wake(run_id: UUID) -> bool:
    """Make a waiting run ready once no request of it is pending, and ring after commit.

    False when it waits for more (for an owner, too), or does not wait at all. Locks the run's row, so that
    of two people who give the last two decisions at once, one sees both.
    """
    with unscoped(Reason.WORKER), transaction.atomic():
        run = (
            Run.objects.select_for_update(no_key=True, of=("self",))
            .select_related("branch", "grant")
            .filter(pk=run_id)
            .first()
        )
        if run is None or run.status != Run.Status.WAITING or run.needs_owner:
            return False
        # A statement of its own: it sees what was committed while we waited for the lock.
        if Approval.objects.pending().filter(run=run).exists():
            return False
        return make_ready(run_id, was=Run.Status.WAITING, fence=run.branch.fence)


def adopt(run: Run, by: Actor) -> None:
    """Let the run act for `by` from now on, in the open transaction that locked it."""
    grant = grant_for(by, run.thread_id)
    Run.objects.for_user(by).filter(pk=run.pk).update(grant=grant)
    audit.record(by, "take_over", obj=run, grant=grant.pk, before=run.grant_id)
    run.grant = grant


def make_ready(run_id: UUID, *, was: Run.Status, fence: int) -> bool:
    """Let workers have a run, if it is still what it was, and ring after commit."""
    with unscoped(Reason.WORKER):
        made = Run.objects.filter(pk=run_id, status=was).update(
            status=Run.Status.READY,
            rings=1,
            rung_at=ClockTimestamp(),
            ready_at=ClockTimestamp(),
        )
    if made:
        ring(run_id, fence=fence, n=1)
    return bool(made)


def ring(run_id: UUID, *, fence: int, n: int) -> None:
    """Ring once the open transaction is committed; at once when there is none."""
    transaction.on_commit(partial(_ring, run_id, fence, n))


def _ring(run_id: UUID, fence: int, n: int) -> None:
    failpoint("before ring")
    queue.ring(run_id, fence=fence, n=n)
