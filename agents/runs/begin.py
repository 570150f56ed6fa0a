"""How a run comes into being: a `ready` row, a grant, and a ring after commit."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

from agents.errors import UnknownAgent
from agents.models import AgentVersion, Run, ToolCall
from agents.pure.queues import Priority
from agents.tools import Agent, registry
from agents.tools.versions import agent_version
from agents.wake import ring
from checkpoints.access import Actor, Reason, ThreadScopedQuerySet
from checkpoints.clock import ClockTimestamp
from checkpoints.errors import FutureSchema, NotPermitted, Pruned, Shredded
from checkpoints.grants import grant_for
from checkpoints.log import content
from checkpoints.models import Branch, Checkpoint, Grant, Thread, ThreadInput, Workspace
from checkpoints.pure.codec import State

AS_IT_CAME = (
    "A bundle brought this branch, and it stays as it came: no run goes on here. Fork it:"
    " the fork can."
)


def begin(
    branch: Branch,
    version: AgentVersion,
    *,
    by: Actor,
    retry_of: Run | None = None,
    priority: Priority | None = None,
    request_key: UUID | None = None,
    external_id: str | None = None,
    resume: str = "",
    max_cost: Decimal | None = None,
    asks: Checkpoint | None = None,
) -> Run:
    """A run that is ready, acting for `by`, in the open transaction.

    `resume` is what a person chose that it goes on from (`Run.Resume`), `max_cost` what
    they let it cost, in US dollars; else a retry may cost as much again; `asks` the step
    whose request is all that it sends once more, as a retry of it does. Its queue is the
    agent's; so is its priority, unless the caller, or the run that it tries again, has
    another.

    Raises NotPermitted when the workspace has switched the agent off, the thread's
    content went or a bundle brought the branch, and FutureSchema when newer code than
    this has written the branch's state.
    """
    if not version.agent.enabled:
        raise NotPermitted(
            f"The agent {version.agent.name} is switched off in this workspace."
        )
    if branch.is_imported:
        raise NotPermitted(AS_IT_CAME)
    _require_known(branch, version)
    grant = grant_for(by, branch.thread_id)
    # The caller has locked the branch, or made it: nobody is removing the content.
    _require_content(branch)
    return _ready(
        branch,
        version,
        grant,
        by.user_id,
        retry_of=retry_of,
        priority=None if priority is None else Run.Priority[priority.upper()],
        request_key=request_key,
        external_id=external_id,
        resume=resume,
        max_cost=retry_of.max_cost if retry_of and max_cost is None else max_cost,
        asks_id=asks.pk if asks else _still_asks(retry_of, branch),
    )


def _still_asks(run: Run | None, branch: Branch) -> UUID | None:
    """The step that the run asked again, unless somebody has gone on on its branch since:
    a retry goes on there then."""
    if run is None or run.asks_id is None:
        return None
    kinds = (Checkpoint.Kind.INPUT, *Checkpoint.REPLIES, Checkpoint.Kind.TOOL)
    own = Checkpoint.objects.unscoped(Reason.WORKER).filter(branch=branch)
    return None if own.filter(kind__in=kinds).exists() else run.asks_id


def _require_content(branch: Branch) -> None:
    """Raises NotPermitted for a thread that was archived or deleted, with the way back."""
    try:
        content.require(branch.thread_id)
    except (Pruned, Shredded) as gone:
        raise NotPermitted(str(gone)) from None


def _require_known(branch: Branch, version: AgentVersion) -> None:
    """Say now what the run would fail with. The step's column says it unopened."""
    assert branch.head_id is not None  # create_thread() writes step 0
    newer = Checkpoint.objects.unscoped(Reason.WORKER).filter(
        pk=branch.head_id, schema_version__gt=version.schema_version
    )
    for found in newer.values_list("schema_version", flat=True):
        raise FutureSchema(found, version.schema_version)


def follow_on(run: Run, said: ThreadInput) -> Run:
    """The run that answers a message which came in while this one ended.

    It acts for the message's author, a person or a program: under the run's grant when
    that is the same one.
    """
    grant = run.grant
    author = (said.author_id, said.token_id)
    if any(author) and author != (grant.user_id, grant.token_id):
        grant = Grant.objects.create(
            workspace_id=run.workspace_id,
            thread_id=run.thread_id,
            user_id=said.author_id,
            token_id=said.token_id,
        )
    branch = Branch.objects.unscoped(Reason.WORKER).get(pk=run.branch_id)
    version = version_for(branch, "")
    return _ready(branch, version, grant, said.author_id, priority=run.priority)


