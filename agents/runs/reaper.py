"""What keeps a run from being forgotten, about once a second in every worker process.

Lapsed leases, runs that wait for nothing, and rings that nobody heard; deadlines and
steps of escalations that are due, events of the audit log that are not yet linked, and
checks that did not come back. Small batches; rows that another reaper works on are
skipped. One bad row stops only itself, one part that fails only itself, and nothing waits
for a lock for long.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import cast
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import Exists, F, OuterRef, Q

from agents.approvals import escalate, expire
from agents.approvals.guards import chase
from agents.models import Approval, Run, ToolCall
from agents.runs.stop import cancel_abandoned, stop_or_make_ready
from agents.tools import registry
from agents.wake import ring, waits_for_lock, wake
from checkpoints.access import Reason, unscoped
from checkpoints.audit_chain import link_pending
from checkpoints.clock import ClockTimestamp
from checkpoints.db.given_up import was_given_up
from checkpoints.db.session import waits_at_most
from checkpoints.entry_locks import release_as_over
from checkpoints.models import Branch, EntryLock

logger = logging.getLogger(__name__)

BATCH = 50
PATIENCE = timedelta(seconds=0.5)  # for who has a row just then
# A ring that nobody answered is repeated after 2, 4, 8, 16, 16, … seconds: first the one
# that rang longest ago, so that each has its turn, however many there are that nobody takes.
RING_BACKOFF = """
    WITH due AS (
        SELECT id FROM agents_run
        WHERE status = 'ready' AND paused_at IS NULL
          AND NOT EXISTS (SELECT FROM checkpoints_workspace AS here
                          WHERE here.id = workspace_id AND here.halted_at IS NOT NULL)
          AND (wake_at IS NULL OR wake_at <= clock_timestamp())
          AND (rung_at IS NULL OR
               rung_at > clock_timestamp() OR  -- the clock went back since
               rung_at + interval '1 second' * 2 ^ least(rings, 4) < clock_timestamp())
        ORDER BY CASE WHEN rung_at <= clock_timestamp() THEN rung_at END NULLS FIRST,
                 created_at
        LIMIT %s
        FOR UPDATE SKIP LOCKED
    )
    UPDATE agents_run AS run SET rings = rings + 1, rung_at = clock_timestamp()
    FROM due, checkpoints_branch AS branch
    WHERE run.id = due.id AND branch.id = run.branch_id
    RETURNING run.id, branch.fence, run.rings, run.queue
"""


@dataclass(frozen=True)
class Swept:
    """How many rows a sweep put right."""

    lapsed: int = 0
    abandoned: int = 0  # whose parents are over
    freed: int = 0  # locks of runs that are over
    woken: int = 0
    rung: int = 0
    expired: int = 0  # deadlines that were acted upon
    escalated: int = 0
    linked: int = 0
    chased: int = 0
    failed: tuple[str, ...] = ()  # the parts that did not come to their end


class LeasesLeft(Exception):
    """A dead worker's leases could not all be ended yet."""


def sweep(parts: Mapping[str, Callable[[], int]] | None = None) -> Swept:
    """Put right what is overdue, in any workspace: these parts of it, or all.

    A part that fails is logged, and has its next turn with the next sweep. Raises
    OperationalError and InterfaceError when the database is away.
    """
    done: dict[str, int] = {}
    failed: list[str] = []
    with unscoped(Reason.REAPER), waits_at_most(PATIENCE):
        for name, act in (EVERY if parts is None else parts).items():
            try:
                done[name] = act()
            except Exception as error:
                # The edge of a part: the others have their turns.
                _left(error, "a part of the reaper's sweep", part=name)
                failed.append(name)
    return Swept(**done, failed=tuple(failed))


def end_leases(worker: str) -> int:
    """Free what a worker held that is certainly dead. Only its supervisor knows that.

    Waits a moment for who has the row just then. Raises LeasesLeft where that was not
    enough, and OperationalError and InterfaceError: to be called again.
    """
    with unscoped(Reason.REAPER), waits_at_most(PATIENCE):
        held = Branch.objects.filter(worker=worker).exclude(holder=None)
        done = _each(
            held.values_list("pk", flat=True),
            lambda pk: _free(Q(pk=pk, worker=worker), dead=worker),
        )
        if held.exists():
            raise LeasesLeft(f"Worker {worker} is dead and still holds a branch.")
        # Its lease may have lapsed before, so that it held nothing any more.
        left = Run.objects.filter(status__in=[Run.Status.READY, Run.Status.RUNNING])
        _at_work_no_more(worker, run__in=left)
    return done


