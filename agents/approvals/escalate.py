"""Escalation: a request that nobody decides asks more people, and more urgently.

Each step of `Terms.escalation` is due so many seconds after the request was asked. It
raises the priority and, where only groups are asked, adds its group to them; nobody is
taken away, and no deadline moves. A group that cannot see the thread is passed over.
Whoever it was assigned to did not decide it: it is for everyone who is asked, again, or for
the person whom the step names. That gives nobody a right: who could not decide it is passed
over, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from agents.approvals import sight
from agents.delivery import outbox
from agents.models import Approval
from agents.pure.policy_text import MOST_PRIORITY
from agents.pure.terms import Step, Terms
from checkpoints import audit
from checkpoints.access import Reason, UserPrincipal, unscoped
from checkpoints.clock import ClockTimestamp


def due(most: int) -> list[UUID]:
    """Requests of which the next step is due, in any workspace."""
    with unscoped(Reason.REAPER):
        late = Approval.objects.pending().filter(next_step_at__lte=Now())
        return list(late.order_by("next_step_at").values_list("pk", flat=True)[:most])


def take_due(pk: UUID) -> bool:
    """Take the step of this request that is due; False when there is none (any more)."""
    with unscoped(Reason.REAPER), transaction.atomic():
        row = (
            Approval.objects.select_for_update(no_key=True, skip_locked=True)
            .filter(
                pk=pk,
                status=Approval.Status.PENDING,
                next_step_at__lte=ClockTimestamp(),
            )
            .first()
        )
        if row is None:
            return False
        take(row, Terms.of(row.terms).escalation[row.level : row.level + 1])
    return True


def named(steps: Sequence[Step], in_vain: Sequence[Step]) -> int | None:
    """Whom the last of these steps, which are taken, leaves the request with."""
    last = steps[-1]
    return None if last in in_vain else last.person


def take_all(row: Approval) -> None:
    """Every step that is left, and each tells its group: its deadline passed.

    The row is locked. It is more urgent then, where no step says how urgent it is.
    """
    every, before = Terms.of(row.terms).escalation, row.priority
    while row.level < len(every):
        take(row, every[row.level : row.level + 1])
    if row.priority == before:
        take(row, (), raised=1)


def take(
    row: Approval,
    steps: Sequence[Step],
    *,
    raised: int = 0,
    by: UserPrincipal | None = None,
) -> None:
    """Take these next steps, in the open transaction that locked the pending row.

    A step whose group does not see the request, or whose person could not decide it, is
    passed over, and the one after it is taken at once (`sight`). A step that is taken ends
    an assignment, which keeps a request out of the lists of all others, or makes another.
    `raised`: how much the priority rises where none of them
    raises it. `by`: who did it by hand; None: it was due.
    """
    every = Terms.of(row.terms).escalation
    level, unseen = sight.next_level(row, every, row.level + len(steps))
    steps = every[row.level : level]
    highest = max((step.priority for step in steps), default=row.priority)
    if highest <= row.priority:
        highest = max(row.priority, min(row.priority + raised, MOST_PRIORITY))
    following = None
    if level < len(every):
        following = row.asked_at + timedelta(seconds=every[level].after)
    left_with = row.assigned_to_id
    # Nobody is asked by a step of one who cannot decide it: it stays whose it was.
    is_taken = bool(steps) and (steps[-1].person is None or steps[-1] not in unseen)
    assigned = named(steps, unseen) if is_taken else left_with
    Approval.objects.unscoped(Reason.REAPER).filter(pk=row.pk).update(
        level=level,
        priority=highest,
        next_step_at=following,
        assigned_to=assigned,
    )
    row.level, row.priority, row.next_step_at = level, highest, following
    row.assigned_to_id = assigned
    audit.record(
        by,
        "escalate",
        obj=row,
        workspace_id=row.workspace_id,
        via="web" if by else "worker",
        run=row.run_id,
        revision=row.revision,
        level=level,
        priority=highest,
        groups=[step.group for step in steps if step.group],
        unseen=[step.group for step in unseen if step.group] or None,
        unable=[str(step.person) for step in unseen if step.person] or None,
        to=assigned if is_taken else None,
        before=left_with if is_taken else None,
    )
    if is_taken:
        outbox.queue(row, outbox.Event.ESCALATED)
