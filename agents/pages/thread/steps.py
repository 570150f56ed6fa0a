"""The step list: what each step of a branch was, and the waits between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Protocol
from uuid import UUID

from agents.pages.delegated import delegated_to
from agents.pages.text import duration
from agents.pages.thread.place import Place

WINDOW = 120  # rows on a page; longer branches are shown around the open step
PAUSE = timedelta(minutes=5)  # a shorter rest between two steps is not worth a line
NOTABLE = {"tool", "interrupt", "decision", "error", "edit", "resume"}


class Step(Protocol):
    """What a step list needs of a step: `StepRecord`, or a row without its content."""

    @property
    def id(self) -> UUID: ...
    @property
    def branch_id(self) -> UUID: ...
    @property
    def step(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def created_at(self) -> datetime: ...
    @property
    def latency_ms(self) -> int | None: ...
    @property
    def cost(self) -> Decimal | None: ...
    @property
    def actor_id(self) -> int | None: ...
    @property
    def error_class(self) -> str: ...


@dataclass(frozen=True)
class Row:
    checkpoint: UUID
    step: int
    kind: str
    failed: bool
    label: str
    latency_ms: int | None
    cost: Decimal | None
    place: Place
    current: bool

    @property
    def element_id(self) -> str:
        return f"step-{self.step}"


@dataclass(frozen=True)
class Wait:
    """Time in which nothing ran, and whom or what it waited for."""

    text: str
    since: datetime | None = None  # still waiting
    approval: UUID | None = None
    number: int = 0
    agents: str = ""
    href: str = ""  # of the agent's thread


@dataclass(frozen=True)
class StepList:
    branch_name: str
    shared: list[Row | Wait]  # steps that an ancestor took
    shared_open: bool
    shared_text: str
    rows: list[Row | Wait]
    earlier: Place | None  # where the window can be moved to
    later: Place | None
    matches: int | None = None  # steps that a filter leaves; None: there is none


def start_of(current: int, total: int) -> int:
    """The first step that is listed, of so many, where this one is open."""
    return max(0, min(current - WINDOW // 2, total - WINDOW))


def has_failed(step: Step) -> bool:
    return step.kind == "error" or step.status == "failed"


def is_notable(step: Step) -> bool:
    return step.kind in NOTABLE or has_failed(step)


def step_list(
    steps: Sequence[Step],
    *,
    place: Place,
    branch: UUID,
    branch_name: str,
    parent_name: str,
    current: int,
    people: Mapping[int, str],
    where: Callable[[int], tuple[UUID, UUID]],
    waiting: Wait | None = None,
) -> StepList:
    """Rows of a branch's lineage, oldest first; steps are contiguous from 0.

    `where` tells checkpoint and branch of a step that is not listed; `waiting` is what
    the branch waits for at its tip, when it does.
    """
    start = start_of(current, len(steps))
    window = steps[start : start + WINDOW]
    shared = [step for step in window if step.branch_id != branch]
    own = [step for step in window if step.branch_id == branch]

    def rows(of: Sequence[Step]) -> list[Row | Wait]:
        found: list[Row | Wait] = []
        for step in of:
            found += _pause(steps, step, people)
            own = step.branch_id == branch
            found.append(_row(step, step.label, place.at(step.id, own=own), current))
        return found

    own_rows = rows(own)
    if waiting and window and start + WINDOW >= len(steps):
        own_rows.append(waiting)

    def moved(to: int) -> Place | None:
        if not 0 <= to < len(steps):
            return None
        checkpoint, taken_by = where(to)
        return place.at(checkpoint, own=taken_by == branch)

    fork_step = own[0].step - 1 if own else max(0, len(steps) - 1)
    first = shared[0].step if shared else 0
    return StepList(
        branch_name=branch_name,
        shared=rows(shared),
        shared_open=any(step.step == current for step in shared) or not own,
        shared_text=_shared_text(first, fork_step, parent_name) if shared else "",
        rows=own_rows,
        earlier=moved(max(0, start - WINDOW // 2)) if start else None,
        later=moved(min(len(steps) - 1, start + WINDOW + WINDOW // 2))
        if start + WINDOW < len(steps)
        else None,
    )


def filtered_list(
    rows: Sequence[Step],
    *,
    place: Place,
    branch: UUID,
    branch_name: str,
    parent_name: str,
    current: int,
    label: Callable[[Step], str],
    earlier: int | None,
    later: int | None,
    matches: int,
    where: Callable[[int], tuple[UUID, UUID]],
) -> StepList:
    """As `step_list`, of these steps alone: between them there is no wait to tell of.

    `earlier` and `later` are the steps that the window can be moved to; `matches` is how
    many steps there are in all.
    """

    def row(step: Step) -> Row:
        own = step.branch_id == branch
        return _row(step, label(step), place.at(step.id, own=own), current)

    def moved(to: int | None) -> Place | None:
        if to is None:
            return None
        checkpoint, taken_by = where(to)
        return place.at(checkpoint, own=taken_by == branch)

    shared = [row(step) for step in rows if step.branch_id != branch]
    many = "step" if len(shared) == 1 else "steps"
    return StepList(
        branch_name=branch_name,
        shared=list(shared),
        shared_open=True,
        shared_text=f"{len(shared)} {many} shared with {parent_name}" if shared else "",
        rows=[row(step) for step in rows if step.branch_id == branch],
        earlier=moved(earlier),
        later=moved(later),
        matches=matches,
    )


def _row(step: Step, label: str, place: Place, current: int) -> Row:
    return Row(
        checkpoint=step.id,
        step=step.step,
        kind=step.kind,
        failed=has_failed(step),
        label=label,
        latency_ms=step.latency_ms,
        cost=step.cost,
        place=place,
        current=step.step == current,
    )


def _shared_text(first: int, last: int, parent: str) -> str:
    if first == last:
        return f"Step {last} shared with {parent}"
    return f"Steps {first}\N{EN DASH}{last} shared with {parent}"


def _pause(
    steps: Sequence[Step], step: Step, people: Mapping[int, str]
) -> Iterator[Wait]:
    """The wait before this step, when there was one."""
    if step.step == 0:
        return
    before = steps[step.step - 1]
    if before.branch_id != step.branch_id:
        return  # forked later: nobody waited
    waited = step.created_at - before.created_at
    if step.latency_ms:
        waited -= timedelta(milliseconds=step.latency_ms)
    if before.kind == "interrupt" and waited >= timedelta(seconds=1):
        agent = delegated_to(step.name) if step.kind == "tool" else ""
        who = people.get(step.actor_id or 0, agent or "a decision")
        yield Wait(f"{duration(waited)} waiting for {who}")
    elif waited >= PAUSE:
        yield Wait(f"{duration(waited)} later")
