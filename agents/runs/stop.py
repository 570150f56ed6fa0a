"""How people stop a run, and how one ends that no worker holds.

Who stops a run that is at work asks for it, and it ends after its step. What a run that
ends leaves to the next is here, too: messages that nobody answered.
"""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from agents.errors import BranchBusy
from agents.models import Approval, Run
from agents.runs.begin import (
    abandon_calls,
    follow_on,
    lock,
    require_operator,
    require_thread,
    supersede_calls,
)
from agents.tools import registry
from agents.wake import make_ready, wake
from checkpoints import audit
from checkpoints.access import Actor, Reason, unscoped
from checkpoints.clock import ClockTimestamp
from checkpoints.models import Branch, Checkpoint, ThreadInput


def stop(run: Run, error_class: str) -> None:
    """End a run that no worker holds, in the open transaction that locked it."""
    with unscoped(Reason.WORKER):
        Run.objects.filter(pk=run.pk).update(
            status=Run.Status.CANCELLED,
            worker="",
            error_class=error_class,
            finished_at=ClockTimestamp(),
        )
        Approval.objects.pending().filter(run=run).update(
            status=Approval.Status.CANCELLED, decided_at=ClockTimestamp()
        )
    supersede_calls(run.pk)
    if run.parent_id is not None:
        wake(run.parent_id)


def cancel_abandoned(run_id: UUID) -> bool:
    """Cancel a run whose parent is over: nobody waits for what it finds any more.

    By the reaper, not with the parent: locks are taken from a child to its parent.
    """
    with unscoped(Reason.WORKER), transaction.atomic():
        found = Run.objects.filter(pk=run_id).values_list("branch", flat=True).first()
        if found is None:
            return False
        lock(found)
        held = Run.objects.select_for_update(no_key=True).get(pk=run_id)
        if not held.is_live or held.cancel_requested:
            return False
        if held.status == Run.Status.RUNNING:
            Run.objects.filter(pk=run_id).update(
                cancel_requested=True, interrupted=False
            )
        else:
            stop(held, "cancelled")
        audit.record(
            None,
            "cancel",
            obj=held,
            workspace_id=held.workspace_id,
            via="worker",
        )
    return True


def cancel(run: Run, *, by: Actor) -> bool:
    """Stop the run: at once while it waits, after its step while it runs.

    False when it was over already. Raises NotPermitted.
    """
    require_operator(by)
    require_thread(by, run.thread_id)
    with unscoped(Reason.WORKER), transaction.atomic():
        lock(run.branch_id)  # so that a message comes before this, or starts a run
        held = Run.objects.select_for_update(no_key=True).get(pk=run.pk)
        if not held.is_live:
            return False
        audit.record(by, "cancel", obj=held)
        if held.status == Run.Status.RUNNING:
            Run.objects.filter(pk=held.pk).update(
                cancel_requested=True, interrupted=False
            )
            return True
        stop(held, "cancelled")
    return True


def make_way(live: Run, by: Actor) -> bool:
    """Stop the run for a message, where its agent says so (`busy`).

    True: it is over, and another run answers. False: it is at work, or waits, yet. In
    the transaction that locked the branch. Raises BranchBusy where it is refused.
    """
    if live.cancel_requested:
        if live.interrupted:
            return False  # all that comes until it stops is for the next run
        raise BranchBusy(
            "The run here is being cancelled. Send this again in a moment."
        )
    agent = live.agent_version.agent.name
    busy = registry.agent(agent).busy if agent in registry else "enqueue"
    if live.needs_owner or busy == "enqueue":
        return False
    if busy == "reject":
        raise BranchBusy(
            f"The agent {agent} takes no messages while it works, and its run here is "
            f"{live.status}. Wait until it is over, cancel it, or fork the thread."
        )
    with unscoped(Reason.WORKER):
        held = Run.objects.select_for_update(no_key=True).get(pk=live.pk)
        audit.record(by, "interrupt", obj=held)
        if held.status == Run.Status.RUNNING:
            Run.objects.filter(pk=held.pk).update(
                cancel_requested=True, interrupted=True
            )
            return False
        stop(held, "interrupted")
    return True


def stop_or_make_ready(run_id: UUID, *, fence: int) -> None:
    """The run's worker let go or died: it is for the next, unless it is to be over.

    In the open transaction that freed the branch: who cancels has asked by now, or finds
    the run ready. Left to the next worker, a cancelled run that is paused as well, or
    whose agent no worker has, would never end.
    """
    with unscoped(Reason.WORKER):
        now = (
            Run.objects.select_for_update(no_key=True, of=("self",))
            .select_related("agent_version__agent")
            .filter(pk=run_id)
            .first()
        )
    if now is None or now.status != Run.Status.RUNNING:
        return
    # Only who has the agent can begin the run that answers a message.
    elsewhere = now.interrupted and now.agent_version.agent.name not in registry
    if not now.cancel_requested or elsewhere:
        make_ready(now, was=Run.Status.RUNNING, fence=fence)
        return
    stop(now, "interrupted" if now.interrupted else "cancelled")
    if now.interrupted:
        answer_rest(now, taken_in=True)


def answer_rest(run: Run, *, taken_in: bool = False) -> None:
    """Start the run that answers a message which came in while this one ended.

    `taken_in`: or one that is a step already, and that no reply came after.
    """
    with unscoped(Reason.WORKER):
        said = ThreadInput.objects.filter(branch=run.branch_id).select_related("author")
        waiting = said.undelivered().first()
        if waiting is None and taken_in:
            replies = Checkpoint.objects.filter(
                thread=run.thread_id,
                branch=run.branch_id,
                kind__in=Checkpoint.REPLIES,
            )
            last = replies.order_by("step").values_list("step", flat=True).last()
            after = said.filter(checkpoint__step__gt=-1 if last is None else last)
            waiting = after.order_by("position").last()
        if waiting is not None:
            abandon_calls(Branch.objects.get(pk=run.branch_id))
            follow_on(run, waiting)
