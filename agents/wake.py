"""`waiting → ready`, and the ring: so that a decision wakes a run without knowing the runner.

The `ready` row is the outbox. A ring that is lost (Redis away, a crash between
commit and hook) is rung again by the reaper.
"""

from __future__ import annotations

from functools import partial
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef

from agents import queue
from agents.models import Approval, Run, ToolCall
from checkpoints import audit
from checkpoints.access import Actor, Reason, unscoped
from checkpoints.clock import ClockTimestamp
from checkpoints.db.prepared import Prepared
from checkpoints.failpoints import failpoint
from checkpoints.grants import grant_for
from checkpoints.models import EntryLock


def wake(run_id: UUID) -> bool:
    """Make a waiting run ready once it waits for nothing any more, and ring after commit:
    for no request, no child, no lock.

    While a decision can still be taken back it is ready, but not due: nothing rings, and
    no claim takes it, until the last of its grace windows is over. The reaper rings then.

    False when it waits for more (for an owner, too), or does not wait at all. Locks the
    run's row, so that of two people who give the last two decisions at once, one sees both.
    """
    with unscoped(Reason.WORKER), transaction.atomic():
        run = (
            Run.objects.select_for_update(no_key=True, of=("self",))
            .select_related("branch", "grant")
            .filter(pk=run_id)
            .first()
        )
        return run is not None and wake_locked(run)


def wake_locked(run: Run) -> bool:
    """As `wake`, of a run whose row the open transaction has locked, then read."""
    if run.status != Run.Status.WAITING or run.needs_owner:
        return False
    # This statement sees what was committed while the lock was waited for.
    woken = _WAKE.row({"run": run.pk})
    if woken is None:
        return False
    _, later = woken
    if later is None:
        ring(run.pk, fence=run.branch.fence, n=1, on=run.queue)
    return True


_WAKE = Prepared(f"""
UPDATE {Run._meta.db_table} run
SET status = 'ready',
    rings = CASE WHEN final.at IS NULL THEN 1 ELSE 0 END,
    rung_at = CASE WHEN final.at IS NULL THEN clock_timestamp() END,
    ready_at = coalesce(final.at, clock_timestamp()),
    wake_at = final.at
FROM (
    SELECT max(final_at) AS at FROM {Approval._meta.db_table}
    WHERE run_id = %(run)s AND final_at > clock_timestamp()
) AS final
WHERE run.id = %(run)s
  AND run.status = 'waiting'
  AND NOT EXISTS (
      SELECT FROM {Approval._meta.db_table}
      WHERE run_id = %(run)s AND status = 'pending'
  )
  AND NOT EXISTS (
      SELECT FROM {Run._meta.db_table} child
      WHERE child.parent_id = %(run)s
        AND child.status IN ('ready', 'running', 'waiting')
  )
  AND NOT EXISTS (
      SELECT FROM {ToolCall._meta.db_table} call
      JOIN {EntryLock._meta.db_table} lock ON lock.id = call.waits_for
      WHERE call.run_id = %(run)s
        AND call.status IN ('proposed', 'approved')
        AND call.waits_until > clock_timestamp()
        AND lock.run <> %(run)s
        AND lock.until > clock_timestamp()
  )
RETURNING run.id::text, run.wake_at::text
""")  # noqa: S608  # our own names; values are parameters


def waits_for_lock() -> Exists:
    """Of a run: as the statement above asks."""
    held = EntryLock.objects.unscoped(Reason.WORKER).held()
    others = held.filter(pk=OuterRef("waits_for")).exclude(run=OuterRef("run"))
    calls = ToolCall.objects.unscoped(Reason.WORKER).filter(
        Exists(others),
        run=OuterRef("pk"),
        status__in=[ToolCall.Status.PROPOSED, ToolCall.Status.APPROVED],
        waits_until__gt=ClockTimestamp(),
    )
    return Exists(calls)


def wake_for_lock(lock: UUID, **_: object) -> None:
    """Wake the runs that wait for a lock which was released. The first that takes it has
    it; the others wait on."""
    calls = ToolCall.objects.unscoped(Reason.WORKER).filter(
        waits_for=lock, run__status=Run.Status.WAITING
    )
    runs = calls.order_by("waits_until").values_list("run", flat=True)
    for run in dict.fromkeys(runs):
        wake(run)


def adopt(run: Run, by: Actor) -> None:
    """Let the run act for `by` from now on, in the open transaction that locked it."""
    grant = grant_for(by, run.thread_id)
    Run.objects.for_user(by).filter(pk=run.pk).update(grant=grant)
    audit.record(by, "take_over", obj=run, grant=grant.pk, before=run.grant_id)
    run.grant = grant


def make_ready(run: Run, *, was: Run.Status, fence: int) -> bool:
    """Let workers have a run, if it is still what it was, and ring after commit."""
    with unscoped(Reason.WORKER):
        made = Run.objects.filter(pk=run.pk, status=was).update(
            status=Run.Status.READY,
            rings=1,
            rung_at=ClockTimestamp(),
            ready_at=ClockTimestamp(),
        )
    if made:
        ring(run.pk, fence=fence, n=1, on=run.queue)
    return bool(made)


def ring(run_id: UUID, *, fence: int, n: int, on: str) -> None:
    """Ring once the open transaction is committed; at once when there is none."""
    transaction.on_commit(partial(_ring, run_id, fence, n, on))


def _ring(run_id: UUID, fence: int, n: int, on: str) -> None:
    failpoint("before ring")
    queue.ring(run_id, fence=fence, n=n, on=on)
