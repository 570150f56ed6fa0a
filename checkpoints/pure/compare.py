"""What differs between two states, shaped for a page.

For people, where `ops.diff` is for the log: items of a list are matched by their
`id` or `key`, else by what they hold; what moved is said to have moved; numbers
come with their difference, texts with the words that changed.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

from checkpoints.pure import codec
from checkpoints.pure.align import align, moved
from checkpoints.pure.codec import State, same
from checkpoints.pure.pointer import pointer
from checkpoints.pure.refs import is_ref
from checkpoints.pure.text import Budget, Hunk, hunks

Kind = Literal["added", "removed", "changed", "moved"]

# Words compared one by one in one comparison; about 100 ms. Beyond: line by line.
MAX_WORDS = 6_000
MESSAGES = "/messages"

_EXACT = re.compile(r"-?[0-9]{1,20}\.[0-9]{1,20}\Z")  # money: decimals as text


@dataclass(frozen=True)
class Change:
    """One difference between two states.

    `path` is where it is in the second state (what was removed: in the first), and
    `old_path` where it was in the first (what was added: None). An item that moved
    may have changes of its own, which follow, at paths below. `list_path` is set for
    an item of a list that was added, removed or moved.
    """

    path: str
    kind: Kind
    old: Any = None
    new: Any = None
    old_path: str | None = None
    list_path: str | None = None
    appended: bool = False  # added after everything that stayed
    delta: Decimal | None = None  # numbers: new - old
    percent: Decimal | None = None  # of the old, where that is not 0
    hunks: tuple[Hunk, ...] = ()  # texts

    @property
    def label(self) -> str:
        """ "added", "removed", "moved", "+210.00, +21 %", "text" or "changed"."""
        if self.delta is not None:
            share = "" if self.percent is None else f", {_signed(self.percent)} %"
            return f"{_signed(self.delta)}{share}"
        return "text" if self.hunks else self.kind


@dataclass(frozen=True)
class Group:
    """Changes under one heading: the items of one list, or a single change."""

    path: str
    changes: tuple[Change, ...]

    @property
    def label(self) -> str:
        """For a list "+1 appended, 2 removed"; else the change's own."""
        if self.changes[0].list_path is None:
            return self.changes[0].label
        counts = (
            ("+{} appended", sum(change.appended for change in self.changes)),
            ("+{} added", self._count("added") - sum(c.appended for c in self.changes)),
            ("{} removed", self._count("removed")),
            ("{} moved", self._count("moved")),
        )
        return ", ".join(form.format(count) for form, count in counts if count)

    def _count(self, kind: Kind) -> int:
        return sum(change.kind == kind for change in self.changes)