def first_state(spec: Agent, text: str, params: dict[str, Any]) -> State:
    """What a thread begins with, that says this to the agent."""
    return {
        "_schema": spec.schema_version,
        "messages": [{"id": str(uuid4()), "role": "user", "content": text}],
        "params": {**spec.params(), **params},
        "goal": text,
        "plan": [],
        "facts": {},
        "decisions": [],
        "todos": [],
        "vars": {},
    }


def begin_child(
    branch: Branch,
    version: AgentVersion,
    *,
    parent: Run,
    call: ToolCall,
    max_cost: Decimal | None,
) -> Run:
    """The run that a call of another run has started, in the open transaction.

    It acts for whom that one acts for. That its agent is switched on was asked before: to
    refuse here would be to refuse the parent's step.
    """
    grant = Grant.objects.create(
        workspace_id=branch.workspace_id,
        thread_id=branch.thread_id,
        user_id=parent.grant.user_id,
        token_id=parent.grant.token_id,
        session=parent.grant.session,
    )
    return _ready(
        branch,
        version,
        grant,
        parent.started_by_id,
        priority=parent.priority,
        request_key=call.pk,
        max_cost=max_cost,
        parent=parent,
        parent_call=call,
    )


def _ready(
    branch: Branch,
    version: AgentVersion,
    grant: Grant,
    started_by: int | None,
    *,
    retry_of: Run | None = None,
    priority: int | None = None,
    request_key: UUID | None = None,
    external_id: str | None = None,
    resume: str = "",
    max_cost: Decimal | None = None,
    asks_id: UUID | None = None,
    parent_call: ToolCall | None = None,
    parent: Run | None = None,
) -> Run:
    agent = registry.agent(version.agent.name)
    if priority is None:
        priority = (
            retry_of.priority if retry_of else Run.Priority[agent.priority.upper()]
        )
    run = Run.objects.create(
        workspace_id=branch.workspace_id,
        thread_id=branch.thread_id,
        branch=branch,
        agent_version=version,
        grant=grant,
        started_by_id=started_by,
        retry_of=retry_of,
        queue=agent.queue,
        priority=priority,
        request_key=request_key,
        external_id=external_id,
        resume=resume,
        max_cost=max_cost,
        asks_id=asks_id,
        parent=parent,
        parent_call=parent_call,
        rings=1,
        rung_at=ClockTimestamp(),
    )
    ring(run.pk, fence=branch.fence, n=1, on=run.queue)
    return run


def version_for(branch: Branch, agent: str) -> AgentVersion:
    """The agent that is asked for, or the one that last worked here, as it is now.

    Raises UnknownAgent.
    """
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


def supersede_calls(run_id: UUID) -> None:
    """What the run had not begun will not be done; the branch's next run says so."""
    _unbegun().filter(run=run_id).update(
        status=ToolCall.Status.SUPERSEDED, finished_at=ClockTimestamp()
    )


def abandon_calls(branch: Branch) -> None:
    """What runs that are over left open on the branch will not be done either.

    Of a call that was under way, nobody knows whether it happened.
    """
    _unbegun().filter(branch=branch).update(
        status=ToolCall.Status.SUPERSEDED, finished_at=ClockTimestamp()
    )
    ToolCall.objects.unscoped(Reason.WORKER).filter(
        branch=branch, status=ToolCall.Status.EXECUTING
    ).update(status=ToolCall.Status.UNKNOWN, finished_at=ClockTimestamp())


def _unbegun() -> ThreadScopedQuerySet[ToolCall]:
    return ToolCall.objects.unscoped(Reason.WORKER).filter(
        status__in=[
            ToolCall.Status.PROPOSED,
            ToolCall.Status.WAITING,
            ToolCall.Status.APPROVED,
        ]
    )


def lock(branch_id: UUID) -> Branch:
    """The branch's row, locked: a run that is about to end there waits, or we do."""
    return (
        Branch.objects.unscoped(Reason.WORKER)
        .select_for_update(no_key=True)
        .get(pk=branch_id)
    )


def live_run(branch: Branch) -> Run | None:
    """The run that is not over, of the one that a branch may have."""
    return (
        Run.objects.unscoped(Reason.WORKER)
        .filter(branch=branch, status__in=Run.LIVE)
        .select_related("grant", "agent_version__agent")
        .first()
    )


def require_operator(by: Actor) -> None:
    """Raises NotPermitted."""
    if not by.may_operate:
        raise NotPermitted(
            "Viewers and auditors do not start or change runs; an operator can."
        )


def require_thread(by: Actor, thread_id: UUID) -> None:
    """Raises NotPermitted where `by` does not see the thread."""
    if not Thread.objects.for_user(by).filter(pk=thread_id).exists():
        raise NotPermitted("This thread is not shared with you.")
