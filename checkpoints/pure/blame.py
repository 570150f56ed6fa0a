"""Which steps changed a path: what users of other tools ask for and do not get."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from checkpoints.pure.changes import (
    ABSENT,
    Parts,
    Records,
    channel_of,
    look,
    written,
)
from checkpoints.pure.codec import State, same
from checkpoints.pure.ops import Op, fold
from checkpoints.pure.pointer import split


def blame(records: Records, path: str) -> list[int]:
    """The steps after which something else stood at `path`, or within it.

    `records` are (step, operations) from the start of the thread, in order. A step
    that wrote what was there already is not among them.
    """
    return blames(records, [path])[0]


def blames(records: Records, paths: Iterable[str]) -> list[list[int]]:
    """As `blame`, of several paths in one pass."""
    wanted = [split(path) for path in paths]
    channels = {parts[0] for parts in wanted if parts}
    found: list[list[int]] = [[] for _ in wanted]
    everything = not all(wanted)  # the whole state is among them
    for step, parts, old, new in written(records, None if everything else channels):
        for mine, steps in zip(wanted, found, strict=True):
            if (not steps or steps[-1] != step) and _concerns(mine, parts, old, new):
                steps.append(step)
    return found


def _concerns(mine: Parts, parts: Parts, old: Any, new: Any) -> bool:
    """Whether what was written at `parts` changed something at or within `mine`."""
    if parts[: len(mine)] == mine:
        return True
    if mine[: len(parts)] != parts:
        return False
    rest = mine[len(parts) :]
    was, became = look(old, rest), look(new, rest)
    return was is not became and not same(was, became)


def values(
    records: Records, path: str, steps: Collection[int]
) -> Iterator[tuple[int, Any]]:
    """Each of these steps with what stood at `path` after it; ABSENT: nothing did.

    In order, and not to be changed. Who keeps none keeps little in memory.
    """
    parts = split(path)
    wanted = set(steps)
    last = max(wanted, default=-1)
    state: State = {}
    waiting: list[Op] = []
    for step, ops in records:
        if step > last:
            return
        waiting += (op for op in ops if _changes(op, parts))
        if step in wanted:
            state, waiting = fold(state, waiting), []
            yield step, look(state, parts)


def _changes(op: Op, parts: Parts) -> bool:
    return not parts or op[0] == "reset" or channel_of(op) == parts[0]


class LastChanged:
    """Which step last changed what stands at a path: of every path, in one pass."""

    def __init__(self, records: Records) -> None:
        self._root = _Stamp(0)
        for step, parts, old, new in written(records):
            self._write(step, parts, old, new)

    def at(self, path: str) -> tuple[int, bool]:
        """The step, and whether it or an earlier one wrote this path by itself.

        Else it was written with all that is above it. For paths of the last state.
        """
        stamp = self._root
        for part in split(path):
            below = stamp.below.get(part)
            if below is None:
                return stamp.whole, False
            stamp = below
        return stamp.changed, True

    def _write(self, step: int, parts: Sequence[str], old: Any, new: Any) -> None:
        stamp = self._root
        stamp.changed = step
        for part in parts[:-1]:
            stamp = stamp.under(part)
            stamp.changed = step
        if parts:
            stamp.child(parts[-1], step, old, new)


class _Stamp:
    """When something was written as a whole, and when anything within it last was."""

    __slots__ = ("below", "changed", "whole")

    def __init__(self, step: int) -> None:
        self.whole = self.changed = step
        self.below: dict[str, _Stamp] = {}

    def under(self, part: str) -> _Stamp:
        """Of what is under `part`: its own, or made, as it was written with this."""
        found = self.below.get(part)
        if found is None:
            found = self.below[part] = _Stamp(self.whole)
        return found

    def child(self, part: str, step: int, old: Any, new: Any) -> None:
        """What is under `part` became another."""
        self.changed = step
        if new is ABSENT:
            self.below.pop(part, None)
        elif type(old) is type(new) and type(new) in (dict, list):
            inner = self.under(part)
            inner.changed = step
            for name in _names(old, new):
                was, became = look(old, [name]), look(new, [name])
                if was is not became and not same(was, became):
                    inner.child(name, step, was, became)
        else:
            self.below[part] = _Stamp(step)


def _names(old: Any, new: Any) -> Iterable[str]:
    if type(new) is dict:
        names: set[str] = old.keys() | new.keys()
        return names
    return map(str, range(max(len(old), len(new))))
