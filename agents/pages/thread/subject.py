"""What a thread's page is about: the thread, its branches, and one branch's steps.

Two ways to load it. A reader gets the opened history. Somebody who may not read, or a
thread that does not open, gets the structure: kinds, times and outcomes, which are
stored in clear, and no content.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db.models import Count, Q, Sum
from django.http import Http404
from django.shortcuts import get_object_or_404

from agents.models import Run, ToolCall
from agents.pages.chips import Chips
from agents.pages.damage import DAMAGE, open_each
from agents.pages.retention.thread import Gone, gone
from agents.pages.thread.map import Line, Mark
from agents.pages.thread.steps import Step, has_failed
from agents.pure.said import text_of
from agents.tools import Agent, registry
from checkpoints import gate
from checkpoints.access import UserPrincipal
from checkpoints.errors import CheckpointsError, FutureSchema
from checkpoints.gate import Pass
from checkpoints.ids import short
from checkpoints.log.hydrate import History, read
from checkpoints.models import Branch, Checkpoint, Thread, ThreadInput

MOST_MARKS = 500
# What a step is called by those who may not read its label.
WITHOUT_CONTENT = {
    "input": "message",
    "model": "model call",
    "interrupt": "asks a person",
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


@dataclass(frozen=True)
class Totals:
    steps: int
    cost: Decimal | None
    tokens: int
    latency_ms: int


@dataclass
class Subject:
    principal: UserPrincipal
    thread: Thread
    title: str
    branches: list[Branch]
    names: dict[UUID, str]
    runs: list[Run]  # oldest first
    branch: Branch
    steps: Sequence[Step]
    history: History | None  # None: sealed
    opened: Pass | None
    damage: CheckpointsError | None = None
    gone: Gone | None = None
    people: dict[int, str] = field(default_factory=dict)

    @cached_property
    def chips(self) -> Chips:
        """For values that are kept as blobs."""
        return Chips(self.thread)

    @property
    def sealed(self) -> bool:
        return self.history is None

    @property
    def run(self) -> Run | None:
        """The newest run of the branch that is shown."""
        return newest_run(self.runs, self.branch.pk)

    @property
    def agent(self) -> Agent | None:
        """The agent that last worked here; None: nobody did, or its code is gone."""
        run = self.run or newest_run(self.runs)
        name = run.agent_version.agent.name if run else ""
        return registry.agent(name) if name in registry else None

    def future(self, step: int) -> FutureSchema | None:
        """Why nobody goes on from a step: newer code than this has written its state."""
        agent, history = self.agent, self.history
        if agent is None or history is None or step < 0:
            return None
        found = history.record(step).schema_version
        if found <= agent.schema_version:
            return None
        return FutureSchema(found, agent.schema_version)

    @property
    def newer(self) -> FutureSchema | None:
        """As `future`, for the branch's head."""
        return self.future(self.branch.head_step)

    @property
    def lines(self) -> list[Line]:
        return [
            Line(
                id=branch.pk,
                name=self.names[branch.pk],
                parent=branch.parent_id,
                fork_step=branch.fork_step,
                head_step=branch.head_step,
                status=run.status if (run := newest_run(self.runs, branch.pk)) else "",
            )
            for branch in self.branches
        ]

    @property
    def parent_name(self) -> str:
        parent = self.branch.parent_id
        return self.names.get(parent, "its source") if parent else ""

    def at(self, checkpoint: UUID | None, step: int | None) -> Step | None:
        """The step that was asked for; without a wish, the tip. None: no steps yet."""
        if checkpoint is not None:
            for found in self.steps:
                if found.id == checkpoint:
                    return found
            raise Http404
        if not self.steps:
            return None
        if step is None:
            return self.steps[-1]
        return self.steps[max(0, min(step, len(self.steps) - 1))]


def newest_run(runs: Sequence[Run], branch: UUID | None = None) -> Run | None:
    return next(
        (run for run in reversed(runs) if branch is None or run.branch_id == branch),
        None,
    )


def load(
    principal: UserPrincipal,
    thread_id: UUID,
    *,
    branch: UUID | None = None,
    checkpoint: UUID | None = None,
    purpose: str = "thread page",
) -> Subject:
    """The thread as this person may see it, with the branch that was asked for.

    Without a wish it is the branch at work, else the one that worked last. Opening is
    recorded. Raises Http404 for what is not there or not theirs.
    """
    thread = get_object_or_404(Thread.objects.for_user(principal), pk=thread_id)
    branches = list(thread.branches.order_by("created_at", "pk"))
    runs = list(
        thread.runs.select_related("agent_version__agent", "grant")
        .defer("agent_version__spec", "error")
        .order_by("created_at", "pk")
    )
    if branch is None and checkpoint is not None:
        branch = (
            thread.checkpoints.filter(pk=checkpoint)
            .values_list("branch_id", flat=True)
            .first()
        )
        if branch is None:
            raise Http404
    chosen = _chosen(branches, runs, branch)
    subject = Subject(
        principal=principal,
        thread=thread,
        title=f"Thread {short(thread.pk)}",
        branches=branches,
        names={each.pk: _sealed_name(each) for each in branches},
        runs=runs,
        branch=chosen,
        steps=(),
        history=None,
        opened=None,
    )
    if not principal.may_read:
        subject.gone = gone(thread, None)
    else:
        try:
            _open(subject, principal, purpose)
        except DAMAGE as damage:
            subject.damage = damage
            subject.history = subject.opened = None
    if subject.history is None:
        subject.steps = structure(branches, chosen)
    subject.people = people(subject.steps)
    return subject


