"""Threads and runs as programs see them: for the API, and for `manage.py run`.

What a program gets is what a page shows: rows of its workspace that it may see, opened
through the gate, which records it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import Q

from agents.models import Approval, Run
from checkpoints import gate
from checkpoints.access import Actor
from checkpoints.blobs import Contents
from checkpoints.errors import Pruned, Shredded, StepNotFound
from checkpoints.gate import Pass
from checkpoints.log import hydrate
from checkpoints.models import Branch, Checkpoint, Thread

GONE = (Pruned, Shredded)


@dataclass(frozen=True)
class Asked:
    """A request that a run waits for; people decide it on the page that `path` names."""

    id: UUID
    number: int
    tool: str
    kind: str
    path: str


@dataclass(frozen=True)
class RunReport:
    """How a run stands. `cost` is in US dollars; null: unknown."""

    id: UUID
    external_id: str | None
    thread: UUID
    branch: UUID
    agent: str
    agent_version: int
    status: str  # ready, paused, running, waiting, succeeded, failed, cancelled
    queue: str
    priority: str  # high, normal, low
    halted: bool  # all runs of the workspace are stopped, until an admin lifts that
    needs_owner: bool
    cancel_requested: bool
    steps: int
    tokens: int
    cost: Decimal | None
    error_class: str
    failed_step: int | None
    retry_of: UUID | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    path: str


@dataclass(frozen=True)
class RunDetail(RunReport):
    """With what had to be opened for it."""

    error: str | None = field(repr=False)
    answer: str | None = field(repr=False)  # what the agent said last, once succeeded
    waits_for: list[Asked]


@dataclass(frozen=True)
class BranchReport:
    id: UUID
    name: str = field(repr=False)
    parent: UUID | None
    fork_step: int  # the step it leaves its parent at; -1: none
    head: UUID | None
    head_step: int
    queued: int  # messages that no step holds yet


@dataclass(frozen=True)
class ThreadReport:
    id: UUID
    title: str = field(repr=False)
    visibility: str
    created_at: datetime
    branches: list[BranchReport]
    runs: list[RunReport]  # oldest first


@dataclass(frozen=True)
class StepReport:
    id: UUID
    step: int
    branch: UUID
    kind: str
    status: str
    name: str
    label: str = field(repr=False)
    run: UUID | None
    model: str
    tokens_in: int | None
    tokens_out: int | None
    cost: Decimal | None
    latency_ms: int | None
    error_class: str
    created_at: datetime


@dataclass(frozen=True)
class HistoryReport:
    """Steps of a branch from the thread's start, through forks, in order."""

    thread: UUID
    branch: UUID
    head_step: int
    steps: list[StepReport] = field(repr=False)
    next_after: int | None  # ask again with `after` this; null: that was all


@dataclass(frozen=True)
class StateReport:
    thread: UUID
    branch: UUID
    checkpoint: UUID
    step: int
    state: dict[str, Any] = field(repr=False)


def runs_of(
    by: Actor,
    *,
    status: str = "",
    agent: str = "",
    external_id: str = "",
    before: UUID | None = None,
    limit: int = 50,
) -> list[RunReport]:
    """Runs that `by` may see, newest first; `before` is the id of a run, to go on from."""
    found = _runs(by)
    if status:
        found = found.filter(status=status)
    if agent:
        found = found.filter(agent_version__agent__name=agent)
    if external_id:
        found = found.filter(external_id=external_id)
    if before is not None:
        last = Run.objects.for_user(by).filter(pk=before).values("created_at")[:1]
        found = found.filter(Q(created_at__lt=last) | Q(created_at=last, pk__lt=before))
    return [_run(run) for run in found.order_by("-created_at", "-pk")[:limit]]


def brief(run: Run, *, by: Actor) -> RunReport:
    """How the run stands now, without opening anything."""
    return _run(_runs(by).get(pk=run.pk))


def detail(run: Run, *, by: Actor) -> RunDetail:
    """How the run stands, with why it failed or what it answered.

    Raises NotPermitted, and what makes a record unreadable.
    """
    run = _runs(by).get(pk=run.pk)
    error = answer = None
    if run.error is not None or run.status == Run.Status.SUCCEEDED:
        opened = gate.admit(by, purpose="run status", threads=[run.thread])
        error = opened.open(run, "error")
        if run.status == Run.Status.SUCCEEDED:
            answer = _answer(opened, run)
    asked = (
        Approval.objects.for_user(by).pending().filter(run=run).select_related("call")
    )
    return RunDetail(
        **vars(_run(run)),
        error=error,
        answer=answer,
        waits_for=[
            Asked(
                id=each.pk,
                number=each.number,
                tool=each.call.tool,
                kind=each.kind,
                path=f"/inbox/{each.pk}/",
            )
            for each in asked.order_by("number")
        ],
    )


