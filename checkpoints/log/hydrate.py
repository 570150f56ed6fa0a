"""Read a branch: its state, its steps through every fork, the states on its way.

Everything is read in one statement (`line`) and shown to be what was written
(`verified`). `state` is the hot path: it opens segments and what is not packed yet, and
asks for no row of a packed step; nor does `operations`, for who looks for one thing in
all steps. `read` gets every step's row too, and verifies each link; `around` those of
some steps, as a page shows. `history` opens nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain as chained
from operator import itemgetter
from uuid import UUID

from checkpoints.gate import Pass
from checkpoints.log import content, line, remembered, verified
from checkpoints.log.history import Around, History
from checkpoints.log.record import StepRecord, StepRow, step_record
from checkpoints.log.remembered import Remembered
from checkpoints.models import Branch
from checkpoints.pure.codec import State
from checkpoints.pure.ops import Op, fold

__all__ = ["History", "Operations", "StepRecord", "StepRow"]

PAGE = 50  # steps of a history
_OPS = itemgetter("ops")  # of a step's text


@dataclass(frozen=True)
class Opened:
    """A branch at one step: the state, and which checkpoints led to it."""

    step: int
    state: State = field(repr=False)  # not to be changed
    _contents: verified.Contents = field(repr=False)

    def checkpoints(self) -> dict[UUID, set[UUID]]:
        """The checkpoints on the way, by the branch that holds them."""
        found: dict[UUID, set[UUID]] = {}
        for branch, checkpoint in self._contents.checkpoints():
            found.setdefault(branch, set()).add(checkpoint)
        return found


@dataclass(frozen=True)
class Operations:
    """What every step of a branch did, from step 0 on, without the steps' rows."""

    _contents: verified.Contents = field(repr=False)

    def __len__(self) -> int:
        return len(self._contents.texts)

    def records(self) -> Iterator[tuple[int, list[Op]]]:
        """(step, operations), in order."""
        return ((step, text["ops"]) for step, text in enumerate(self._contents.texts))

    def label(self, step: int) -> str:
        label: str = self._contents.texts[step]["label"]
        return label

    def checkpoint(self, step: int) -> UUID:
        return self._contents.checkpoint(step)


def operations(
    pass_: Pass, branch: Branch, *, to_step: int | None = None
) -> Operations:
    """What the steps of the branch did, up to `to_step` (its head). Raises as `read`.

    Rows of packed steps are not asked for: 10,000 steps take as long as their state.
    """
    return Operations(_contents(pass_, branch, to_step=to_step, rows_from=None))


def read(pass_: Pass, branch: Branch, *, to_step: int | None = None) -> History:
    """The branch's history up to `to_step` (its head, when None), in one statement.

    Raises NotPermitted for a thread that the pass was not made for, StepNotFound when
    the branch has no such step, Pruned, Shredded, DecryptionError when a step's operations do
    not open, and BrokenChain when a step does not follow from the one before it; the
    last two name the step.
    """
    found = _contents(pass_, branch, to_step=to_step, rows_from=0)
    return History(
        [step_record(found.rows[step], text) for step, text in enumerate(found.texts)]
    )


def around(
    pass_: Pass,
    branch: Branch,
    *,
    first: int,
    last: int | None,
    to_step: int | None = None,
) -> History:
    """As `read`, with the rows of steps `first` to `last` (the end, when None) alone.

    Of the others the operations are known, and that they follow one another; their rows
    are read and verified, all together, once one of them is asked for. Segments that this
    process opened a moment ago are not opened again (remembered.py).
    """
    found = _contents(
        pass_,
        branch,
        to_step=to_step,
        rows_from=max(0, first - 1),
        rows_to=last,
        memory=remembered.segments,
    )
    head = len(found.texts) - 1
    near = range(max(0, first), min(head, head if last is None else last) + 1)
    return Around(
        found,
        near,
        lambda: read(pass_, branch, to_step=head).records,
        remembered.segments,
    )


def records(pass_: Pass, branch: Branch, *, first: int, last: int) -> list[StepRecord]:
    """As `read`, of steps `first` to `last` only: rows are fetched for no others."""
    # The row before the first one has the MAC that the first one follows.
    found = _contents(pass_, branch, to_step=last, rows_from=max(0, first - 1))
    return [
        step_record(found.rows[step], found.texts[step])
        for step in range(first, last + 1)
    ]


def open_at(
    pass_: Pass,
    branch: Branch,
    *,
    step: int | None = None,
    asked: bool = False,
    memory: Remembered | None = None,
) -> Opened:
    """The branch after this step (its head, when None). Raises as `read` does.

    `asked`: the pass has just been given, so whether it holds is not asked once more.
    `memory`: where segments may be that this process opened a moment ago.
    """
    found = _contents(
        pass_, branch, to_step=step, rows_from=None, asked=asked, memory=memory
    )
    ops = chained.from_iterable(map(_OPS, found.texts))
    return Opened(len(found.texts) - 1, fold({}, ops), found)


def state(pass_: Pass, branch: Branch, *, step: int | None = None) -> State:
    """The state after this step (the head's, when None); not to be changed.

    Raises as `read` does.
    """
    return open_at(pass_, branch, step=step).state


def head_state(pass_: Pass, branch: Branch) -> State:
    """The state at the branch's head; not to be changed. Raises as `read` does."""
    return state(pass_, branch)


def history(
    pass_: Pass, branch: Branch, *, before: int | None = None, limit: int = PAGE
) -> list[StepRow]:
    """The rows of the last `limit` steps before step `before`, newest first.

    Nothing is opened, so nothing is verified. Raises NotPermitted.
    """
    pass_.require_thread(branch.thread_id)
    pass_.require_right()
    end = branch.head_step + 1 if before is None else before
    rows = line.rows(branch, first=end - limit, last=end - 1)
    rows.reverse()
    return rows


def history_states(
    pass_: Pass, branch: Branch, *, before: int | None = None, limit: int = PAGE
) -> list[tuple[StepRow, State]]:
    """As `history`, each step with the state after it; these share what stayed the same.

    Raises as `read` does.
    """
    end = branch.head_step + 1 if before is None else before
    first = max(0, end - limit)
    if end <= first:
        return []
    # The row before the first one has the MAC that the first one follows.
    found = _contents(pass_, branch, to_step=end - 1, rows_from=max(0, first - 1))
    state = fold({}, chained.from_iterable(map(_OPS, found.texts[:first])))
    states = []
    for step in range(first, end):
        state = fold(state, found.texts[step]["ops"])
        states.append((found.rows[step], state))
    states.reverse()
    return states


def _contents(
    pass_: Pass,
    branch: Branch,
    *,
    to_step: int | None,
    rows_from: int | None,
    rows_to: int | None = None,
    asked: bool = False,
    memory: Remembered | None = None,
) -> verified.Contents:
    pass_.require_thread(branch.thread_id)
    if not asked:
        pass_.require_right()
    found = line.fetch(branch, to_step=to_step, rows_from=rows_from, rows_to=rows_to)
    if not found.has_content:
        content.require(branch.thread_id)
    return verified.contents(
        found, rows_from=rows_from, rows_to=rows_to, remembered=memory
    )
