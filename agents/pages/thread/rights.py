"""What somebody may do on a thread's page, and the reason where they may not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.urls import reverse

from agents.models import Approval, Run, ToolCall
from agents.pages.thread.relatives import Relatives
from agents.pages.thread.steps import Step, Wait
from agents.pages.thread.subject import Subject
from agents.runs.begin import AS_IT_CAME
from agents.tools import registry

RETRIED = {Run.Status.FAILED, Run.Status.CANCELLED}
VIEWER = "Viewers read. An operator of the workspace can send messages and fork."


@dataclass(frozen=True)
class Composer:
    """The message form: what its button does, or why it does nothing."""

    allowed: bool
    said: str
    button: str = "Send"
    approval: Approval | None = None
    agents: Sequence[str] = ()  # to choose from, where none has worked on the thread
    resumes: Sequence[tuple[str, str]] = ()  # what a run that it starts may go on from


@dataclass(frozen=True)
class Actions:
    """What stands in the page's head."""

    fork: bool
    cancel: Run | None
    retry: Run | None
    reason: str = ""
    take_over: Run | None = None
    resumes: Sequence[tuple[str, str]] = ()  # what a retry may go on from


def pending(calls: Sequence[ToolCall], subject: Subject) -> Approval | None:
    """The first request on this branch that nobody decided yet."""
    for call in calls:
        approval: Approval | None = getattr(call, "approval", None)
        if approval and approval.is_pending and approval.branch_id == subject.branch.pk:
            return approval
    return None


def lock_of(calls: Sequence[ToolCall], subject: Subject) -> str:
    """Where to look who has the lock that the run waits for; "" where it waits for none."""
    run = subject.run
    if run is None or run.status != Run.Status.WAITING:
        return ""
    if not any(call.run_id == run.pk and call.awaits_lock for call in calls):
        return ""
    board = reverse("agents:board", args=[subject.thread.pk])
    return f"{board}?branch={subject.branch.pk}"


def waiting(
    subject: Subject, calls: Sequence[ToolCall], near: Relatives
) -> Wait | None:
    """What the branch waits for at its tip."""
    run = subject.run
    if run is None or run.status != Run.Status.WAITING or not subject.steps:
        return None
    since = subject.tip.created_at
    approval = pending(calls, subject)
    if approval is None and run.needs_owner:
        return Wait("waits for an owner", since)
    if approval is None and near.waited_for:
        return Wait("waits for", since, agents=near.waited_for, href=near.address)
    if approval is None and (board := lock_of(calls, subject)):
        return Wait("waits for", since, agents="a lock", href=board)
    if approval is None:
        return Wait("waits for its turn", since)
    said = "waits for an answer to" if approval.kind == "question" else "waits for"
    return Wait(said, since, approval.pk, approval.number)


def actions(subject: Subject, at: Step | None) -> Actions:
    principal, run = subject.principal, subject.run
    if not principal.may_operate or subject.sealed:
        return Actions(False, None, None, "" if subject.sealed else VIEWER)
    newer = subject.newer
    return Actions(
        fork=at is None or subject.future(at.step) is None,
        cancel=run if run and run.is_live and not run.cancel_requested else None,
        retry=run if run and _may_be_retried(run) and not newer else None,
        take_over=run if run and run.needs_owner and not newer else None,
        resumes=resumes(subject),
    )


def _may_be_retried(run: Run) -> bool:
    return run.status in RETRIED or run.is_paused


def resumes(subject: Subject) -> Sequence[tuple[str, str]]:
    """What a run may go on from: nothing to choose where no model is sent anything."""
    agent = subject.agent
    return () if agent is not None and not agent.model else Run.Resume.choices


def composer(subject: Subject, calls: Sequence[ToolCall]) -> Composer | None:
    """None where there is nothing to read, and so nothing to say."""
    if subject.sealed:
        return None
    if not subject.principal.may_operate:
        return Composer(False, VIEWER)
    if (newer := subject.newer) is not None:
        return Composer(False, str(newer))
    if subject.branch.is_imported:
        return Composer(False, AS_IT_CAME)
    run = subject.run
    if not subject.runs:
        return _first(subject)
    if run is None or not run.is_live:
        step = subject.branch.head_step
        said = f"Starts a run that goes on from step {step}."
        return Composer(True, said, resumes=resumes(subject))
    if run.cancel_requested and not run.interrupted:
        return Composer(False, "The run is being cancelled.")
    if run.needs_owner:
        return Composer(
            True, "The run goes on, and acts for you.", "Send and take over"
        )
    busy = subject.agent.busy if subject.agent else "enqueue"
    if busy == "reject":
        return Composer(False, "This agent takes no messages while it works.")
    if busy == "interrupt":
        return Composer(
            True, "Stops the run; the next one answers this.", "Interrupt and send"
        )
    approval = pending(calls, subject)
    if approval is not None:
        return Composer(
            True, "delivered after the decision.", "Queue message", approval
        )
    return Composer(True, "Delivered before the agent's next step.", "Queue message")


def _first(subject: Subject) -> Composer:
    """Nobody worked on the thread yet, as on an imported one: somebody may begin."""
    names = [agent.name for agent in registry]
    if not names:
        return Composer(False, "No agent is installed that could answer.")
    step = subject.branch.head_step
    return Composer(True, f"Starts a run that goes on from step {step}.", agents=names)
