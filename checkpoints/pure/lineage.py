"""The tree of a thread: the way from its start to a step, and lanes to draw it in."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from checkpoints.errors import StepNotFound


@dataclass(frozen=True)
class Line:
    """A branch, as far as its place in the tree goes.

    It leaves `parent` at `fork_step`, the last step that the two share; a branch
    without a parent has fork_step -1. `tip` is its newest step, equal to `fork_step`
    while it has none of its own.
    """

    id: UUID
    parent: UUID | None
    fork_step: int
    tip: int


@dataclass(frozen=True)
class Stretch:
    """Steps `first` to `last`, both included, that lie on one branch."""

    branch: UUID
    first: int
    last: int


def path(lines: Mapping[UUID, Line], branch: UUID, step: int) -> list[Stretch]:
    """The way from step 0 to `step` as seen from `branch`, oldest first.

    Law: the stretches are not empty, and their steps, in order, are 0, 1, …, step.
    Raises StepNotFound when `step` lies beyond the tip.
    """
    line = lines[branch]
    if not 0 <= step <= line.tip:
        raise StepNotFound(
            f"Step {step} is not on the branch, which ends at {line.tip}."
        )
    way: list[Stretch] = []
    last = step
    while True:
        if line.fork_step < last:
            way.append(Stretch(line.id, line.fork_step + 1, last))
            last = line.fork_step
        if line.parent is None:
            return way[::-1]
        line = lines[line.parent]


def shared(one: Sequence[Stretch], other: Sequence[Stretch]) -> int:
    """How many steps two ways have in common, from step 0 on."""
    steps = 0
    for here, there in zip(one, other, strict=False):
        if here.branch != there.branch:
            break
        steps = min(here.last, there.last) + 1
        if here.last != there.last:
            break
    return steps


def cut(way: Iterable[Stretch], first: int, last: int) -> list[Stretch]:
    """The part of a way from step `first` to step `last`, both included."""
    return [
        Stretch(each.branch, max(each.first, first), min(each.last, last))
        for each in way
        if each.first <= last and each.last >= first
    ]


def owner(lines: Mapping[UUID, Line], branch: UUID, step: int) -> UUID:
    """The branch that holds this step of the way to `branch`. Raises StepNotFound."""
    return path(lines, branch, step)[-1].branch


def lanes(lines: Sequence[Line]) -> dict[UUID, int]:
    """A lane for each branch, from 0, given in the order in which they were made.

    Each takes the first lane on which its steps, from the fork to the tip, keep one
    step's distance from all others.
    """
    taken: list[list[tuple[int, int]]] = []  # per lane: (first, last), sorted, apart
    placed: dict[UUID, int] = {}
    for line in lines:
        span = (line.fork_step, max(line.fork_step, line.tip))
        free = (lane for lane, spans in enumerate(taken) if _fits(span, spans))
        lane = next(free, len(taken))
        if lane == len(taken):
            taken.append([])
        insort(taken[lane], span)
        placed[line.id] = lane
    return placed


def _fits(span: tuple[int, int], spans: list[tuple[int, int]]) -> bool:
    first, last = span
    after = bisect_left(spans, span)
    return (after == 0 or spans[after - 1][1] + 1 < first) and (
        after == len(spans) or last + 1 < spans[after][0]
    )
