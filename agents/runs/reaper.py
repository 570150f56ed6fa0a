"""What keeps a run from being forgotten, about once a second in every worker process.

Lapsed leases, deadlines and steps of escalations that are due, runs that wait for
nothing, rings that nobody heard, checks that did not come back, and events of the audit
log that are not yet linked. Small batches; rows that another reaper works on are
skipped; one bad row stops only itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import cast
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import Exists, F, OuterRef, Q

from agents.approvals import escalate, expire
from agents.approvals.guards import chase
from agents.models import Approval, Run
from agents.runs.stop import stop_or_make_ready
from agents.wake import ring, wake
from checkpoints.access import Reason, unscoped
from checkpoints.audit_chain import link_pending
from checkpoints.clock import ClockTimestamp
from checkpoints.models import Branch

logger = logging.getLogger(__name__)

BATCH = 50
# A ring that nobody answered is repeated after 2, 4, 8, 16, 16, … seconds.
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
        ORDER BY created_at LIMIT %s
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
    woken: int = 0
    rung: int = 0
    expired: int = 0  # deadlines that were acted upon
    escalated: int = 0
    linked: int = 0
    chased: int = 0


def sweep() -> Swept:
    """Put right what is overdue, in any workspace."""
    with unscoped(Reason.REAPER):
        lapsed = Branch.objects.filter(
            holder__isnull=False, lease_until__lt=ClockTimestamp()
        ).order_by("lease_until")
        owned = Run.objects.filter(grant__revoked_at=None)  # else it waits for a person
        idle = owned.filter(status=Run.Status.WAITING).exclude(
            Exists(Approval.objects.pending().filter(run=OuterRef("pk")))
        )
        return Swept(
            lapsed=_each(lapsed.values_list("pk", flat=True)[:BATCH], _end_lapsed),
            woken=_each(idle.values_list("pk", flat=True)[:BATCH], wake),
            escalated=_each(escalate.due(BATCH), escalate.take_due),
            expired=_each(expire.overdue(BATCH), expire.expire),
            rung=_ring_again(),
            linked=link_pending(),
            chased=chase(),
        )


def end_leases(worker: str) -> int:
    """Free what a worker held that is certainly dead. Only its supervisor knows that."""
    with unscoped(Reason.REAPER):
        held = Branch.objects.filter(worker=worker).exclude(holder=None)
        return _each(
            held.values_list("pk", flat=True),
            lambda pk: _free(Q(pk=pk, worker=worker)),
        )


def ready(queue: str = "") -> list[UUID]:
    """Runs that a worker could take now, in order: for when rings cannot be heard.

    Of one queue, or of all.
    """
    due = Run.objects.unscoped(Reason.WORKER).due()
    if queue:
        due = due.filter(queue=queue)
    return list(due.in_line().values_list("pk", flat=True)[:BATCH])


def _end_lapsed(pk: UUID) -> bool:
    return _free(Q(pk=pk, lease_until__lt=ClockTimestamp()))


def _free(held: Q) -> bool:
    """Vacate the branch and let its run be taken, or be over where that was asked for.

    The fence grows now, not only with the next claim: a holder that was merely slow
    must not append to a branch that counts as vacant.
    """
    with transaction.atomic():
        branch = Branch.objects.select_for_update(skip_locked=True).filter(held).first()
        if branch is None or branch.holder is None:
            return False
        Branch.objects.filter(pk=branch.pk).update(
            fence=F("fence") + 1, holder=None, worker="", lease_until=None
        )
        logger.warning(
            "a lease ended without its worker",
            extra={"ids": {"run": branch.holder, "worker": branch.worker}},
        )
        stop_or_make_ready(branch.holder, fence=branch.fence + 1)
    return True


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
        except (OperationalError, InterfaceError):
            raise  # the database is away: the next sweep tries again
        except Exception:
            # The edge of a row: the others are put right.
            logger.exception("the reaper left a row", extra={"ids": {"row": pk}})
    return done
