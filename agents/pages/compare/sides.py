"""The two branches that are compared: what each is, and what it took until where it stands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from uuid import UUID

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Count, Max, Min, Q, Sum
from django.http import Http404

from agents.models import Approval, Run
from agents.pages.chips import Chips
from agents.pages.damage import open_each
from agents.pages.thread.place import Place
from checkpoints import gate
from checkpoints.access import UserPrincipal
from checkpoints.gate import Pass
from checkpoints.ids import short
from checkpoints.models import Branch, Checkpoint, CheckpointDelta, Thread
from checkpoints.pure import lineage
from checkpoints.pure.lineage import Stretch


@dataclass(frozen=True)
class Totals:
    """What the steps of a branch took, from the thread's start."""

    cost: Decimal | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    work_ms: int = 0  # milliseconds of models and tools
    wall: timedelta = timedelta()  # with all waits; not the time before a fork was made
    approvals: int = 0
    models: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out


@dataclass(frozen=True)
class Side:
    """A branch up to a step of it."""

    letter: str
    branch: Branch
    to: int
    way: Sequence[Stretch] = field(repr=False)
    run: Run | None
    totals: Totals
    title: str = field(default="", repr=False)
    name: str = field(default="", repr=False)
    last: str = field(default="", repr=False)  # the label of its last step
    forked_from: UUID | None = None

    @property
    def thread(self) -> Thread:
        return self.branch.thread

    @property
    def steps(self) -> int:
        return self.to + 1

    @property
    def colour(self) -> str:
        return "c0" if self.letter == "A" else "c1"

    @property
    def status(self) -> str:
        if self.run is not None:
            return self.run.shown_status
        return "imported" if self.thread.origin == Thread.Origin.IMPORT else "idle"

    @property
    def page(self) -> str:
        """The thread's page, at the step that is compared to."""
        place = Place(self.thread.pk, self.branch.pk)
        return (
            place.page
            if self.to == self.branch.head_step
            else place.step(self.branch.pk, self.to)[0]
        )

    def place(self, checkpoint: UUID, branch: UUID) -> str:
        """The page of one of its steps, which may be an ancestor's."""
        at = Place(self.thread.pk, self.branch.pk)
        return at.at(checkpoint, own=branch == self.branch.pk).page


@dataclass(frozen=True)
class Two:
    """Both sides; `opened` is None for those who may not read."""

    a: Side
    b: Side
    shared: int  # steps from step 0 on that are the same checkpoints
    opened: Pass | None

    @property
    def one_thread(self) -> bool:
        return self.a.thread.pk == self.b.thread.pk

    @property
    def chips(self) -> Chips:
        return Chips(self.a.thread, self.b.thread)


def load(
    principal: UserPrincipal,
    a: UUID,
    b: UUID,
    *,
    a_to: int | None = None,
    b_to: int | None = None,
) -> Two:
    """Two branches, each up to a step (its head, when None). Opening is recorded.

    Raises Http404 for what is not there, not theirs, or has no step.
    """
    branches = {
        branch.pk: branch
        for branch in Branch.objects.for_user(principal)
        .filter(pk__in={a, b})
        .select_related("thread")
    }
    if not {a, b} <= branches.keys() or any(
        branch.head_step < 0 for branch in branches.values()
    ):
        raise Http404
    threads = {branch.thread_id: branch.thread for branch in branches.values()}
    lines = {
        line.id: line
        for line in (
            lineage.Line(*row)
            for row in Branch.objects.for_user(principal)
            .filter(thread__in=threads)
            .values_list("pk", "parent_id", "fork_step", "head_step")
        )
    }
    runs = _newest_runs(principal, branches)
    sides = []
    for letter, pk, to in (("A", a, a_to), ("B", b, b_to)):
        branch = branches[pk]
        to = branch.head_step if to is None else min(to, branch.head_step)
        way = lineage.path(lines, pk, to)
        sides.append(
            Side(
                letter=letter,
                branch=branch,
                to=to,
                way=way,
                run=runs.get(pk),
                totals=_totals(principal, branch.thread, way),
                title=f"Thread {short(branch.thread_id)}",
                name=_sealed_name(branch),
                forked_from=branch.parent_id,
            )
        )
    opened = None
    if principal.may_read:
        opened = gate.admit(
            principal,
            purpose="compare",
            threads=threads.values(),
            steps=" and ".join(f"0-{side.to}" for side in sides),
        )
        sides = _named(principal, sides, opened)
    shared = lineage.shared(sides[0].way, sides[1].way)
    return Two(sides[0], sides[1], shared, opened)


