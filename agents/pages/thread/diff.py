"""The Diff tab: what a step changed, path by path, with the steps that changed it before."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from agents.pages.thread.cards import message_id, summary
from checkpoints.pure.compare import Change
from checkpoints.pure.text import Line, Part

VALUE = 400  # characters of a value in a line; the State tab has the rest
MOST = 120  # entries on a page


@dataclass(frozen=True)
class DiffLine:
    sign: str  # "+", "-", " " or "↕"
    parts: Sequence[Part]

    @property
    def css(self) -> str:
        return {"+": "add", "-": "del"}.get(self.sign, "same")

    @property
    def shown_sign(self) -> str:
        return "−" if self.sign == "-" else self.sign.strip()


@dataclass
class Entry:
    path: str
    chip: str = ""
    colour: str = "slate"
    lines: list[DiffLine] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def element_id(self) -> str:
        return "blame" + self.path.replace("/", "-").replace("~", "_")

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
    unchanged: int  # values that stayed


def diff_view(changes: Iterable[Change], state: Any) -> DiffView:
    """Changes as the page shows them: items of one list together, each path once."""
    entries: dict[str, Entry] = {}
    touched = 0
    for change in changes:
        where = change.list_path if change.list_path is not None else _path(change)
        entry = entries.setdefault(where, Entry(where))
        if change.list_path is not None:
            _item(entry, change)
        else:
            _value(entry, change)
        touched += leaves(change.new) if change.kind != "removed" else 0
    for entry in entries.values():
        if entry.counts:
            entry.chip = ", ".join(_counted(*count) for count in entry.counts.items())
            entry.colour = "jade" if set(entry.counts) <= {"appended"} else "slate"
    every = list(entries.values())
    return DiffView(
        every[:MOST], max(0, len(every) - MOST), max(0, leaves(state) - touched)
    )


def leaves(value: Any) -> int:
    """How many plain values there are in it."""
    count, todo = 0, [value]
    while todo:
        node = todo.pop()
        if isinstance(node, dict) and node:
            todo.extend(node.values())
        elif isinstance(node, list) and node:
            todo.extend(node)
        else:
            count += 1
    return count


def text_lines(hunks: Iterable[Any]) -> list[DiffLine]:
    """Hunks as lines, with a rest between those that are not neighbours."""
    found: list[DiffLine] = []
    for hunk in hunks:
        if found:
            found.append(DiffLine(" ", (Part("same", "⋯"),)))
        found += [_text_line(line) for line in hunk.lines]
    return found


def _text_line(line: Line) -> DiffLine:
    return DiffLine(line.sign, line.parts)


def _path(change: Change) -> str:
    path = change.path if change.path is not None else change.old_path
    assert path is not None  # a change is in one of the states, at least
    return path


def _item(entry: Entry, change: Change) -> None:
    """An item of a list that came, went or moved."""
    if change.kind == "moved":
        entry.counts["moved"] = entry.counts.get("moved", 0) + 1
        old, new = (_last(change.old_path), _last(change.path))
        said = f"{_named(change.new)} from {old} to {new}"
        entry.lines.append(DiffLine("↕", (Part("same", said),)))
    elif change.kind == "removed":
        entry.counts["removed"] = entry.counts.get("removed", 0) + 1
        entry.lines.append(DiffLine("-", (Part("del", _line(change.old)),)))
    else:
        word = "appended" if change.appended else "inserted"
        entry.counts[word] = entry.counts.get(word, 0) + 1
        entry.lines.append(DiffLine("+", (Part("ins", _line(change.new)),)))


def _value(entry: Entry, change: Change) -> None:
    if change.hunks:
        entry.chip = "text"
        entry.lines += text_lines(change.hunks)
        return
    if change.kind != "added":
        entry.lines.append(DiffLine("-", (Part("del", _line(change.old)),)))
    if change.kind != "removed":
        entry.lines.append(DiffLine("+", (Part("ins", _line(change.new)),)))
    if change.delta is not None:
        entry.chip = _delta(change.delta, change.percent)
    elif change.kind != "changed":
        entry.chip = change.kind
        entry.colour = "jade" if change.kind == "added" else "slate"


def _delta(delta: Decimal, percent: Decimal | None) -> str:
    said = f"{delta:+,f}"
    if percent is not None:
        said += f", {percent:+.0f} %"
    return said.replace("-", "−")


def _counted(word: str, count: int) -> str:
    return f"{'+' if word in {'appended', 'inserted'} else ''}{count} {word}"


def _line(value: Any) -> str:
    """A value in a line of its own."""
    if isinstance(value, dict) and "role" in value and message_id(value):
        return summary(value, VALUE)
    said = json.dumps(value, ensure_ascii=False)
    return said if len(said) <= VALUE else said[: VALUE - 1] + "…"


def _named(value: Any) -> str:
    if isinstance(value, dict):
        for key in ("id", "key", "name", "title"):
            if isinstance(value.get(key), str):
                return f"{key} “{value[key]}”"
    return _line(value)


def _last(path: str | None) -> str:
    return (path or "").rsplit("/", 1)[-1]
