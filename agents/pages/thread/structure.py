"""A thread's branches and a branch's steps by what is stored of them in clear."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.db.models import Q, QuerySet
from django.http import Http404

from agents.models import Run
from agents.pages.thread.map import Line
from checkpoints.access import UserPrincipal
from checkpoints.compiled import Compiled
from checkpoints.models import Branch, Checkpoint, Thread

# What a step is called by those who may not read its label.
WITHOUT_CONTENT = {
    "input": "message",
    "model": "model call",
    "code": "the agent's own code",
    "interrupt": "asks a person or an agent, or waits for a lock",
    "error": "failure",
}


@dataclass(frozen=True)
class Bare:
    """A step without its content: the columns that are stored in clear."""

    id: UUID
    branch_id: UUID
    step: int
    kind: str
    status: str
    name: str
    run: UUID | None
    actor_id: int | None
    agent_version: UUID | None
    model_requested: str
    model_returned: str
    temperature: float | None
    top_p: float | None
    seed: int | None
    fingerprint: str
    tokens_in: int | None
    tokens_out: int | None
    cost: Decimal | None
    latency_ms: int | None
    error_class: str
    created_at: datetime

    @property
    def label(self) -> str:
        return self.name or WITHOUT_CONTENT.get(self.kind, self.kind)


def tree_of(
    principal: UserPrincipal, thread_id: UUID
) -> tuple[Thread, list[Branch], list[Run]]:
    """A thread with its branches and runs, oldest first. Raises Http404."""
    thread = _THREAD.first(principal, pk=thread_id)
    if thread is None:
        raise Http404
    branches = _BRANCHES.rows(principal, thread=thread_id)
    runs = _RUNS.rows(principal, thread=thread_id)
    for row in (*branches, *runs):
        row.thread = thread
    return thread, branches, runs


def place_of(
    principal: UserPrincipal, thread: Thread, checkpoint: UUID
) -> tuple[UUID, int]:
    """The branch that holds a checkpoint of the thread, and its step. Raises Http404."""
    found = _PLACE.first(principal, thread=thread.pk, pk=checkpoint)
    if found is None:
        raise Http404
    branch, step = found
    return branch, step


# Asked for every step that somebody looks at. What is reached from a thread is scoped by
# whether the thread was found.
_THREAD = Compiled(lambda by, pk: Thread.objects.for_user(by).filter(pk=pk))
_BRANCHES = Compiled(
    lambda _, thread: Thread(pk=thread).branches.order_by("created_at", "pk")
)
_RUNS = Compiled(
    lambda _, thread: (
        Thread(pk=thread)
        .runs.select_related("agent_version__agent", "grant")
        .defer("agent_version__spec", "error")
        .order_by("created_at", "pk")
    )
)
_PLACE = Compiled(
    lambda _, thread, pk: (
        Thread(pk=thread).checkpoints.filter(pk=pk).values_list("branch_id", "step")
    )
)


def lines_of(branches: Iterable[Branch], runs: Iterable[Run]) -> list[Line]:
    """The branches as the map has them; `runs` oldest first."""
    newest = {run.branch_id: run.status for run in runs}
    return [
        Line(
            id=branch.pk,
            parent=branch.parent_id,
            fork_step=branch.fork_step,
            head_step=branch.head_step,
            status=newest.get(branch.pk, ""),
        )
        for branch in branches
    ]


def lasts(branches: Iterable[Branch], branch: Branch) -> dict[UUID, int]:
    """The branches that a branch goes through from the thread's start, each with the last
    step that it has from there; of itself the head."""
    by_id = {each.pk: each for each in branches}
    found = {branch.pk: branch.head_step}
    line, until = branch, branch.fork_step
    while line.parent_id is not None:
        line = by_id[line.parent_id]
        found[line.pk] = until
        until = min(until, line.fork_step)
    return found


def of_line(branches: Iterable[Branch], branch: Branch) -> Q:
    """Condition: a checkpoint is on the way to this branch, or its own."""
    wanted = Q(branch=branch)
    for each, last in lasts(branches, branch).items():
        if each != branch.pk:
            wanted |= Q(branch=each, step__lte=last)
    return wanted


def structure(branches: Iterable[Branch], branch: Branch) -> list[Bare]:
    """The steps of a branch through its forks, without content."""
    rows = branch.thread.checkpoints.filter(of_line(branches, branch))
    return bare(rows.order_by("step"))


def bare(rows: QuerySet[Checkpoint]) -> list[Bare]:
    columns = (column.name for column in fields(Bare))
    return [Bare(*row) for row in rows.values_list(*columns)]
