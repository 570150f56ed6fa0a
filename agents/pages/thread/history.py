"""The history of one path: each step that changed it, and the first where something holds.

By folding the stored operations, each time anew: nothing that they say is stored in clear.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from agents.pages.principal import MemberRequest, member
from agents.pages.thread.diff import Entry, entries
from agents.pages.thread.line import Line, Taken, address, open_line
from agents.pages.thread.place import Place, asked_path, number
from checkpoints.errors import NotJson
from checkpoints.log.hydrate import Operations
from checkpoints.pure import codec
from checkpoints.pure.blame import blame, values
from checkpoints.pure.changes import ABSENT
from checkpoints.pure.find import find

SHOWN = 20  # changes of a page
PARTS = 8  # of one change: what differs within a large value
LONGEST = 1_000  # characters of a value that is looked for
WHEN = {
    "appears": "appears",
    "disappears": "disappears",
    "equals": "becomes equal to",
    "holds": "first holds the text",
}


@dataclass(frozen=True)
class ChangeView:
    """A step that changed the path, and how."""

    taken: Taken
    place: Place  # the thread's page there, the path watched
    entries: Sequence[Entry]
    more: int  # that are not shown
    current: bool  # the step that one came from


@dataclass(frozen=True)
class First:
    """The answer to "first step where …"."""

    step: int | None  # None: nowhere on this branch
    place: Place | None = None
    label: str = ""


@require_safe
@member
def history(request: MemberRequest, pk: Any) -> HttpResponse:
    """Newest change first, a page at a time."""
    line = open_line(request, pk, purpose="history of a path")
    path = asked_path(request.GET.get("path", ""))
    when = request.GET.get("when", "")
    wanted = request.GET.get("value", "")[:LONGEST]
    at, before = (number(request.GET.get(name, "")) for name in ("at", "before"))
    context: dict[str, Any] = {
        "line": line,
        "thread": line.thread,
        "path": path,
        "when": when if when in WHEN else "",
        "conditions": WHEN.items(),
        "value": wanted,
        "at": at,
        "back": line.place(None, path),
    }
    if line.operations is not None:
        steps = blame(line.operations.records(), path)
        first = _first(line, line.operations, path, when, wanted, steps)
        context |= {"steps": steps, "first": first}
        context |= _page(line, line.operations, path, steps, before=before, at=at)
    status = line.damage.status if line.damage else 200
    return render(request, "history.html", context, status=status)


def _page(
    line: Line,
    operations: Operations,
    path: str,
    steps: Sequence[int],
    *,
    before: int | None,
    at: int | None,
) -> dict[str, Any]:
    """The changes of one page, and the addresses of its neighbours."""
    until = len(steps)
    if before is not None:
        until = sum(step < before for step in steps)
    start = max(0, until - SHOWN)
    shown = steps[start:until]
    taken = line.taken(shown)
    # What was there before the first of them the change before it has left.
    old: Any = {} if path == "" else ABSENT
    changes = []
    for step, new in values(
        operations.records(), path, steps[max(0, start - 1) : until]
    ):
        if step in taken:
            found = entries(path, old, new, line.chips)
            changes.append(
                ChangeView(
                    taken=taken[step],
                    place=line.place(taken[step].row.pk, path),
                    entries=found[:PARTS],
                    more=max(0, len(found) - PARTS),
                    current=step == at,
                )
            )
        old = new
    keep = {"path": path, "at": "" if at is None else str(at)}

    def page(end: int) -> str:
        more = {"before": str(steps[end])} if end < len(steps) else {}
        return address("agents:path_history", line, **keep, **more)

    return {
        "changes": changes[::-1],
        "earlier": page(start) if start else "",
        "later": page(min(until + SHOWN, len(steps))) if until < len(steps) else "",
    }


def _first(
    line: Line,
    operations: Operations,
    path: str,
    when: str,
    wanted: str,
    steps: Sequence[int],
) -> First | None:
    """The first step where the condition came to hold; None: nothing was asked."""
    if when not in WHEN or (when == "holds" and not wanted):
        return None
    if when == "holds":
        hits = find(operations.records(), wanted, path=path)
        step = next((hit.step for hit in hits), None)
    else:
        holds = _condition(when, wanted)
        old: Any = {} if path == "" else ABSENT
        step = None
        for number_, new in values(operations.records(), path, steps):
            if holds(old, new):
                step = number_
                break
            old = new
    if step is None:
        return First(None)
    place = line.place(operations.checkpoint(step), path)
    return First(step, place, operations.label(step))


def _condition(when: str, wanted: str) -> Callable[[Any, Any], bool]:
    match when:
        case "appears":
            return lambda old, new: old is ABSENT and new is not ABSENT
        case "disappears":
            return lambda old, new: old is not ABSENT and new is ABSENT
    try:
        value = codec.load_strict(wanted)
    except NotJson:
        value = wanted

    def equals(found: Any) -> bool:
        # 1200.00 may mean the number, or the text of these characters.
        return found is not ABSENT and (found == wanted or codec.same(found, value))

    return lambda old, new: equals(new) and not equals(old)
