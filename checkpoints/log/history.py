"""The steps of a branch, opened: their operations, their rows, the states on the way."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import chain as chained
from operator import attrgetter, itemgetter
from typing import overload
from uuid import UUID

from checkpoints.errors import StepNotFound
from checkpoints.log import verified
from checkpoints.log.record import StepRecord, step_record
from checkpoints.log.remembered import Remembered
from checkpoints.pure.codec import State
from checkpoints.pure.ops import Op, fold

KEPT = 8  # states: a page asks for two or three, each in several places

_OPS = itemgetter("ops")  # of a step's text
_STEP = attrgetter("step")


class History:
    """The steps of a branch from the thread's start, through forks, to a step."""

    def __init__(self, records: Sequence[StepRecord]) -> None:
        """`records` in step order, without a gap, beginning with step 0."""
        self.records = records
        self._folded: dict[int, State] = {}  # by step, the last that were asked for

    def __repr__(self) -> str:
        return f"History({len(self.records)} steps)"

    @property
    def near(self) -> range:
        """The steps whose rows were read."""
        return range(len(self.records))

    def record(self, step: int) -> StepRecord:
        """Raises StepNotFound."""
        self._require(step)
        return self.records[step]

    def operations(
        self, until: int | None = None, *, since: int = 0
    ) -> Iterator[tuple[int, list[Op]]]:
        """(step, operations) of each step from `since` to before `until`, in order."""
        return ((record.step, record.ops) for record in self.records[since:until])

    def place(self, step: int) -> tuple[UUID, UUID]:
        """The step's checkpoint, and the branch that took it. Raises StepNotFound."""
        record = self.record(step)
        return record.id, record.branch_id

    def label(self, step: int) -> str:
        """What the step is called. Raises StepNotFound."""
        return self.record(step).label

    def state_at(self, step: int) -> State:
        """The state after this step; not to be changed. Raises StepNotFound."""
        return self.states(step)[0]

    def states(self, *steps: int) -> list[State]:
        """The states after these steps, in the order given, folding each step once.

        They share what stayed the same: change none of them. The last few are kept.
        Raises StepNotFound.
        """
        found: dict[int, State] = {}
        for step in sorted(set(steps)):
            self._require(step)
            if step not in self._folded:
                self._fold(step)
            found[step] = self._folded[step]
        return [found[step] for step in steps]

    def _fold(self, step: int) -> None:
        """From the nearest state before it that is kept."""
        known = max((one for one in self._folded if one < step), default=-1)
        begun = self._folded.get(known, {})
        made = self.operations(step + 1, since=known + 1)
        self._keep(step, fold(begun, chained.from_iterable(ops for _, ops in made)))

    def _keep(self, step: int, state: State) -> None:
        if len(self._folded) == KEPT:
            del self._folded[next(iter(self._folded))]
        self._folded[step] = state

    def _require(self, step: int) -> None:
        if not 0 <= step < len(self.records):
            raise StepNotFound(f"There is no step {step} here.")


class Around(History):
    """As `History`, with the rows of some steps: those of all are read when one is asked
    for that is not among them."""

    def __init__(
        self,
        contents: verified.Contents,
        near: range,
        whole: Callable[[], Sequence[StepRecord]],
        memory: Remembered,
    ) -> None:
        self._contents = contents
        self._near = near
        self._memory = memory
        super().__init__(_Records(contents, near, whole))

    @property
    def near(self) -> range:
        return self._near

    def operations(
        self, until: int | None = None, *, since: int = 0
    ) -> Iterator[tuple[int, list[Op]]]:
        return enumerate(map(_OPS, self._contents.texts[since:until]), since)

    def place(self, step: int) -> tuple[UUID, UUID]:
        self._require(step)
        return self._contents.checkpoint(step), self._contents.branch(step)

    def label(self, step: int) -> str:
        self._require(step)
        label: str = self._contents.texts[step]["label"]
        return label

    def _fold(self, step: int) -> None:
        """From the end of a segment, where this process folded so far a moment ago."""
        ends = self._contents.ends
        ends = ends[: bisect_right(ends, step, key=_STEP)]
        if ends and not any(ends[-1].step <= known < step for known in self._folded):
            found = self._memory.folded(reversed(ends))
            if found is not None:
                self._keep(found[0].step, found[1])
            if found is None or found[0] != ends[-1]:
                super()._fold(ends[-1].step)
                self._memory.keep_folded(ends[-1], self._folded[ends[-1].step])
        if step not in self._folded:
            super()._fold(step)


class _Records(Sequence[StepRecord]):
    """Every step, made when it is looked at."""

    def __init__(
        self,
        contents: verified.Contents,
        near: range,
        whole: Callable[[], Sequence[StepRecord]],
    ) -> None:
        self._contents = contents
        self._near = near
        self._whole = whole
        self._made: dict[int, StepRecord] = {}
        self._all: Sequence[StepRecord] | None = None

    def __len__(self) -> int:
        return len(self._contents.texts)

    @overload
    def __getitem__(self, at: int) -> StepRecord: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[StepRecord]: ...
    def __getitem__(self, at: int | slice) -> StepRecord | Sequence[StepRecord]:
        steps = range(len(self))[at]
        if isinstance(steps, range):
            return _Some(self, steps)
        if steps not in self._made:
            self._made[steps] = self._make(steps)
        return self._made[steps]

    def _make(self, step: int) -> StepRecord:
        if step in self._near:
            return step_record(self._contents.rows[step], self._contents.texts[step])
        if self._all is None:
            self._all = self._whole()
        return self._all[step]


class _Some(Sequence[StepRecord]):
    """Some of them, looked at one by one, too."""

    def __init__(self, records: _Records, steps: range) -> None:
        self._records = records
        self._steps = steps

    def __len__(self) -> int:
        return len(self._steps)

    @overload
    def __getitem__(self, at: int) -> StepRecord: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[StepRecord]: ...
    def __getitem__(self, at: int | slice) -> StepRecord | Sequence[StepRecord]:
        steps = self._steps[at]
        if isinstance(steps, range):
            return _Some(self._records, steps)
        return self._records[steps]
