"""Holding runs: one by hand, or all of a workspace by its kill switch.

Nothing is lost: a run in hand is left after its step, decisions and messages are kept,
and it goes on from there once it is let. What has begun is finished and stored; no call
with effects begins any more.
"""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from agents.models import Run
from agents.wake import ring
from checkpoints import audit
from checkpoints.access import Reason, Role, UserPrincipal, unscoped
from checkpoints.clock import ClockTimestamp
from checkpoints.errors import NotPermitted
from checkpoints.models import Workspace


def pause(run: Run, *, by: UserPrincipal) -> bool:
    """Hold the run: at once, or after its step while it is at work.

    False when it is held already, or over. Raises NotPermitted.
    """
    _require(run, by)
    with unscoped(Reason.WORKER), transaction.atomic():
        held = Run.objects.filter(
            pk=run.pk, status__in=Run.LIVE, paused_at=None, cancel_requested=False
        ).update(paused_at=ClockTimestamp())
        if held:
            audit.record(by, "pause", obj=run)
    return bool(held)


def resume(run: Run, *, by: UserPrincipal) -> bool:
    """Let a held run go on. False when it was not held. Raises NotPermitted."""
    _require(run, by)
    with unscoped(Reason.WORKER), transaction.atomic():
        freed = Run.objects.filter(pk=run.pk, paused_at__isnull=False).update(
            paused_at=None, rings=1, rung_at=ClockTimestamp()
        )
        if freed:
            audit.record(by, "resume", obj=run)
            ring(run.pk, fence=run.branch.fence, n=1)
    return bool(freed)


def halt(workspace_id: UUID, *, by: UserPrincipal | None) -> bool:
    """Stop every run of the workspace between two steps, and start none.

    `by`: None for a command of the server. False when it is halted already. Raises
    NotPermitted for everyone but the workspace's admins.
    """
    _require_admin(by, "halts")
    with unscoped(Reason.WORKER), transaction.atomic():
        halted = Workspace.objects.filter(pk=workspace_id, halted_at=None).update(
            halted_at=ClockTimestamp()
        )
        if halted:
            _record("halt", workspace_id, by)
    return bool(halted)


def lift(workspace_id: UUID, *, by: UserPrincipal | None) -> bool:
    """End the halt: what is ready is rung for within a second.

    False when there is none. Raises NotPermitted as `halt`.
    """
    _require_admin(by, "lifts the halt of")
    with unscoped(Reason.WORKER), transaction.atomic():
        lifted = Workspace.objects.filter(
            pk=workspace_id, halted_at__isnull=False
        ).update(halted_at=None)
        if lifted:
            Run.objects.filter(
                workspace_id=workspace_id, status=Run.Status.READY
            ).update(rings=0, rung_at=None)
            _record("halt_lift", workspace_id, by)
    return bool(lifted)


def _record(action: str, workspace_id: UUID, by: UserPrincipal | None) -> None:
    audit.record(
        by,
        action,
        obj=Workspace.objects.get(pk=workspace_id),
        workspace_id=workspace_id,
        via="web" if by else "command",
    )


def _require(run: Run, by: UserPrincipal) -> None:
    if not by.may_operate:
        raise NotPermitted(
            "Viewers and auditors do not pause or resume runs; an operator can."
        )
    if not Run.objects.for_user(by).filter(pk=run.pk).exists():
        raise NotPermitted("This thread is not shared with you.")


def _require_admin(by: UserPrincipal | None, does: str) -> None:
    if by is not None and by.role is not Role.ADMIN:
        raise NotPermitted(f"Only an admin {does} a workspace.")
