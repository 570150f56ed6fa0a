"""Holding runs: one by hand, all of a workspace by its kill switch; none of an agent.

Nothing is lost: a run in hand is left within a second, decisions and messages are kept,
and it goes on from there once it is let. A call with effects that has begun is finished
and stored, and none begins any more; what has none, and a model's reply, is given up and
asked for anew.
"""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from agents.approvals import rejections
from agents.models import Agent, Run
from agents.pure.queues import Priority
from agents.tools import registry
from agents.wake import ring
from checkpoints import audit
from checkpoints.access import Actor, Reason, Role, UserPrincipal, unscoped
from checkpoints.clock import ClockTimestamp
from checkpoints.errors import NotPermitted
from checkpoints.models import Workspace

ADMIN = "Only an admin of the workspace switches an agent on or off."


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
    """Let a held run go on. False when it was not held, or is over. Raises NotPermitted."""
    _require(run, by)
    with unscoped(Reason.WORKER), transaction.atomic():
        freed = Run.objects.filter(
            pk=run.pk, status__in=Run.LIVE, paused_at__isnull=False
        ).update(paused_at=None, rings=1, rung_at=ClockTimestamp())
        if freed:
            rejections.let_go(run)
            audit.record(by, "resume", obj=run)
            ring(run.pk, fence=run.branch.fence, n=1, on=run.queue)
    return bool(freed)


def prioritise(run: Run, priority: Priority, *, by: Actor) -> bool:
    """Let a run that is not over be taken sooner, or later, from now on.

    False when it has that priority, or is over. Raises NotPermitted.
    """
    _require(run, by)
    wanted = Run.Priority[priority.upper()]
    with unscoped(Reason.WORKER), transaction.atomic():
        live = Run.objects.filter(pk=run.pk, status__in=Run.LIVE)
        changed = live.exclude(priority=wanted).update(priority=wanted)
        if changed:
            audit.record(
                by, "prioritise", obj=run, before=run.priority_name, after=priority
            )
    return bool(changed)


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


def switch(agent: str, *, on: bool, by: UserPrincipal) -> bool:
    """Let new runs of the agent start in this workspace, or none.

    Runs that began go on, and what they ask is decided as ever. False when it was so
    already. Raises UnknownAgent for a name that neither code nor the workspace knows,
    and NotPermitted for everyone but the workspace's admins.
    """
    if by.role is not Role.ADMIN:
        raise NotPermitted(ADMIN)
    with transaction.atomic():
        known = Agent.objects.for_user(by).filter(name=agent)
        if not known.exists():  # it never ran here
            registry.agent(agent)
            Agent.objects.for_user(by).get_or_create(
                workspace_id=by.workspace_id, name=agent
            )
        if not known.filter(enabled=not on).update(enabled=on):
            return False
        if on:
            audit.record(by, "agent_on", obj=known.get())
        else:
            audit.record(by, "agent_off", obj=known.get())
    return True


def switched_off(by: Actor) -> set[str]:
    """Names of the agents of which no run starts in this workspace."""
    off = Agent.objects.for_user(by).filter(enabled=False)
    return set(off.values_list("name", flat=True))


def _record(action: str, workspace_id: UUID, by: UserPrincipal | None) -> None:
    audit.record(
        by,
        action,
        obj=Workspace.objects.get(pk=workspace_id),
        workspace_id=workspace_id,
        via="web" if by else "command",
    )


def _require(run: Run, by: Actor) -> None:
    if not by.may_operate:
        raise NotPermitted(
            "Viewers and auditors do not pause, resume or order runs; an operator can."
        )
    if not Run.objects.for_user(by).filter(pk=run.pk).exists():
        raise NotPermitted("This thread is not shared with you.")


def _require_admin(by: UserPrincipal | None, does: str) -> None:
    if by is not None and by.role is not Role.ADMIN:
        raise NotPermitted(f"Only an admin {does} a workspace.")
