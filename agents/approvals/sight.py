"""Whether those who are asked can see what they are asked about.

Being asked makes a private thread visible to nobody: who may see it is its owner's to say.
So a step of an escalation whose group sees nothing of it is passed over, as is one of a
person who could not decide it, and a request whose groups see nothing of it says so on its
page.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from django.db.models import Q, QuerySet

from agents.approvals.able import cannot_decide
from agents.models import Approval
from agents.pure.terms import Step
from checkpoints.access import Reason, Role
from checkpoints.models import Membership, Thread


def is_seen_by(row: Approval, groups: Collection[UUID]) -> bool:
    """Whether somebody in one of these groups sees the request and may decide such."""
    thread = Thread.objects.unscoped(Reason.WORKER).get(pk=row.thread_id)
    people = _able(row, groups)
    owner = Q(user_id=thread.owner_id)
    match thread.visibility:
        case Thread.Visibility.WORKSPACE:
            return people.exists()
        case Thread.Visibility.GROUP:
            return people.filter(owner | Q(pk__in=_members(thread.group_id))).exists()
    return people.filter(owner).exists()


def has_able(row: Approval, groups: Collection[UUID]) -> bool:
    """Whether somebody in one of these groups may decide such, who may not see this one."""
    return _able(row, groups).exists()


def _able(row: Approval, groups: Collection[UUID]) -> QuerySet[Membership]:
    may = Q(can_approve=True)
    if row.kind == Approval.Kind.QUESTION:
        may |= Q(role__in=[Role.OPERATOR, Role.ADMIN])
    people: QuerySet[Membership] = (
        Membership.objects.unscoped(Reason.WORKER)
        .filter(may, workspace_id=row.workspace_id, user__is_active=True)
        .filter(groups__in=groups)
        .exclude(role=Role.AUDITOR)
    )
    return people


def next_level(
    row: Approval, steps: Sequence[Step], level: int
) -> tuple[int, list[Step]]:
    """Where an escalation is once it has come to this level; and the steps of groups that
    see nothing of it, and of people who could not decide it.

    `steps`: all of them. Past each of those, as far as there are any.
    """
    unseen: list[Step] = []
    at = row.level
    while at < level:
        step = steps[at]
        at += 1
        if not _is_in_vain(row, step):
            continue
        unseen.append(step)
        if at == level < len(steps):
            level += 1
    return at, unseen


def _is_in_vain(row: Approval, step: Step) -> bool:
    """Whether the step asks only who cannot decide the request."""
    if step.person is not None:
        return bool(cannot_decide(row, step.person))
    return step.group is not None and not is_seen_by(row, [UUID(step.group)])


def _members(group: UUID | None) -> object:
    found = Membership.objects.unscoped(Reason.WORKER).filter(groups=group)
    return found.values("pk")