class Comparison(list[Change]):
    """The changes, and how much is not among them because it stayed the same.

    `unchanged` counts keys and items that are the same, each as one, however much
    it holds; `unchanged_messages` the messages before the first that differs, which
    are not counted again in `unchanged`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unchanged = 0
        self.unchanged_messages = 0

    def groups(self) -> list[Group]:
        groups: dict[str, list[Change]] = {}
        for change in self:
            groups.setdefault(change.list_path or change.path, []).append(change)
        return [Group(path, tuple(changes)) for path, changes in groups.items()]


def compare(before: State, after: State) -> Comparison:
    """What to show. Law: empty exactly when the canonical bytes are the same."""
    comparer = _Comparer()
    comparer.values(before, after, "", "")
    return comparer.found


class _Comparer:
    def __init__(self) -> None:
        self.found = Comparison()
        self.budget = Budget(MAX_WORDS)

    def values(self, old: Any, new: Any, old_path: str, path: str) -> None:
        if same(old, new):
            self.found.unchanged += 1
        elif type(old) is dict and type(new) is dict and not _is_one(old, new):
            self.objects(old, new, old_path, path)
        elif type(old) is list and type(new) is list:
            self.lists(old, new, old_path, path)
        else:
            self.found.append(self.change(old, new, old_path, path))

    def change(self, old: Any, new: Any, old_path: str, path: str) -> Change:
        change = Change(path, "changed", old, new, old_path)
        if (type(old) is str) is not (type(new) is str):
            return change
        first, second = _number(old), _number(new)
        if first is not None and second is not None and first != second:
            delta = second - first
            return replace(change, delta=delta, percent=_percent(delta, first))
        if type(old) is str:
            return replace(change, hunks=hunks(old, new, budget=self.budget))
        return change

    def objects(
        self, old: dict[str, Any], new: dict[str, Any], old_path: str, path: str
    ) -> None:
        for key in sorted(old.keys() | new.keys()):
            step = pointer(key)
            if key not in new:
                gone = old_path + step
                self.found.append(Change(gone, "removed", old[key], old_path=gone))
            elif key not in old:
                self.found.append(Change(path + step, "added", new=new[key]))
            else:
                self.values(old[key], new[key], old_path + step, path + step)

    def lists(self, old: list[Any], new: list[Any], old_path: str, path: str) -> None:
        start, end = _common_ends(old, new)
        self.found.unchanged += end
        if path == MESSAGES:
            self.found.unchanged_messages = start
        else:
            self.found.unchanged += start
        stop = (len(old) - end, len(new) - end)
        names, by_id = _names(old[start : stop[0]], new[start : stop[1]])
        kept = align(*names)
        came_from = {j + start: i + start for i, j in moved(*names, kept)}
        went = set(came_from.values())
        i = j = start
        for next_i, next_j in [*((i + start, j + start) for i, j in kept), stop]:
            gone = [n for n in range(i, next_i) if n not in went]
            come = [n for n in range(j, next_j) if n not in came_from]
            # Without ids, what stands where something went is taken for its successor.
            heirs = {} if by_id else dict(zip(come, gone, strict=False))
            for n in gone[len(heirs) :]:
                was = f"{old_path}/{n}"
                self.found.append(
                    Change(was, "removed", old[n], old_path=was, list_path=path)
                )
            appended = next_j == len(new) and len(gone) == len(heirs)
            for n in range(j, next_j):
                at = f"{path}/{n}"
                origin = heirs.get(n, came_from.get(n))
                if origin is None:
                    added = Change(at, "added", None, new[n], None, path, appended)
                    self.found.append(added)
                    continue
                was = f"{old_path}/{origin}"
                if n in came_from:
                    self.found.append(
                        Change(at, "moved", old[origin], new[n], was, path)
                    )
                if not same(old[origin], new[n]):
                    self.values(old[origin], new[n], was, at)
            if (next_i, next_j) != stop:
                self.values(
                    old[next_i], new[next_j], f"{old_path}/{next_i}", f"{path}/{next_j}"
                )
            i, j = next_i + 1, next_j + 1


def _is_one(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether one of them stands for one large value: what differs is that value."""
    return is_ref(old) or is_ref(new)


def _common_ends(old: list[Any], new: list[Any]) -> tuple[int, int]:
    """How many items are the same at the start, and at the end of what remains."""
    shorter = min(len(old), len(new))
    start = end = 0
    # Of two states of one branch, most items are one object: that spares a call for each.
    while start < shorter and (
        old[start] is new[start] or same(old[start], new[start])
    ):
        start += 1
    while end < shorter - start and same(old[-1 - end], new[-1 - end]):
        end += 1
    return start, end


def _names(
    old: list[Any], new: list[Any]
) -> tuple[tuple[list[Hashable], list[Hashable]], bool]:
    """What items are matched by, and whether that is an id rather than all they hold."""
    for field in ("id", "key"):
        ids = _ids(old, field), _ids(new, field)
        if ids[0] is not None and ids[1] is not None:
            return (ids[0], ids[1]), True
    return (list(map(codec.text, old)), list(map(codec.text, new))), False


def _ids(items: list[Any], field: str) -> list[Hashable] | None:
    """The ids of objects that all have one, each its own."""
    ids: list[Hashable] = []
    for item in items:
        found = item.get(field) if type(item) is dict else None
        if type(found) not in (str, int):
            return None
        ids.append((type(found), found))
    return ids if len(set(ids)) == len(ids) else None


def _number(value: object) -> Decimal | None:
    if type(value) in (int, float) or (type(value) is str and _EXACT.match(value)):
        return Decimal(str(value))
    return None


def _percent(delta: Decimal, old: Decimal) -> Decimal | None:
    """Whole from 10 up, else to one place; None where it would say nothing."""
    if not old or abs(delta) > 10_000 * abs(old):
        return None
    share = 100 * delta / abs(old)
    places = Decimal("0.1") if abs(share) < Decimal("9.95") else Decimal(1)
    return share.quantize(places) or None


def _signed(number: Decimal) -> str:
    """With a minus (U+2212) that is as wide as the plus."""
    return f"{number:+}".replace("-", "\u2212", 1)
