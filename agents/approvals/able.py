"""Who could decide a request that is left with them: by right, sight, groups, exclusions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django.db.models import QuerySet

from agents.approvals import who
from agents.models import Approval
from agents.pure.terms import Terms
from checkpoints.access import Reason
from checkpoints.models import Membership, Thread

NO_RIGHT = "They may not decide such requests."


def cannot_decide(row: Approval, user_id: int) -> str:
    """Why this person could not decide it, so that it is not left with them; or ""."""
    found = dict(able(row, members(row).filter(user_id=user_id)))
    return next(iter(found.values()), NO_RIGHT)


def members(row: Approval) -> QuerySet[Membership]:
    return (
        Membership.objects.unscoped(Reason.WORKER)
        .filter(workspace_id=row.workspace_id, user__is_active=True)
        .select_related("user")
        .prefetch_related("groups")
    )


def able(
    row: Approval, members: Iterable[Membership]
) -> Iterator[tuple[Membership, str]]:
    """Each with why they could not decide it, or "". The terms are looked up once."""
    terms, thread = Terms.of(row.terms), row.thread
    asked, left_out = set(who.asked_groups(row, terms)), who.excluded(row)
    for member in members:
        groups = {group.pk for group in member.groups.all()}
        sees = (
            thread.visibility == Thread.Visibility.WORKSPACE
            or thread.owner_id == member.user_id
            or (
                thread.visibility == Thread.Visibility.GROUP
                and thread.group_id in groups
            )
        )
        if not who.has_right(row, member.role, can_approve=member.can_approve):
            yield member, NO_RIGHT
        elif not sees:
            yield member, "The thread is not shared with them."
        elif (asked and not asked & groups) or member.user_id in left_out:
            yield member, "They are not among those who may decide it."
        else:
            yield member, ""
