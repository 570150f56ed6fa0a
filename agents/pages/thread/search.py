"""Search in all steps of a branch: which step brought a key or a value, and where."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from agents.pages.principal import MemberRequest, member
from agents.pages.thread.line import Line, Taken, address, open_line
from agents.pages.thread.place import Place
from checkpoints.pure.find import Hit, find, said
from checkpoints.pure.ops import Op

MOST = 100  # places that a page names
SECONDS = 2.0  # of looking; about 100,000 steps
LONGEST = 200  # characters that are looked for
AROUND = 60  # characters of a value before and after what was found


@dataclass(frozen=True)
class HitView:
    """Where the text came to be: the step, the path, and some of the value."""

    taken: Taken
    path: str
    in_key: bool
    before: str
    found: str
    after: str
    place: Place  # the step on the thread's page, the path watched
    history: str


@require_safe
@member
def search(request: MemberRequest, pk: Any) -> HttpResponse:
    """First appearances, in the order of steps. Without a text it opens nothing."""
    text = request.GET.get("q", "").strip()[:LONGEST]
    line = open_line(request, pk, purpose="search in a thread", opening=bool(text))
    context: dict[str, Any] = {
        "line": line,
        "thread": line.thread,
        "query": text,
        "back": line.place(None),
        "most": MOST,
    }
    if text and line.operations is not None:
        steps = _Watched(line.operations.records(), SECONDS)
        hits = list(islice(find(steps, text), MOST + 1))
        context |= {
            "hits": _views(line, hits[:MOST], text),
            "more": len(hits) > MOST,
            "looked_at": steps.last,
            "stopped": steps.stopped,
        }
    status = line.damage.status if line.damage else 200
    return render(request, "search.html", context, status=status)


class _Watched:
    """Records up to the moment when the time is over; which step was the last."""

    def __init__(
        self, records: Iterator[tuple[int, Sequence[Op]]], seconds: float
    ) -> None:
        self._records = records
        self._until = time.monotonic() + seconds
        self.last = -1
        self.stopped = False

    def __iter__(self) -> Iterator[tuple[int, Sequence[Op]]]:
        for step, ops in self._records:
            if time.monotonic() > self._until:
                self.stopped = True
                return
            self.last = step
            yield step, ops


def _views(line: Line, hits: Sequence[Hit], text: str) -> list[HitView]:
    taken = line.taken({hit.step for hit in hits})
    views = []
    for hit in hits:
        before, found, after = ("", "", "") if hit.in_key else excerpt(hit.value, text)
        step = taken[hit.step]
        views.append(
            HitView(
                taken=step,
                path=hit.path,
                in_key=hit.in_key,
                before=before,
                found=found,
                after=after,
                place=line.place(step.row.pk, hit.path),
                history=address(
                    "agents:path_history", line, path=hit.path, at=str(hit.step)
                ),
            )
        )
    return views


def excerpt(value: Any, text: str) -> tuple[str, str, str]:
    """What stands before, what was found, and what stands after it."""
    whole = said(value)
    match = re.search(re.escape(text), whole, re.IGNORECASE)
    if match is None:  # "STRASSE" finds "Straße", which is of another length
        return "", "", _cut(whole, 2 * AROUND)
    start, end = match.span()
    before = whole[max(0, start - AROUND) : start]
    return (
        f"…{before}" if start > AROUND else before,
        match[0],
        _cut(whole[end:], AROUND),
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
