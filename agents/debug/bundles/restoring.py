"""Steps with the large values that are kept apart, while a file has room for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import UUID

from agents.pure.bundles import file
from checkpoints.blobs import Contents
from checkpoints.errors import NotStorable
from checkpoints.log.hydrate import StepRecord
from checkpoints.pure import refs
from checkpoints.pure.codec import State
from checkpoints.pure.ops import Op
from checkpoints.pure.refs import Large, Ref


class Restoring:
    """What one file gets; its methods raise TooLarge, and what reading a blob raises."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._left = file.MOST_BYTES
        self._ahead = self._left  # while one value is restored: less what it got so far
        self._known: dict[UUID, Large | None] = {}

    def state(self, state: State, *, step: int) -> State:
        """The state after a step, with what is kept as blobs."""
        whole: State = refs.restore(state, self._load)
        self._take(whole, step)
        return whole

    def steps(self, records: Iterable[StepRecord]) -> Iterator[list[Op]]:
        """Each step's operations, with what is kept as blobs."""
        for record in records:
            ops = refs.restore_ops(record.ops, self._load)
            self._take([ops, record.context], record.step)
            yield ops

    def _take(self, value: object, step: int) -> None:
        try:
            self._left -= file.room(value)
        except NotStorable:
            self._left = -1
        if self._left < 0:
            raise file.too_large(f"What there is up to step {step}")
        self._ahead = self._left

    def _load(self, ref: Ref) -> Large | None:
        """What a reference stands for, while there is room for it."""
        id = refs.ref_id(ref)
        if id not in self._known:
            row = self._contents.row(ref)
            self._make_room(0 if row is None else row.size)
            self._known[id] = None if row is None else self._contents.load(ref)
        found = self._known[id]
        self._ahead -= 0 if found is None else len(found.content)
        self._make_room(0)
        return found

    def _make_room(self, size: int) -> None:
        if size > self._ahead:
            raise file.too_large("A value that is kept as a blob")
