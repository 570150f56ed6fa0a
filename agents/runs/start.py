"""Where runs come from, and how people stop them.

Each service makes what it makes in one transaction, after which the doorbell rings.
A repeated `request_key` (a form that was sent twice) gives what the first call gave.
Locks are taken in the order branch, run, approval.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from django.db import IntegrityError, transaction

from agents.errors import (
    BranchBusy,
    EmptyMessage,
    InvalidEdit,
    NotRetryable,
    UnknownAgent,
)
from agents.models import AgentVersion, Approval, Run, ToolCall
from agents.runs.edits import ForkEdits, edit_ops, problems
from agents.tools import registry
from agents.tools.versions import agent_version
from agents.wake import ring
from checkpoints import audit, gate
from checkpoints.access import Reason, UserPrincipal, unscoped
from checkpoints.clock import ClockTimestamp
from checkpoints.errors import NotPermitted
from checkpoints.log import hydrate, threads
from checkpoints.models import (
    Branch,
    Checkpoint,
    Grant,
    Group,
    Thread,
    ThreadInput,
    Workspace,
)
from checkpoints.pure.codec import State

TITLE_CHARACTERS = 60  # of the first message, where a thread was given no title
LABEL_CHARACTERS = 160


def start_run(
    *,
    agent: str,
    message: str,
    by: UserPrincipal,
    title: str = "",
    params: dict[str, Any] | None = None,
    visibility: str = Thread.Visibility.WORKSPACE,
    group: Group | None = None,
    request_key: UUID | None = None,
) -> Run:
    """A new thread with this message, and a run of the agent on it.

    Raises UnknownAgent, EmptyMessage, InvalidEdit (params) and NotPermitted.
    """
    _require_operator(by)
    text = _said(message)
    if (first := _by_key(by, request_key)) is not None:
        return first
    spec = registry.agent(agent)
    if wrong := problems(params or {}):
        raise InvalidEdit(wrong)
    workspace = Workspace.objects.get(pk=by.workspace_id)
    version = agent_version(workspace, spec)
    if not version.agent.enabled:
        raise NotPermitted(f"The agent {agent} is switched off in this workspace.")
    state: State = {
        "_schema": 1,
        "messages": [{"id": str(uuid4()), "role": "user", "content": text}],
        "params": {**spec.params(), **(params or {})},
        "goal": text,
        "plan": [],
        "facts": {},
        "decisions": [],
        "todos": [],
        "vars": {},
    }
    try:
        with transaction.atomic():
            branch = threads.create_thread(
                workspace=workspace,
                owner_id=by.user_id,
                title=title.strip() or first_words(text, TITLE_CHARACTERS),
                state=state,
                label=first_words(f"{by.name}: {text}"),
                visibility=visibility,
                group=group,
                request_key=request_key,
                actor_id=by.user_id,
            )
            run = begin(branch, version, by=by, request_key=request_key)
            audit.record(by, "start", obj=run, thread=branch.thread_id)
    except IntegrityError:
        if (first := _by_key(by, request_key)) is None:
            raise
        return first
    return run


def send_message(
    branch: Branch,
    *,
    message: str,
    by: UserPrincipal,
    agent: str = "",
    request_key: UUID | None = None,
) -> ThreadInput:
    """A message to the branch: for the run that is at work there, or for a new one.

    `agent` is needed where none has worked on the thread yet, as on an imported one.
    Raises EmptyMessage, UnknownAgent and NotPermitted.
    """
    _require_operator(by)
    _require_thread(by, branch.thread_id)
    text = _said(message)
    said = ThreadInput(
        workspace_id=branch.workspace_id,
        thread_id=branch.thread_id,
        branch=branch,
        author_id=by.user_id,
        request_key=request_key,
    )
    said.content = gate.seal(said, "content", text)
    try:
        with transaction.atomic():
            # A run that is about to end here waits for this lock, or we for it.
            locked = _locked(branch.pk)
            said.save(force_insert=True)
            audit.record(by, "message", obj=said, branch=branch.pk)
            if not _live(locked):
                # What the last run had left to do was not what is asked for now.
                ToolCall.objects.for_user(by).filter(
                    branch=locked,
                    status__in=[ToolCall.Status.PROPOSED, ToolCall.Status.APPROVED],
                ).update(
                    status=ToolCall.Status.SUPERSEDED, finished_at=ClockTimestamp()
                )
                begin(locked, _version_for(locked, agent), by=by)
    except IntegrityError:
        first = (
            ThreadInput.objects.for_user(by).filter(request_key=request_key).first()
            if request_key is not None
            else None
        )
        if first is None:
            raise
        return first
    return said


def fork_run(
    checkpoint: Checkpoint,
    *,
    edits: ForkEdits,
    name: str,
    by: UserPrincipal,
    run: bool = True,
    agent: str = "",
    request_key: UUID | None = None,
) -> Branch:
    """A branch that goes on from the checkpoint, changed so; with a run of its own.

    Raises InvalidEdit, UnknownAgent (`agent` as in `send_message`) and NotPermitted.
    """
    _require_operator(by)
    seen = gate.admit(
        by,
        purpose="fork",
        threads=[checkpoint.thread],
        steps=str(checkpoint.step),
    )
    history = hydrate.read(seen, checkpoint.branch, to_step=checkpoint.step)
    ops, label = edit_ops(history.state_at(checkpoint.step), edits)
    with transaction.atomic():
        branch = threads.fork(
            checkpoint,
            name=name.strip() or f"fork at step {checkpoint.step}",
            by_id=by.user_id,
            ops=ops,
            label=first_words(f"{by.name}: {label}"),
            request_key=request_key,
        )
        locked = _locked(branch.pk)
        if run and not Run.objects.for_user(by).filter(branch=locked).exists():
            made = begin(locked, _version_for(locked, agent), by=by)
            audit.record(by, "fork", obj=branch, source=checkpoint.pk, run=made.pk)
        elif not run:
            audit.record(by, "fork", obj=branch, source=checkpoint.pk)
    return branch


def retry(run: Run, *, by: UserPrincipal) -> Run:
    """A new run from the branch's head, where this one failed or was cancelled.

    Pressed twice, it gives the same one. Raises NotRetryable, BranchBusy, NotPermitted.
    """
    _require_operator(by)
    _require_thread(by, run.thread_id)
    with transaction.atomic():
        branch = _locked(run.branch_id)
        run = Run.objects.for_user(by).get(pk=run.pk)
        if run.status not in (Run.Status.FAILED, Run.Status.CANCELLED):
            raise NotRetryable(run.status)
        if (live := _live(branch)) is not None:
            if live.retry_of_id == run.pk:
                return live
            raise BranchBusy("Another run is at work on this branch.")
        again = begin(branch, _version_for(branch, ""), by=by, retry_of=run)
        audit.record(by, "retry", obj=again, run=run.pk)
    return again


def cancel(run: Run, *, by: UserPrincipal) -> bool:
    """Stop the run: at once while it waits, after its step while it runs.

    False when it was over already. Raises NotPermitted.
    """
    _require_operator(by)
    _require_thread(by, run.thread_id)
    with unscoped(Reason.WORKER), transaction.atomic():
        held = Run.objects.select_for_update(no_key=True).get(pk=run.pk)
        if not held.is_live:
            return False
        audit.record(by, "cancel", obj=held)
        if held.status == Run.Status.RUNNING:
            Run.objects.filter(pk=held.pk).update(cancel_requested=True)
            return True
        Run.objects.filter(pk=held.pk).update(
            status=Run.Status.CANCELLED,
            error_class="cancelled",
            finished_at=ClockTimestamp(),
        )
        Approval.objects.pending().filter(run=held).update(
            status=Approval.Status.CANCELLED, decided_at=ClockTimestamp()
        )
        supersede_calls(held.pk)
    return True


def supersede_calls(run_id: UUID) -> None:
    """What the run had not begun will not be done; the branch's next run says so."""
    open_calls = [
        ToolCall.Status.PROPOSED,
        ToolCall.Status.WAITING,
        ToolCall.Status.APPROVED,
    ]
    ToolCall.objects.unscoped(Reason.WORKER).filter(
        run=run_id, status__in=open_calls
    ).update(status=ToolCall.Status.SUPERSEDED, finished_at=ClockTimestamp())