def ready(queue: str = "") -> list[UUID]:
    """Runs that this worker could take now, in order: for when rings cannot be heard.

    Of one queue, or of all; and of agents that are registered here, or those of others
    would stand before them for ever.
    """
    due = Run.objects.unscoped(Reason.WORKER).due()
    due = due.filter(agent_version__agent__name__in=[agent.name for agent in registry])
    if queue:
        due = due.filter(queue=queue)
    return list(due.in_line().values_list("pk", flat=True)[:BATCH])


def _end_lapsed() -> int:
    lapsed = Q(holder__isnull=False, lease_until__lt=ClockTimestamp())
    rows = Branch.objects.filter(lapsed).order_by("lease_until")
    return _each(
        rows.values_list("pk", flat=True)[:BATCH], lambda pk: _free(lapsed & Q(pk=pk))
    )


def _wake_idle() -> int:
    owned = Run.objects.filter(grant__revoked_at=None)  # else it waits for a person
    idle = owned.filter(status=Run.Status.WAITING).exclude(
        Exists(Approval.objects.pending().filter(run=OuterRef("pk")))
    )
    children = Run.objects.filter(parent=OuterRef("pk"), status__in=Run.LIVE)
    idle = idle.exclude(Exists(children)).exclude(waits_for_lock())
    return _each(idle.values_list("pk", flat=True)[:BATCH], wake)


def _end_abandoned() -> int:
    children = Run.objects.filter(
        parent__isnull=False, status__in=Run.LIVE, cancel_requested=False
    ).exclude(parent__status__in=Run.LIVE)
    return _each(children.values_list("pk", flat=True)[:BATCH], cancel_abandoned)


def _free_locks() -> int:
    """Those of runs that are over: nobody lets go of them any more."""
    over = Run.objects.filter(pk=OuterRef("run")).exclude(status__in=Run.LIVE)
    locks = {
        lock.pk: lock for lock in EntryLock.objects.held().filter(Exists(over))[:BATCH]
    }
    return _each(locks, lambda pk: release_as_over(locks[pk]))


def _free(held: Q, *, dead: str = "") -> bool:
    """Vacate the branch and let its run be taken, or be over where that was asked for.

    `dead`: the worker that certainly is. Who has the row just then is waited for; else it
    is left to them, or to the next sweep. Calls that it had begun are at work no more.

    The fence grows now, not only with the next claim: a holder that was merely slow
    must not append to a branch that counts as vacant.
    """
    with transaction.atomic():
        rows = Branch.objects.select_for_update(no_key=True, skip_locked=not dead)
        branch = rows.filter(held).first()
        if branch is None or branch.holder is None:
            return False
        Branch.objects.filter(pk=branch.pk).update(
            fence=F("fence") + 1, holder=None, worker="", lease_until=None
        )
        if dead:
            _at_work_no_more(dead, branch=branch.pk)
        logger.warning(
            "a lease ended without its worker",
            extra={"ids": {"run": branch.holder, "worker": branch.worker}},
        )
        stop_or_make_ready(branch.holder, fence=branch.fence + 1)
    return True


def _at_work_no_more(worker: str, **those: object) -> None:
    """Calls that a worker had begun which is dead."""
    begun = ToolCall.objects.filter(status=ToolCall.Status.EXECUTING, worker=worker)
    begun.filter(**those).update(worker="")


def _ring_again() -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(RING_BACKOFF, [BATCH])
        due = cast("list[tuple[UUID, int, int, str]]", cursor.fetchall())
        for run_id, fence, n, on in due:
            ring(run_id, fence=fence, n=n, on=on)
    return len(due)


def _each(ids: Iterable[UUID], act: Callable[[UUID], bool]) -> int:
    done = 0
    for pk in ids:
        try:
            done += act(pk)
        except Exception as error:
            # The edge of a row: the others are put right.
            _left(error, "a row of the reaper's", row=pk)
    return done


def _left(error: Exception, what: str, **ids: object) -> None:
    """Log that it was left, to the next sweep. Raises what says that the database is away."""
    if isinstance(error, (OperationalError, InterfaceError)):
        if not was_given_up(error):
            raise error
        logger.warning(
            "%s was left (%s)", what, type(error).__name__, extra={"ids": ids}
        )
        return
    logger.error("%s was left", what, exc_info=error, extra={"ids": ids})


# A run's own part of it comes in a thread of its own (runs/worker.py): whatever there is
# to do for requests and the audit log, a lapsed lease does not wait for it.
LEASES: Mapping[str, Callable[[], int]] = {
    "lapsed": _end_lapsed,
    "abandoned": _end_abandoned,
    "freed": _free_locks,
    "woken": _wake_idle,
    "rung": _ring_again,
}
REQUESTS: Mapping[str, Callable[[], int]] = {
    "escalated": lambda: _each(escalate.due(BATCH), escalate.take_due),
    "expired": lambda: _each(expire.overdue(BATCH), expire.expire),
    "linked": link_pending,
    "chased": chase,
}
EVERY = {**LEASES, **REQUESTS}