def thread_of(thread: Thread, *, by: Actor) -> ThreadReport:
    """The thread with its branches and runs. Raises as `detail` does."""
    opened = gate.admit(by, purpose="thread status", threads=[thread])
    branches = list(thread.branches.order_by("created_at", "pk"))
    runs = _runs(by).filter(thread=thread).order_by("created_at", "pk")
    waiting: dict[UUID, int] = {}
    for branch_id in thread.inputs.undelivered().values_list("branch_id", flat=True):
        waiting[branch_id] = waiting.get(branch_id, 0) + 1
    names = opened.open_all(branches, "name")
    return ThreadReport(
        id=thread.pk,
        title=opened.open(thread, "title"),
        visibility=thread.visibility,
        created_at=thread.created_at,
        branches=[
            BranchReport(
                id=branch.pk,
                name=name,
                parent=branch.parent_id,
                fork_step=branch.fork_step,
                head=branch.head_id,
                head_step=branch.head_step,
                queued=waiting.get(branch.pk, 0),
            )
            for branch, name in zip(branches, names, strict=True)
        ],
        runs=[_run(run) for run in runs],
    )


def history(
    branch: Branch, *, by: Actor, after: int = -1, limit: int = 200
) -> HistoryReport:
    """At most `limit` steps that follow step `after`. Raises as `hydrate.read` does."""
    last = min(after + limit, branch.head_step)
    opened = gate.admit(
        by, purpose="history", threads=[branch.thread], steps=f"{after + 1}-{last}"
    )
    records: Sequence[Any] = ()
    if last > after:
        records = hydrate.read(opened, branch, to_step=last).records[after + 1 :]
    return HistoryReport(
        thread=branch.thread_id,
        branch=branch.pk,
        head_step=branch.head_step,
        steps=[
            StepReport(
                id=each.id,
                step=each.step,
                branch=each.branch_id,
                kind=each.kind,
                status=each.status,
                name=each.name,
                label=each.label,
                run=each.run,
                model=each.model_returned or each.model_requested,
                tokens_in=each.tokens_in,
                tokens_out=each.tokens_out,
                cost=each.cost,
                latency_ms=each.latency_ms,
                error_class=each.error_class,
                created_at=each.created_at,
            )
            for each in records
        ],
        next_after=last if last < branch.head_step else None,
    )


def state(
    branch: Branch, *, by: Actor, step: int, contents: bool = False
) -> StateReport:
    """The state after a step; `contents` puts long values in place of references.

    Raises StepNotFound, and as `hydrate.state` and `blobs.read` do.
    """
    if not 0 <= step <= branch.head_step:
        raise StepNotFound(_no_step(branch, step))
    opened = gate.admit(by, purpose="state", threads=[branch.thread], steps=str(step))
    found = hydrate.read(opened, branch, to_step=step)
    value = found.state_at(step)
    if contents:
        value = Contents(opened, branch.thread_id).restore(value)
    return StateReport(
        thread=branch.thread_id,
        branch=branch.pk,
        checkpoint=found.record(step).id,
        step=step,
        state=value,
    )


def checkpoint_at(branch: Branch, *, step: int, by: Actor) -> Checkpoint:
    """The checkpoint of a step on the branch, through its forks. Raises StepNotFound."""
    line = branch
    while line.parent_id is not None and step <= line.fork_step:
        line = branch.thread.branches.get(pk=line.parent_id)
    found = (
        Checkpoint.objects.for_user(by)
        .filter(branch=line, step=step)
        .select_related("branch", "thread")
        .first()
    )
    if found is None or step > branch.head_step:
        raise StepNotFound(_no_step(branch, step))
    return found


def main_branch(thread: Thread) -> Branch:
    """The branch that is meant where none is named: at work, or that worked last."""
    runs = thread.runs.order_by("created_at", "pk")
    run = runs.filter(status__in=Run.LIVE).last() or runs.last()
    branches = thread.branches.order_by("created_at", "pk")
    found = branches.filter(pk=run.branch_id).first() if run else branches.first()
    assert found is not None  # create_thread() makes one
    return found


def _no_step(branch: Branch, step: int) -> str:
    return f"There is no step {step} here; the branch has 0 to {branch.head_step}."


def _runs(by: Actor) -> Any:
    return Run.objects.for_user(by).select_related(
        "agent_version__agent", "grant", "thread", "branch", "workspace"
    )


def _run(run: Run) -> RunReport:
    return RunReport(
        id=run.pk,
        external_id=run.external_id,
        thread=run.thread_id,
        branch=run.branch_id,
        agent=run.agent_version.agent.name,
        agent_version=run.agent_version.number,
        status=run.shown_status,
        queue=run.queue,
        priority=run.priority_name,
        halted=run.is_live and run.workspace.halted_at is not None,
        needs_owner=run.needs_owner,
        cancel_requested=run.cancel_requested,
        steps=run.steps,
        tokens=run.tokens,
        cost=run.cost,
        error_class=run.error_class,
        failed_step=run.failed_step,
        retry_of=run.retry_of_id,
        created_at=run.created_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
        path=f"/threads/{run.thread_id}/?branch={run.branch_id}",
    )


def _answer(opened: Pass, run: Run) -> str | None:
    """What the agent said at the run's last step; None where that went or is no text."""
    last = (
        run.branch.checkpoints.filter(run=run.pk, kind__in=Checkpoint.REPLIES)
        .order_by("-step")
        .first()
    )
    if last is None:
        return None
    try:
        messages = hydrate.state(opened, run.branch, step=last.step)["messages"]
        if messages[-1]["role"] != "assistant":
            return None  # its code said nothing at the end
        said = Contents(opened, run.thread_id).restore(messages[-1]["content"])
    except GONE:
        return None
    return said if isinstance(said, str) else None
