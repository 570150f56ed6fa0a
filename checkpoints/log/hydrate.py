"""Read a branch: its state, its steps through every fork, the states on its way.

Everything is read in one statement (`line`) and shown to be what was written
(`verified`). `state` is the hot path: it opens segments and what is not packed yet, and
asks for no row of a packed step. `read` gets every step's row too, and verifies each
link. `history` opens nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain as chained
from uuid import UUID

from checkpoints.errors import StepNotFound
from checkpoints.gate import Pass
from checkpoints.log import content, line, verified
from checkpoints.log.record import StepRecord, StepRow, step_record
from checkpoints.models import Branch
from checkpoints.pure.codec import State
from checkpoints.pure.ops import fold

__all__ = ["History", "StepRecord", "StepRow"]

PAGE = 50  # steps of a history


class History:
    """The steps of a branch from the thread's start, through forks, to a step."""

    def __init__(self, records: list[StepRecord]) -> None:
        """`records` in step order, without a gap, beginning with step 0."""
        self.records = records

    def __repr__(self) -> str:
        return f"History({len(self.records)} steps)"

    def record(self, step: int) -> StepRecord:
        """Raises StepNotFound."""
        if not 0 <= step < len(self.records):
            raise StepNotFound(f"There is no step {step} here.")
        return self.records[step]

    def state_at(self, step: int) -> State:
        """The state after this step; not to be changed. Raises StepNotFound."""
        return self.states(step)[0]

    def states(self, *steps: int) -> list[State]:
        """The states after these steps, in the order given, folding each step once.

        They share what stayed the same: change none of them. Raises StepNotFound.
        """
        found: dict[int, State] = {}
        state: State = {}
        reached = 0
        for step in sorted(set(steps)):
            self.record(step)
            passed = self.records[reached : step + 1]
            state = fold(state, chained.from_iterable(record.ops for record in passed))
            found[step] = state
            reached = step + 1
        return [found[step] for step in steps]


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


def open_at(pass_: Pass, branch: Branch, *, step: int | None = None) -> Opened:
    """The branch after this step (its head, when None). Raises as `read` does."""
    found = _contents(pass_, branch, to_step=step, rows_from=None)
    ops = chained.from_iterable(text["ops"] for text in found.texts)
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
    state = fold({}, chained.from_iterable(text["ops"] for text in found.texts[:first]))
    states = []
    for step in range(first, end):
        state = fold(state, found.texts[step]["ops"])
        states.append((found.rows[step], state))
    states.reverse()
    return states


def _contents(
    pass_: Pass, branch: Branch, *, to_step: int | None, rows_from: int | None
) -> verified.Contents:
    pass_.require_thread(branch.thread_id)
    pass_.require_right()
    found = line.fetch(branch, to_step=to_step, rows_from=rows_from)
    if not found.has_content:
        content.require(branch.thread_id)
    return verified.contents(found, rows_from=rows_from)
