"""What the arguments of commands name. Each raises CommandError when it is not there."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.models import User
from django.core.management.base import CommandError

from checkpoints.access import Reason, Role, UserPrincipal
from checkpoints.models import Membership, Thread, Workspace

SHOWN = 50  # workspaces that a message names
LONGEST = 36_500  # days


def workspace(slug: str) -> Workspace:
    try:
        return Workspace.objects.get(slug=slug)
    except Workspace.DoesNotExist:
        known = Workspace.objects.order_by("slug").values_list("slug", flat=True)
        raise CommandError(
            f"No workspace is called {slug!r}; there are: "
            f"{', '.join(known[:SHOWN]) or 'none yet'}."
        ) from None


def workspace_or_only(slug: str | None) -> Workspace:
    """The one that is named; without a name, the only one there is."""
    if slug is not None:
        return workspace(slug)
    known = list(Workspace.objects.order_by("slug")[: SHOWN + 1])
    if len(known) == 1:
        return known[0]
    named = ", ".join(one.slug for one in known[:SHOWN]) or "none yet"
    raise CommandError(f"Say --workspace; there are: {named}.")


def owner(name: str | None) -> User | None:
    """Whom what is imported belongs to; None: nobody."""
    if name is None:
        return None
    found = User.objects.filter(username=name).first()
    if found is None:
        raise CommandError(f"No user is called {name!r}.")
    return found


def thread(pk: UUID) -> Thread:
    try:
        threads = Thread.objects.unscoped(Reason.COMMAND).select_related("workspace")
        return threads.get(pk=pk)
    except Thread.DoesNotExist:
        raise CommandError(f"There is no thread {pk}.") from None


def person(username: str) -> User:
    try:
        return User.objects.get(username=username, is_active=True)
    except User.DoesNotExist:
        raise CommandError(f"There is no active user {username!r}.") from None


def member(person: User, workspace: Workspace) -> UserPrincipal:
    row = (
        Membership.objects.unscoped(Reason.COMMAND)
        .filter(workspace=workspace, user=person)
        .first()
    )
    if row is None:
        raise CommandError(f"{person.get_username()} is no member of {workspace.name}.")
    return UserPrincipal(
        user_id=person.pk,
        workspace_id=workspace.pk,
        role=Role(row.role),
        can_approve=row.can_approve,
        name=person.get_full_name() or person.get_username(),
    )


def days(given: float | None, default: float) -> float:
    days = default if given is None else given
    if not 0 <= days <= LONGEST:
        raise CommandError(f"--older-than {days:g} must be from 0 to {LONGEST:,} days.")
    return days