def _chosen(
    branches: Sequence[Branch], runs: Sequence[Run], wish: UUID | None
) -> Branch:
    by_id = {branch.pk: branch for branch in branches}
    if wish is not None:
        if wish not in by_id:
            raise Http404
        return by_id[wish]
    live = [run for run in runs if run.is_live]
    run = newest_run(live) or newest_run(runs)
    if run is not None:
        return by_id[run.branch_id]
    if not branches:
        raise Http404
    return branches[0]


def _open(subject: Subject, principal: UserPrincipal, purpose: str) -> None:
    thread = subject.thread
    opened = gate.admit(
        principal,
        purpose=purpose,
        threads=[thread],
        steps=f"0-{subject.branch.head_step}",
    )
    subject.opened = opened
    subject.gone = gone(thread, opened)
    [title] = open_each(opened, [thread], "title")
    subject.title = title or f"{subject.title}: its title cannot be opened"
    names = open_each(opened, subject.branches, "name")
    subject.names = {
        branch.pk: name or _sealed_name(branch)
        for branch, name in zip(subject.branches, names, strict=True)
    }
    if subject.gone is not None:
        subject.opened = None
        return
    subject.history = read(opened, subject.branch)
    subject.steps = subject.history.records


def _sealed_name(branch: Branch) -> str:
    return "main" if branch.parent_id is None else f"branch {short(branch.pk)}"


def structure(branches: Iterable[Branch], branch: Branch) -> list[Bare]:
    """The steps of a branch through its forks, without content."""
    by_id = {each.pk: each for each in branches}
    wanted = Q(branch=branch)
    line, until = branch, branch.fork_step
    while line.parent_id is not None:
        line = by_id[line.parent_id]
        wanted |= Q(branch=line, step__lte=until)
        until = min(until, line.fork_step)
    rows = (
        branch.thread.checkpoints.filter(wanted)
        .order_by("step")
        .values_list(*(column.name for column in fields(Bare)))
    )
    return [Bare(*row) for row in rows]


def people(steps: Iterable[Step]) -> dict[int, str]:
    """Names of those who took a step."""
    ids = {step.actor_id for step in steps if step.actor_id}
    if not ids:
        return {}
    return {
        user.pk: user.get_full_name() or user.get_username()
        for user in get_user_model().objects.filter(pk__in=ids)
    }


def totals(thread: Thread) -> Totals:
    sums = thread.checkpoints.aggregate(
        steps=Count("pk"),
        cost=Sum("cost"),
        tokens_in=Sum("tokens_in"),
        tokens_out=Sum("tokens_out"),
        latency=Sum("latency_ms"),
    )
    return Totals(
        steps=sums["steps"],
        cost=sums["cost"],
        tokens=(sums["tokens_in"] or 0) + (sums["tokens_out"] or 0),
        latency_ms=sums["latency"] or 0,
    )


def marks(subject: Subject) -> list[Mark]:
    """Failed steps of every branch, and the tips that wait or are at work."""
    failed = subject.thread.checkpoints.filter(
        Q(status=Checkpoint.Status.FAILED) | Q(kind=Checkpoint.Kind.ERROR)
    ).values_list("branch_id", "step")[:MOST_MARKS]
    found = [Mark(branch, step, "red", "!", "failed") for branch, step in failed]
    for line in subject.lines:
        if line.status == Run.Status.WAITING and line.head_step > line.fork_step:
            found.append(Mark(line.id, line.head_step, "amber", "?", "waits"))
        elif line.status == Run.Status.RUNNING and line.head_step > line.fork_step:
            found.append(Mark(line.id, line.head_step, "indigo", "▸", "running"))
    return found


def calls_of(subject: Subject) -> list[ToolCall]:
    """The calls that the shown branch made or inherited, in order; nothing opened."""
    steps = {step.id: step.step for step in subject.steps}
    calls = (
        ToolCall.objects.for_user(subject.principal)
        .filter(thread=subject.thread, branch__in={s.branch_id for s in subject.steps})
        .select_related("approval__decided_by", "recorded_from")
        .defer("arguments", "reason", "effective", "result")
    )
    return sorted(
        (call for call in calls if call.reply_id in steps),
        key=lambda call: (steps[call.reply_id], call.ordinal),
    )


def queued(subject: Subject) -> list[str]:
    """Messages to the branch that are no step of what is shown, oldest first.

    One that became a step since the steps were read is among them: each message is on
    the page once, as one or the other.
    """
    if subject.opened is None:
        return []
    shown = subject.branch.head_step
    since = Q(checkpoint=None) | Q(checkpoint__step__gt=shown)
    waiting: list[ThreadInput] = list(
        subject.branch.inputs.filter(since).order_by("position")
    )
    kept = open_each(subject.opened, waiting, "content")
    return [text_of(message) for message in kept if message]


def failed_step(steps: Sequence[Step]) -> Step | None:
    return next((step for step in reversed(steps) if has_failed(step)), None)


def why_paused(subject: Subject) -> str:
    """What the run of the shown branch waits for before it goes on by itself."""
    run = subject.run
    if run is None or not run.is_paused or subject.opened is None:
        return ""
    return open_each(subject.opened, [run], "error")[0] or run.error_class
