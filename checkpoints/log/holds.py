"""Pins and legal holds: what keeps a thread's content, whatever a policy says."""

from __future__ import annotations

from django.db import transaction

from checkpoints import audit, gate
from checkpoints.access import Role, UserPrincipal
from checkpoints.errors import NotPermitted
from checkpoints.models import Thread


def pin(thread: Thread, *, by: UserPrincipal) -> bool:
    """Retention leaves the thread alone. False: it was pinned already."""
    return _pin(thread, True, by)


def unpin(thread: Thread, *, by: UserPrincipal) -> bool:
    return _pin(thread, False, by)


def hold(thread: Thread, *, by: UserPrincipal, reason: str) -> bool:
    """Nothing and nobody removes the thread's content until an admin lifts the hold.

    False: it was held already. Raises NotPermitted, also for content that is gone.
    """
    _require_admin(by)
    if thread.pruned_at is not None:
        raise NotPermitted("Its content is not here. Restore it, then hold it.")
    sealed = gate.seal(thread, "hold_reason", reason)
    here = {"legal_hold": False, "pruned_at": None}  # it may go at this moment
    return _change(thread, by, "hold", here, legal_hold=True, hold_reason=sealed)


def lift(thread: Thread, *, by: UserPrincipal) -> bool:
    """End a legal hold. False: there was none. Raises NotPermitted."""
    _require_admin(by)
    return _change(
        thread, by, "lift", {"legal_hold": True}, legal_hold=False, hold_reason=None
    )


def _pin(thread: Thread, pinned: bool, by: UserPrincipal) -> bool:
    if not by.may_operate:
        raise NotPermitted(
            "Viewers and auditors do not change threads; an operator can."
        )
    name = "pin" if pinned else "unpin"
    return _change(thread, by, name, {"pinned": not pinned}, pinned=pinned)


def _require_admin(by: UserPrincipal) -> None:
    if by.role is not Role.ADMIN:
        raise NotPermitted("Only an admin of the workspace does this.")


def _change(
    thread: Thread,
    by: UserPrincipal,
    action: str,
    was: dict[str, bool | None],
    **columns: object,
) -> bool:
    with transaction.atomic():
        changed = (
            Thread.objects.for_user(by).filter(pk=thread.pk, **was).update(**columns)
        )
        if changed:
            audit.record(by, action, obj=thread)
    return bool(changed)
