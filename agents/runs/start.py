"""Where runs come from.

Each service makes what it makes in one transaction, after which the doorbell rings.
A repeated `request_key` (a form that was sent twice) gives what the first call gave.
Locks are taken in the order branch, run, approval.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from agents.errors import (
    AlreadyStarted,
    BranchBusy,
    EmptyMessage,
    InvalidEdit,
    NotRetryable,
)
from agents.models import Run
from agents.pure.labels import first_words
from agents.pure.queues import Priority
from agents.pure.said import Said, flags, said, text_of
from agents.runs.begin import (
    abandon_calls,
    begin,
    first_state,
    live_run,
    lock,
    require_operator,
    require_thread,
    version_for,
)
from agents.runs.edits import ForkEdits, edit_ops, problems
from agents.runs.fork_calls import checked
from agents.runs.own_calls import require_own_calls
from agents.runs.said_later import said_later
from agents.runs.source import Source, open_source
from agents.runs.stop import make_way
from agents.tools import registry
from agents.tools.secrets import capture, captured
from agents.tools.versions import agent_version
from agents.wake import adopt, ring, wake
from checkpoints import audit, gate
from checkpoints.access import Actor, Reason, unscoped
from checkpoints.clock import ClockTimestamp
from checkpoints.errors import NotPermitted, Pruned, Shredded
from checkpoints.grants import token_of
from checkpoints.log import threads
from checkpoints.models import (
    Branch,
    Checkpoint,
    Group,
    Thread,
    ThreadInput,
    Workspace,
)
from checkpoints.pure.codec import clean
from checkpoints.pure.ops import fold

CHOSEN_LATE = (
    "A run is at work here and takes the message as it goes on. What a run goes on from "
    "can be chosen where the message starts one: once this one is over, or in a fork."
)
NO_RUN = {"resume": "Nothing runs yet: choose it with the message."}
NOT_WITHOUT = "Nothing runs yet: this is for a run."
TITLE_CHARACTERS = 60  # of the first message, where a thread was given no title


def start_run(
    *,
    agent: str,
    message: str,
    by: Actor,
    title: str = "",
    params: dict[str, Any] | None = None,
    visibility: str = Thread.Visibility.WORKSPACE,
    group: Group | None = None,
    priority: Priority | None = None,
    request_key: UUID | None = None,
    external_id: str | None = None,
) -> Run:
    """A new thread with this message, and a run of the agent on it.

    `external_id` is the caller's own name for the run: the second call with it gives the
    first one's run, whatever its message. `priority`: else the agent's.

    Raises UnknownAgent, EmptyMessage, InvalidEdit (params), NotPermitted, and
    AlreadyStarted when the id is another agent's, or is of a run that `by` may not see.
    """
    require_operator(by)
    if visibility == Thread.Visibility.GROUP and (
        group is None or group.pk not in by.groups
    ):
        raise NotPermitted("A thread is shared with a group by one who is in it.")
    kept = _said(message)
    text = text_of(kept)
    params, _ = capture(params or {})
    if (first := _by_key(by, request_key)) is not None:
        return first
    if (first := _by_external_id(by, external_id, agent)) is not None:
        return first
    spec = registry.agent(agent)
    if wrong := problems(params):
        raise InvalidEdit(wrong)
    workspace = Workspace.objects.get(pk=by.workspace_id)
    version = agent_version(workspace, spec)
    state = first_state(spec, text, params)
    try:
        with transaction.atomic():
            branch = threads.create_thread(
                workspace=workspace,
                owner_id=by.user_id,
                title=captured(clean(title.strip())[0])
                or first_words(text, TITLE_CHARACTERS),
                state=state,
                label=first_words(f"{by.name}: {text}"),
                visibility=visibility,
                group=group,
                request_key=request_key,
                actor_id=by.user_id,
                context=flags(kept),
            )
            run = begin(
                branch,
                version,
                by=by,
                priority=priority,
                request_key=request_key,
                external_id=external_id,
            )
            audit.record(by, "start", obj=run, thread=branch.thread_id)
    except IntegrityError:
        first = _by_key(by, request_key) or _by_external_id(by, external_id, agent)
        if first is not None:
            return first
        if external_id is None:
            raise
        raise AlreadyStarted(external_id, "by a run that you may not see") from None
    return run


def send_message(
    branch: Branch,
    *,
    message: str,
    by: Actor,
    agent: str = "",
    request_key: UUID | None = None,
    resume: str = "",
) -> ThreadInput:
    """A message to the branch: for the run that is at work there, or for a new one.

    `agent` is needed where none has worked on the thread yet, as on an imported one.
    Where a run is not over, its agent says what becomes of that (`busy`): the message is
    queued for it, refused, or stops it and is answered by the next run. Messages to a
    branch have a total order: that in which they were taken, by `position`.

    `resume` is what a new run goes on from (`Run.Resume`; empty: as its agent says).

    Raises EmptyMessage, UnknownAgent, NotPermitted, and BranchBusy while the run there
    is being cancelled, is one of an agent that takes no messages while it works, or goes
    on by itself and so from what it works on, not from `resume`.
    """
    require_operator(by)
    require_thread(by, branch.thread_id)
    kept = _said(message)
    waiting = _input(branch, kept, by, request_key)
    try:
        with transaction.atomic():
            # A run that is about to end here waits for this lock, or we for it.
            locked = lock(branch.pk)
            waiting.save(force_insert=True)
            audit.record(by, "message", obj=waiting, branch=branch.pk)
            live = live_run(locked)
            if live is not None and not make_way(live, by):
                if resume:
                    raise BranchBusy(CHOSEN_LATE)
                if live.needs_owner:
                    adopt(live, by)
                    wake(live.pk)
            else:
                # What the last run left undone is not what is asked for now.
                abandon_calls(locked)
                begin(locked, version_for(locked, agent), by=by, resume=resume)
    except IntegrityError:
        first = (
            ThreadInput.objects.unscoped(Reason.WORKER)
            .filter(request_key=request_key, workspace_id=by.workspace_id)
            .first()
            if request_key is not None
            else None
        )
        if first is None:
            raise
        whose = (first.branch_id, first.author_id, first.token_id)
        if whose != (branch.pk, by.user_id, token_of(by)):
            raise NotPermitted(threads.NOT_YOURS) from None
        return first
    return waiting


def fork_run(
    checkpoint: Checkpoint,
    *,
    edits: ForkEdits,
    name: str,
    by: Actor,
    run: bool = True,
    agent: str = "",
    calls: str = Branch.Calls.RECORDED,
    call_choices: Mapping[UUID, str] | None = None,
    request_key: UUID | None = None,
    resume: str = "",
    max_cost: Decimal | None = None,
    reapply: bool = False,
    source: Source | None = None,
    asks: Checkpoint | None = None,
) -> Branch:
    """A branch that goes on from the checkpoint, changed so; with a run of its own.

    `calls` says what becomes of calls with effects there (`Branch.Calls`), `call_choices`
    of which calls of the source something else; `resume` what its first run goes on from:
    empty is the source's conversation, however old, `max_cost` what that run may cost.
    `reapply`: what people said on the source later is said to it again, by `by`; their
    decisions never are. `source`: the checkpoint, where the caller has opened it. `asks`:
    the step whose request its run sends once more, and nothing else (ask_again.py).

    Raises InvalidEdit (also where it would wait for calls that were made elsewhere),
    UnknownAgent (`agent` as in `send_message`) and NotPermitted.
    """
    require_operator(by)
    of_run = {"resume": resume, "max_cost": max_cost, "reapply": reapply}
    if not run and (asked := [name for name, value in of_run.items() if value]):
        raise InvalidEdit({name: NO_RUN.get(name, NOT_WITHOUT) for name in asked})
    choices = checked(checkpoint, call_choices or {}, calls=calls, by=by)
    source = source or open_source(checkpoint, by=by)
    state = source.state
    values, cleaned = clean(vars(edits))
    values, secrets = capture(values)
    replaced = {"cleaned": cleaned, "secrets": secrets}
    flagged = {name: found for name, found in replaced.items() if found}
    later = said_later(source.seen, checkpoint, state) if reapply else []
    ops, label = edit_ops(state, replace(edits, **values))
    require_own_calls(source.opened, fold(state, ops), checkpoint.thread)
    told: dict[str, Any] = {"source": checkpoint.pk, "calls": calls}
    if choices:
        told["otherwise"] = len(choices)
    with transaction.atomic():
        try:
            branch = threads.fork(
                checkpoint,
                name=captured(clean(name.strip())[0])
                or f"fork at step {checkpoint.step}",
                by_id=by.user_id,
                ops=ops,
                label=first_words(f"{by.name}: {label}"),
                context=flagged or None,
                calls=calls,
                call_choices=choices,
                request_key=request_key,
            )
        except (Pruned, Shredded) as gone:
            raise NotPermitted(str(gone)) from None
        if not run:
            audit.record(by, "fork", obj=branch, **told)
            return branch
        locked = lock(branch.pk)
        if not Run.objects.for_user(by).filter(branch=locked).exists():
            for message in later:
                _queue(locked, message, by)
            version = version_for(locked, agent)
            made = begin(
                locked, version, by=by, resume=resume, max_cost=max_cost, asks=asks
            )
            audit.record(by, "fork", obj=branch, run=made.pk, **told)
    return branch


def _input(
    branch: Branch, kept: Said, by: Actor, request_key: UUID | None = None
) -> ThreadInput:
    """A message to the branch, not yet stored."""
    waiting = ThreadInput(
        workspace_id=branch.workspace_id,
        thread_id=branch.thread_id,
        branch=branch,
        author_id=by.user_id,
        token_id=token_of(by),
        request_key=request_key,
    )
    waiting.content = gate.seal(waiting, "content", kept)
    return waiting


def _queue(branch: Branch, message: str, by: Actor) -> None:
    """Store a message for the run that is about to begin on the branch."""
    waiting = _input(branch, _said(message), by)
    waiting.save(force_insert=True)
    audit.record(by, "message", obj=waiting, branch=branch.pk)


def retry(
    run: Run, *, by: Actor, resume: str = "", max_cost: Decimal | None = None
) -> Run:
    """A new run from the branch's head, where this one failed or was cancelled.

    A run that pauses is tried at once, and is given itself; so is one that needs an
    owner: it goes on for `by`. `resume` is what it goes on from (`Run.Resume`),
    `max_cost` what a new run may cost: else as much again, where there was a limit.

    Pressed twice, it gives the same one. Raises NotRetryable, BranchBusy, UnknownAgent
    (its code is gone) and NotPermitted.
    """
    require_operator(by)
    require_thread(by, run.thread_id)
    with transaction.atomic():
        branch = lock(run.branch_id)
        of_run = Run.objects.for_user(by).select_related("grant")
        run = of_run.select_for_update(no_key=True, of=("self",)).get(pk=run.pk)
        if resume and (run.needs_owner or run.is_paused):
            Run.objects.for_user(by).filter(pk=run.pk).update(resume=resume)
        if run.needs_owner:
            adopt(run, by)
            wake(run.pk)
            return run
        if run.is_paused:
            _try_now(run, fence=branch.fence)
            audit.record(by, "retry", obj=run)
            return run
        if run.status not in (Run.Status.FAILED, Run.Status.CANCELLED):
            raise NotRetryable(run.status)
        if (live := live_run(branch)) is not None:
            if live.retry_of_id == run.pk:
                return live
            raise BranchBusy("Another run is at work on this branch.")
        version = version_for(branch, "")
        again = begin(
            branch, version, by=by, retry_of=run, resume=resume, max_cost=max_cost
        )
        audit.record(by, "retry", obj=again, run=run.pk)
    return again


def _by_key(by: Actor, request_key: UUID | None) -> Run | None:
    if request_key is None:
        return None
    run = Run.objects.for_user(by).filter(request_key=request_key).first()
    if run is not None and (run.started_by_id, run.grant.token_id) != (
        by.user_id,
        token_of(by),
    ):
        raise NotPermitted(threads.NOT_YOURS)
    return run


def _by_external_id(by: Actor, external_id: str | None, agent: str) -> Run | None:
    if external_id is None:
        return None
    run = (
        Run.objects.for_user(by)
        .filter(external_id=external_id)
        .select_related("agent_version__agent")
        .first()
    )
    if run is not None and run.agent_version.agent.name != agent:
        name = run.agent_version.agent.name
        raise AlreadyStarted(external_id, f"by a run of the agent {name}")
    return run


def _try_now(run: Run, *, fence: int) -> None:
    """End a run's pause, in the open transaction; it rings after commit."""
    with unscoped(Reason.WORKER):
        Run.objects.filter(pk=run.pk, status=Run.Status.READY).update(
            wake_at=None, rings=1, rung_at=ClockTimestamp()
        )
    ring(run.pk, fence=fence, n=1, on=run.queue)


def _said(message: str) -> Said:
    text, secrets = capture(message)
    kept = said(text, secrets=secrets)
    if not text_of(kept):
        raise EmptyMessage
    return kept
