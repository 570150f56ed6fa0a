"""State as a tree to unfold: nested `<details>`, without script."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from agents.pages.chips import NO_CHIPS, Chips
from agents.pages.marks import chip_html
from agents.pages.text import visible
from checkpoints.pure.pointer import pointer as step

GROUP = 100  # items of a list; more are folded into groups of as many
LONG = 240  # characters; longer text is folded and shown as it reads
PREVIEW = 60  # characters of a closed branch


class Blame(Protocol):
    def link(self, pointer: str) -> SafeString:
        """What stands behind a path: a link to the step that set it, or nothing."""


def tree(
    value: Any,
    changed: Mapping[str, str] | None = None,
    *,
    unfolded: bool = False,
    chips: Chips = NO_CHIPS,
    blame: Blame | None = None,
) -> SafeString:
    """The value as nested lists, with chips for what is kept as blobs.

    `changed` maps JSON Pointers to what is said beside them ("was 990.00", "added");
    branches that hold one are open and say so. `unfolded` opens every branch. `blame`
    says which step set each path.
    """
    return _Tree(changed or {}, unfolded, chips, blame).children("", value)


class _Tree:
    def __init__(
        self,
        changed: Mapping[str, str],
        unfolded: bool,
        chips: Chips,
        blame: Blame | None,
    ) -> None:
        self.changed = changed
        self.chips = chips
        self.blame = blame
        self.unfolded = unfolded
        self.above = {
            pointer[:at]
            for pointer in changed
            for at, char in enumerate(pointer)
            if char == "/"
        }

    def children(self, pointer: str, value: Any) -> SafeString:
        items = [(pointer + step(key), key, child) for key, child in _items(value)]
        if len(items) <= GROUP or isinstance(value, dict):
            return self.list_of(items)
        return format_html("<ul>{}</ul>", _joined(self.groups(items)))

    def list_of(self, items: Iterable[tuple[str, str, Any]]) -> SafeString:
        return format_html("<ul>{}</ul>", _joined(self.item(*item) for item in items))

    def groups(self, items: list[tuple[str, str, Any]]) -> Iterator[SafeString]:
        for start in range(0, len(items), GROUP):
            group = items[start : start + GROUP]
            open_ = any(
                pointer in self.above | set(self.changed) for pointer, *_ in group
            )
            yield format_html(
                "<li><details{}><summary>{} to {}</summary>{}</details></li>",
                " open" if open_ else "",
                group[0][1],
                group[-1][1],
                self.list_of(group),
            )

    def item(self, pointer: str, key: str, value: Any) -> SafeString:
        name = format_html("<b hx-ignore>{}</b>", visible(key))
        if (chip := self.chips.of(value)) is not None:
            shown, note = self.said(pointer, chip_html(chip))
            at = self.at(pointer)
            return format_html("<li>{}: {}{}{}</li>", name, shown, note, at)
        if isinstance(value, dict | list) and value:
            return self.branch(pointer, name, value)
        if isinstance(value, str) and len(value) > LONG:
            return self.long_text(pointer, name, value)
        leaf = format_html('<span class="v" hx-ignore>{}</span>', visible(_json(value)))
        shown, note = self.said(pointer, leaf)
        return format_html("<li>{}: {}{}{}</li>", name, shown, note, self.at(pointer))

    def branch(self, pointer: str, name: SafeString, value: Any) -> SafeString:
        inside = pointer in self.above
        size = f"[{len(value)}]" if isinstance(value, list) else f"{{{len(value)}}}"
        _, note = self.said(pointer, SafeString())
        if inside:
            note = format_html(' <span class="chip violet">changed here</span>{}', note)
        return format_html(
            '<li><details{}><summary>{} {}{} <span class="faint" hx-ignore>{}</span>'
            "</summary>{}</details>{}</li>",
            " open" if inside or pointer in self.changed or self.unfolded else "",
            name,
            size,
            note,
            "" if inside else visible(_preview(value)),
            self.children(pointer, value),
            self.at(pointer),
        )

    def long_text(self, pointer: str, name: SafeString, value: str) -> SafeString:
        start, note = self.said(
            pointer,
            format_html(
                '<span class="v" hx-ignore>{}…</span>',
                visible(_json(value[:PREVIEW])[:-1]),
            ),
        )
        return format_html(
            '<li><details{}><summary>{}: {} <span class="faint">{} characters</span>{}'
            "</summary><pre hx-ignore>{}</pre></details>{}</li>",
            " open" if pointer in self.changed else "",
            name,
            start,
            f"{len(value):,}",
            note,
            visible(value),
            self.at(pointer),
        )

    def said(self, pointer: str, shown: SafeString) -> tuple[SafeString, SafeString]:
        """What is shown, marked when it changed, and what is said beside it."""
        if pointer not in self.changed:
            return shown, SafeString()
        note = format_html(
            ' <span class="faint" hx-ignore>{}</span>', visible(self.changed[pointer])
        )
        return format_html("<mark>{}</mark>", shown) if shown else shown, note

    def at(self, pointer: str) -> SafeString:
        """The step that set it: beside a summary, as a link has no place inside one."""
        return self.blame.link(pointer) if self.blame else SafeString()


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((str(key), child) for key, child in value.items())
    elif isinstance(value, list):
        yield from ((str(index), child) for index, child in enumerate(value))
    else:
        yield "", value


def _joined(items: Iterable[SafeString]) -> SafeString:
    return format_html_join("", "{}", ((item,) for item in items))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _preview(value: dict[str, Any] | list[Any]) -> str:
    """The first plain values of a branch, so that one need not open it to know it."""
    shown = ", ".join(
        _json(child)
        for _, child in _items(value)
        if not isinstance(child, dict | list) and len(str(child)) <= PREVIEW // 2
    )
    return shown if len(shown) <= PREVIEW else shown[: PREVIEW - 1] + "…"
