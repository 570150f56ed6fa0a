"""What each step wrote, path by path, from the operations alone.

A channel (a key of the state) is changed by its own operations only, so each is folded
by itself, and not before something else than an append comes: appending 10,000 messages
one by one copies no list 10,000 times.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from checkpoints.pure.codec import State, same
from checkpoints.pure.ops import Op, fold
from checkpoints.pure.pointer import index, split

Parts = tuple[str, ...]
Records = Iterable[tuple[int, Sequence[Op]]]  # (step, operations), from the start on


class _Absent:
    """What is nowhere; like nothing else, not even None."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()
_CONTAINERS = (dict, list)


class Written(NamedTuple):
    """Where a step left another value than it found: what was there and what is now.

    Either may be ABSENT, and either may hold much that stayed the same.
    """

    step: int
    parts: Parts
    old: Any
    new: Any


def written(
    records: Records, channels: Collection[str] | None = None
) -> Iterator[Written]:
    """Every place that a step changed, in the order of steps; of these channels only.

    Law: whatever a step changed is at, within or around one of its places, and at each
    of them it did change something. Raises BadOperation.
    """
    known: dict[str, _Channel] = {}
    for step, ops in records:
        groups: dict[str, list[Op]] = {}
        state: State | None = None
        for n, op in enumerate(ops):
            if op[0] == "reset":
                state = fold({}, ops[n:])
            elif state is None:
                name = channel_of(op)
                if channels is None or name in channels:
                    if name in groups:
                        groups[name].append(op)
                    else:
                        groups[name] = [op]
        if state is not None:
            groups = {}
            for name in known.keys() | state.keys():
                if channels is None or name in channels:
                    channel = known.setdefault(name, _Channel())
                    for found in channel.become(name, state):
                        yield Written(step, *found)
        for name, own in groups.items():
            try:
                channel = known[name]
            except KeyError:
                channel = known[name] = _Channel()
            for found in channel.take(own):
                yield Written(step, *found)


def channel_of(op: Op) -> str:
    """The key of the state that an operation changes something at; not of a reset."""
    path = op[1]
    name: str = split(path)[0] if path else op[2]
    return name


def look(value: Any, parts: Sequence[str]) -> Any:
    """What is there, or ABSENT."""
    for part in parts:
        value = _child(value, part)
    return value


_Found = tuple[Parts, Any, Any]


class _Channel:
    """A state of one key, and appends to it that wait to be folded."""

    def __init__(self) -> None:
        self.state: State = {}
        self.waiting: list[Op] = []
        self.lengths: dict[str, int] = {}  # of lists, the waiting appends counted

    def folded(self) -> State:
        if self.waiting:
            self.state = fold(self.state, self.waiting)
            self.waiting = []
        return self.state

    def become(self, name: str, state: State) -> Iterator[_Found]:
        """What a reset to this state changes here."""
        before = self.folded()
        self.state = {name: state[name]} if name in state else {}
        self.lengths.clear()
        yield from _difference(before, self.state, (name,))

    def take(self, ops: Sequence[Op]) -> Iterable[_Found]:
        """What these operations of one step change."""
        for op in ops:
            if op[0] != "append":
                return self._take(ops)
        return [self._append(op) for op in ops]

    def _take(self, ops: Sequence[Op]) -> Iterator[_Found]:
        before = self.folded()
        after = self.state = fold(before, ops)
        self.lengths.clear()
        seen: set[Parts] = set()
        for target in sorted(_targets(before, after, ops), key=len):
            for found in _difference(before, after, target):
                parts = found[0]
                if not any(parts[:n] in seen for n in range(1, len(parts) + 1)):
                    seen.add(parts)
                    yield found

    def _append(self, op: Op) -> _Found:
        path, value = op[1], op[2]
        parts = split(path)
        length = self.lengths.get(path)
        if length is None:
            found = look(self.folded(), parts)
            if type(found) is not list and found is not ABSENT:
                fold(self.state, [op])  # says that this does not fit
            length = -1 if found is ABSENT else len(found)
        self.waiting.append(op)
        self.lengths[path] = max(length, 0) + 1
        if length < 0:  # the list came into being
            self.state, self.waiting = fold(self.state, self.waiting), []
            return parts, ABSENT, [value]
        return (*parts, str(length)), ABSENT, value


def _targets(before: State, after: State, ops: Iterable[Op]) -> set[Parts]:
    """Where the operations of a step may have changed something."""
    found: set[Parts] = set()
    for name, path, *rest in ops:
        parts = split(path)
        match name:
            case "put" | "delete":
                found.add((*parts, rest[0]))
            case "append":
                old, new = look(before, parts), look(after, parts)
                if type(old) is list and type(new) is list:
                    found.update((*parts, str(n)) for n in range(len(old), len(new)))
                else:
                    found.add(parts)
            case "unset":
                above = parts[:-1]
                # What follows an item that was taken out of a list moves up.
                is_item = list in (type(look(before, above)), type(look(after, above)))
                found.add(above if is_item else parts)
            case _:
                found.add(parts)
    return found


def _difference(before: Any, after: Any, target: Parts) -> Iterator[_Found]:
    """What differs at the target, or above where that came, went or is of another type."""
    reached = 0
    for part in target:
        before, after = _child(before, part), _child(after, part)
        reached += 1
        if before is after:
            return
        if type(before) is not type(after) or type(before) not in _CONTAINERS:
            break
    if not same(before, after):
        yield target[:reached], before, after


def _child(value: Any, part: str) -> Any:
    if type(value) is dict:
        return value.get(part, ABSENT)
    if type(value) is list and (n := index(part)) is not None and n < len(value):
        return value[n]
    return ABSENT
