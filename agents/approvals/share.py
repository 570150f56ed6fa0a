"""A request is asked of people who do not see its thread: its owner lets them see it.

Nobody else can: being asked makes a private thread visible to nobody (`sight`). It is
only ever opened to more people here, never to fewer.
"""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.db.models import Q

from agents.approvals import sight, who
from agents.approvals.lock import locked
from agents.delivery import outbox
from agents.errors import AlreadyDecided, InvalidDecision, NotEligible
from agents.models import Approval
from agents.pure.terms import Terms
from checkpoints import audit
from checkpoints.access import UserPrincipal
from checkpoints.models import Group, Thread

OWNER = "Only who owns the thread says who may see it."
Visibility = Thread.Visibility


def offered(row: Approval, by: UserPrincipal) -> list[Group | None]:
    """Whom `by` could let see the thread, so that somebody who is asked can decide.

    A group that is asked; None: everybody in the workspace. Empty for who is not its
    owner, and where it would not help.
    """
    if row.thread.owner_id != by.user_id or not row.is_pending:
        return []
    asked = who.asked_groups(row, Terms.of(row.terms))
    able = [group for group in asked if sight.has_able(row, [group])]
    groups: list[Group | None] = []
    if row.thread.visibility == Visibility.PRIVATE:
        found = Group.objects.for_user(by).filter(pk__in=able)
        groups += found.order_by("name")
    everybody = row.thread.visibility != Visibility.WORKSPACE and bool(able)
    return [*groups, None] if everybody else groups


def share(approval: Approval, by: UserPrincipal, *, to: UUID | None) -> None:
    """Let this group, which is asked, see the request's thread; None: the workspace.

    Who is asked, and sees it now, is told. Raises NotEligible, InvalidDecision,
    AlreadyDecided.
    """
    if approval.thread.owner_id != by.user_id:
        raise NotEligible(OWNER)
    if to not in [group and group.pk for group in offered(approval, by)]:
        raise InvalidDecision({"": "Choose whom it is to be shared with."})
    narrower = Q(visibility=Visibility.PRIVATE)
    if to is None:
        narrower |= Q(visibility=Visibility.GROUP)
    with transaction.atomic():
        shared = Thread.objects.for_user(by).filter(
            narrower, pk=approval.thread_id, owner_id=by.user_id
        )
        wide = Visibility.WORKSPACE if to is None else Visibility.GROUP
        if not shared.update(visibility=wide, group_id=to):
            return  # another form of theirs was faster
        row, _, _ = locked(approval, by)
        if not row.is_pending:
            person = row.decided_by
            name = person.get_full_name() or person.get_username() if person else ""
            raise AlreadyDecided(name, row.get_status_display().lower(), row.decided_at)
        audit.record(by, "share", obj=approval.thread, approval=row.pk, group=to)
        outbox.queue(row, outbox.Event.ASKED)