def begin(
    branch: Branch,
    version: AgentVersion,
    *,
    by: UserPrincipal,
    retry_of: Run | None = None,
    request_key: UUID | None = None,
) -> Run:
    """A run that is ready, acting for `by`, in the open transaction."""
    grant = Grant.objects.create(
        workspace_id=branch.workspace_id,
        thread_id=branch.thread_id,
        user_id=by.user_id,
        session=by.session,
    )
    return _ready(
        branch, version, grant, by.user_id, retry_of=retry_of, request_key=request_key
    )


def follow_on(run: Run, said: ThreadInput) -> Run:
    """The run that answers a message which came in while this one ended.

    It acts for the message's author: under the run's grant when that is the same person.
    """
    grant = run.grant
    if said.author_id is not None and said.author_id != grant.user_id:
        grant = Grant.objects.create(
            workspace_id=run.workspace_id,
            thread_id=run.thread_id,
            user_id=said.author_id,
        )
    branch = Branch.objects.unscoped(Reason.WORKER).get(pk=run.branch_id)
    return _ready(branch, run.agent_version, grant, said.author_id)


def first_words(text: str, characters: int = LABEL_CHARACTERS) -> str:
    """The beginning, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= characters else line[: characters - 1].rstrip() + "…"


def _ready(
    branch: Branch,
    version: AgentVersion,
    grant: Grant,
    started_by: int | None,
    *,
    retry_of: Run | None = None,
    request_key: UUID | None = None,
) -> Run:
    run = Run.objects.create(
        workspace_id=branch.workspace_id,
        thread_id=branch.thread_id,
        branch=branch,
        agent_version=version,
        grant=grant,
        started_by_id=started_by,
        retry_of=retry_of,
        request_key=request_key,
        rings=1,
        rung_at=ClockTimestamp(),
    )
    ring(run.pk, fence=branch.fence, n=1)
    return run


def _version_for(branch: Branch, agent: str) -> AgentVersion:
    """The agent that is asked for, or the one that last worked here, as it is now."""
    if not agent:
        runs = Run.objects.unscoped(Reason.WORKER).filter(thread_id=branch.thread_id)
        # On this branch if any did, else on the thread.
        last = (
            runs.filter(branch=branch).order_by("-created_at").first()
            or runs.order_by("-created_at").first()
        )
        if last is None:
            raise UnknownAgent("", [spec.name for spec in registry])
        agent = last.agent_version.agent.name
    workspace = Workspace.objects.get(pk=branch.workspace_id)
    return agent_version(workspace, registry.agent(agent))


def _by_key(by: UserPrincipal, request_key: UUID | None) -> Run | None:
    if request_key is None:
        return None
    return Run.objects.for_user(by).filter(request_key=request_key).first()


def _locked(branch_id: UUID) -> Branch:
    return (
        Branch.objects.unscoped(Reason.WORKER)
        .select_for_update(no_key=True)
        .get(pk=branch_id)
    )


def _live(branch: Branch) -> Run | None:
    return (
        Run.objects.unscoped(Reason.WORKER)
        .filter(branch=branch, status__in=Run.LIVE)
        .first()
    )


def _require_operator(by: UserPrincipal) -> None:
    if not by.may_operate:
        raise NotPermitted(
            "Viewers and auditors do not start or change runs; an operator can."
        )


def _require_thread(by: UserPrincipal, thread_id: UUID) -> None:
    if not Thread.objects.for_user(by).filter(pk=thread_id).exists():
        raise NotPermitted("This thread is not shared with you.")


def _said(message: str) -> str:
    text = message.strip()
    if not text:
        raise EmptyMessage
    return text
