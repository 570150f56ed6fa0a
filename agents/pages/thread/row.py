"""The lines of the list of steps, written here and not as a template: a page has two hundred
of them (docs/decisions/0022)."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from uuid import UUID

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from agents.pages.marks import icon
from agents.pages.remarks.shown import Beside
from agents.pages.signs import kind
from agents.pages.text import ago, cost, duration, visible
from agents.pages.thread.place import Place
from agents.pages.thread.steps import Row, Wait
from agents.pages.thread.watch import Watch


def lines(
    rows: Sequence[Row | Wait], remarks: Beside, watch: Watch | None
) -> SafeString:
    """`<li>` elements: a link for each step, and the waits between them."""
    watched = watch.steps if watch else frozenset()
    addresses = _Addresses()
    drawn = (
        (
            _line(row, addresses, remarks, watched)
            if isinstance(row, Row)
            else _wait(row),
        )
        for row in rows
    )
    return format_html_join("", "{}", drawn)


class _Addresses:
    """Of the places of one list, which differ in their checkpoint and whose it is."""

    def __init__(self) -> None:
        self._known: dict[UUID | None, tuple[str, str]] = {}

    def of(self, place: Place) -> tuple[str, str]:
        """The page, and the fragment."""
        if place.branch not in self._known:
            any_ = replace(place, checkpoint=_ANY)
            self._known[place.branch] = any_.page, any_.fragment
        page, fragment = self._known[place.branch]
        at = str(place.checkpoint)
        # Once: the query may say anything.
        return page.replace(_ANY_TEXT, at, 1), fragment.replace(_ANY_TEXT, at, 1)


_ANY = UUID(int=3)
_ANY_TEXT = str(_ANY)


def _line(
    row: Row, addresses: _Addresses, remarks: Beside, watched: Set[int]
) -> SafeString:
    page, fragment = addresses.of(row.place)
    return format_html(
        '<li><a class="step" id="{}" href="{}" hx-get="{}"{}><span class="ix">{}</span>{}'
        '<span class="l" hx-ignore>{}</span><span class="m">{}{}{}{}{}</span></a></li>\n',
        row.element_id,
        page,
        fragment,
        _CURRENT if row.current else "",
        row.step,
        kind(row.kind, row.failed),
        visible(row.label),
        _starred() if row.checkpoint in remarks.starred else "",
        _noted() if row.checkpoint in remarks.noted else "",
        _WATCHED if row.step in watched else "",
        "" if row.latency_ms is None else duration(row.latency_ms),
        f" {cost(row.cost)}" if row.cost else "",
    )


_CURRENT = SafeString(' aria-current="step"')
_WATCHED = SafeString(
    '<span class="dot" title="Changes the watched path">'
    '<span class="vh">changes the watched path</span></span> '
)


def _starred() -> SafeString:
    return format_html(
        '<span title="You starred it">{}<span class="vh">starred</span></span> ',
        icon("star", "s"),
    )


def _noted() -> SafeString:
    return format_html(
        '<span title="Somebody noted something">{}<span class="vh">noted</span></span> ',
        icon("write", "s"),
    )


def _wait(wait: Wait) -> SafeString:
    return format_html(
        '<li class="gap"><span>{}{}{}{}</span></li>\n',
        wait.text,
        _approval(wait) if wait.approval else "",
        _agents(wait) if wait.agents else "",
        format_html(", asked {}", ago(wait.since)) if wait.since else "",
    )


def _approval(wait: Wait) -> SafeString:
    return format_html(
        ' <a href="{}">APR-{}</a>',
        reverse("agents:approval", args=[wait.approval]),
        wait.number,
    )


def _agents(wait: Wait) -> SafeString:
    if not wait.href:
        return format_html(" {}", wait.agents)
    return format_html(' <a href="{}">{}</a>', wait.href, wait.agents)