def along(way: Iterable[Stretch]) -> Q:
    """The checkpoints of these stretches. Ask it of one thread's."""
    found = Q(pk__in=())
    for each in way:
        found |= Q(branch=each.branch, step__range=(each.first, each.last))
    return found


def _asked_along(way: Iterable[Stretch]) -> Q:
    """Requests that these stretches asked: by the branch that asked, as the reply that a
    request is about may be its source's; and after that reply."""
    found = Q(pk__in=())
    for each in way:
        found |= Q(
            branch=each.branch,
            checkpoint__step__range=(each.first - 1, each.last - 1),
        )
    return found


def _newest_runs(principal: UserPrincipal, branches: Iterable[UUID]) -> dict[UUID, Run]:
    runs = (
        Run.objects.for_user(principal)
        .filter(branch__in=list(branches))
        .select_related("agent_version__agent")
        .defer("agent_version__spec", "error")
        .order_by("created_at", "pk")
    )
    return {run.branch_id: run for run in runs}


def _totals(principal: UserPrincipal, thread: Thread, way: Sequence[Stretch]) -> Totals:
    rows = list(
        Checkpoint.objects.for_user(principal)
        .filter(along(way), thread=thread)
        .order_by()
        .values("branch_id")
        .annotate(
            cost_sum=Sum("cost"),
            read=Sum("tokens_in"),
            written=Sum("tokens_out"),
            work=Sum("latency_ms"),
            began=Min("created_at"),
            ended=Max("created_at"),
            asked=ArrayAgg(
                "model_requested", distinct=True, filter=~Q(model_requested="")
            ),
        )
    )
    costs = [row["cost_sum"] for row in rows if row["cost_sum"] is not None]
    approvals = Approval.objects.for_user(principal).filter(
        _asked_along(way), thread=thread
    )
    return Totals(
        cost=sum(costs, Decimal(0)) if costs else None,
        tokens_in=sum(row["read"] or 0 for row in rows),
        tokens_out=sum(row["written"] or 0 for row in rows),
        work_ms=sum(row["work"] or 0 for row in rows),
        wall=sum((row["ended"] - row["began"] for row in rows), timedelta()),
        approvals=approvals.aggregate(n=Count("pk"))["n"],
        models=tuple(sorted({name for row in rows for name in row["asked"] or ()})),
    )


def _named(principal: UserPrincipal, sides: Sequence[Side], opened: Pass) -> list[Side]:
    """With titles, names and the last steps' labels; what does not open keeps its id."""
    titles = open_each(opened, [side.thread for side in sides], "title")
    names = open_each(opened, [side.branch for side in sides], "name")
    heads = {
        delta.pk: delta
        for delta in CheckpointDelta.objects.for_user(principal).filter(
            pk__in=[side.branch.head_id for side in sides]
        )
    }
    records = dict(
        zip(heads, open_each(opened, list(heads.values()), "record"), strict=True)
    )
    found = []
    for side, title, name in zip(sides, titles, names, strict=True):
        head = records.get(side.branch.head_id)
        at_head = side.to == side.branch.head_step
        found.append(
            replace(
                side,
                title=title or side.title,
                name=name or side.name,
                last=head["label"] if head and at_head else "",
            )
        )
    return found


def _sealed_name(branch: Branch) -> str:
    return "main" if branch.parent_id is None else f"branch {short(branch.pk)}"
