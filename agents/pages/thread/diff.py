"""The Diff tab: what changed between two steps, path by path, as lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from agents.pages.chips import NO_CHIPS, Chip, Chips
from agents.pages.thread.cards import message_id, summary
from checkpoints.pure.changes import ABSENT
from checkpoints.pure.compare import Change, Comparison, Group, compare
from checkpoints.pure.text import Hunk, Part

VALUE = 400  # characters of a value in a line; the State tab has the rest
MOST = 120  # entries on a page
_ALONE = "value"  # the key of a value that is compared by itself


@dataclass(frozen=True)
class DiffLine:
    sign: str  # "+", "-", " " or "↕"
    parts: Sequence[Part]
    chips: Sequence[Chip] = ()  # of what the line's value holds as blobs

    @property
    def css(self) -> str:
        return {"+": "add", "-": "del"}.get(self.sign, "same")

    @property
    def shown_sign(self) -> str:
        return "\N{MINUS SIGN}" if self.sign == "-" else self.sign.strip()


@dataclass(frozen=True)
class Entry:
    """One path, and how it changed."""

    path: str
    label: str
    colour: str
    lines: list[DiffLine]

    @property
    def pairs(self) -> list[tuple[DiffLine | None, DiffLine | None]]:
        """Lines side by side: what went on the left, what came on the right."""
        found: list[tuple[DiffLine | None, DiffLine | None]] = []
        left: list[DiffLine] = []
        right: list[DiffLine] = []

        def flush() -> None:
            for n in range(max(len(left), len(right))):
                found.append(
                    (
                        left[n] if n < len(left) else None,
                        right[n] if n < len(right) else None,
                    )
                )
            left.clear()
            right.clear()

        for line in self.lines:
            if line.css == "del":
                left.append(line)
            elif line.css == "add":
                right.append(line)
            else:
                flush()
                found.append((line, line))
        flush()
        return found


@dataclass(frozen=True)
class DiffView:
    entries: list[Entry]
    more: int  # entries that are not shown
    unchanged: int  # keys and items that stayed
    unchanged_messages: int


def diff_view(found: Comparison, chips: Chips = NO_CHIPS) -> DiffView:
    groups = found.groups()
    return DiffView(
        entries=[_entry(group, chips) for group in groups[:MOST]],
        more=max(0, len(groups) - MOST),
        unchanged=found.unchanged,
        unchanged_messages=found.unchanged_messages,
    )


def entries(path: str, old: Any, new: Any, chips: Chips = NO_CHIPS) -> list[Entry]:
    """How the value at a path changed: itself, or what differs within it.

    ABSENT where there was nothing, or is nothing now.
    """
    before = {} if old is ABSENT else {_ALONE: old}
    after = {} if new is ABSENT else {_ALONE: new}
    return [
        replace(_entry(group, chips), path=path + group.path[1 + len(_ALONE) :] or "/")
        for group in compare(before, after).groups()
    ]


def text_lines(hunks: Iterable[Hunk]) -> list[DiffLine]:
    """Hunks as lines, with a mark between those that are not neighbours."""
    found: list[DiffLine] = []
    for hunk in hunks:
        if found:
            found.append(DiffLine(" ", (Part("same", "⋯"),)))
        found += [DiffLine(line.sign, line.parts) for line in hunk.lines]
    return found


def _entry(group: Group, chips: Chips) -> Entry:
    only_added = all(change.kind == "added" for change in group.changes)
    return Entry(
        path=group.path or "/",
        label=group.label,
        colour="jade" if only_added else "slate",
        lines=[line for change in group.changes for line in _lines(change, chips)],
    )


def _lines(change: Change, chips: Chips) -> list[DiffLine]:
    if change.kind == "moved":
        old, new = (
            (change.old_path or "").rsplit("/", 1)[-1],
            change.path.rsplit("/", 1)[-1],
        )
        said = f"{_named(change.new, chips)} from {old} to {new}"
        return [DiffLine("↕", (Part("same", said),))]
    if change.hunks:
        return text_lines(change.hunks)

    def line(sign: str, kind: Literal["same", "del", "ins"], value: Any) -> DiffLine:
        part = Part(kind, in_line(value, chips))
        return DiffLine(sign, (part,), chips.within(value))

    # Where nothing stands beside it, marking all of it would mark nothing.
    if change.kind == "added":
        return [line("+", "same", change.new)]
    if change.kind == "removed":
        return [line("-", "same", change.old)]
    return [line("-", "del", change.old), line("+", "ins", change.new)]


def in_line(value: Any, chips: Chips = NO_CHIPS) -> str:
    """A value in a line of its own."""
    if chip := chips.of(value):
        return chip.said
    if isinstance(value, dict) and _is_message(value):
        return summary(value, VALUE, chips)
    said = json.dumps(value, ensure_ascii=False)
    return said if len(said) <= VALUE else said[: VALUE - 1] + "…"


def _is_message(value: dict[str, Any]) -> bool:
    """Where two branches are compared, messages are without their ids."""
    return "role" in value and ("content" in value or bool(message_id(value)))


def _named(value: Any, chips: Chips) -> str:
    """How an item of a list is called, by its own key where it has one."""
    if isinstance(value, dict):
        for key in ("id", "key", "name", "title"):
            if isinstance(value.get(key), str):
                return f"{key} “{value[key]}”"
    return in_line(value, chips)
