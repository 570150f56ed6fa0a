"""All branches of a thread: those that the map has no room for are found here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from agents.pages.principal import MemberRequest, member
from agents.pages.thread.map import Line, colours_of
from agents.pages.thread.names import Names
from agents.pages.thread.place import Place, number
from agents.pages.thread.structure import lines_of, tree_of
from checkpoints import gate
from checkpoints.access import UserPrincipal
from checkpoints.ids import short
from checkpoints.models import Branch, Thread

PAGE = 50  # branches
LONGEST = 200  # characters of a name that is looked for


@dataclass(frozen=True)
class Row:
    branch: Branch
    line: Line
    name: str
    source: str  # the name of the branch it was forked from
    colour: str
    place: Place
    starred: bool

    @property
    def own(self) -> int:
        """Steps that it took itself."""
        return max(self.branch.head_step - self.branch.fork_step, 0)

    @property
    def status(self) -> str:
        return self.line.status


@require_safe
@member
def branches(request: MemberRequest, pk: UUID) -> HttpResponse:
    """Those that moved last first, a page at a time; or those whose name holds a text.

    Names are opened of the page that is shown; to look for one, all are.
    """
    principal = request.principal
    thread, every, runs = tree_of(principal, pk)
    query = request.GET.get("q", "").strip()[:LONGEST] if principal.may_read else ""
    names = Names(every)
    title = f"Thread {short(thread.pk)}"
    if principal.may_read:
        purpose = "search in branch names" if query else "branches page"
        opened = gate.admit(principal, purpose=purpose, threads=[thread])
        title = names.open_with(opened, thread, []) or title
    found = sorted(every, key=lambda branch: branch.updated_at, reverse=True)
    if query:
        found = _called(found, names, query)
    last = max(0, len(found) - 1) // PAGE * PAGE
    at = min(number(request.GET.get("from", "")) or 0, last)
    return render(
        request,
        "thread_branches.html",
        {
            "thread": thread,
            "title": title,
            "back": Place(pk).page,
            "query": query,
            "longest": LONGEST,
            "sealed": not principal.may_read,
            "total": len(every),
            "found": len(found),
            "rows": _rows(
                principal, thread, lines_of(every, runs), found[at : at + PAGE], names
            ),
            "later": _page(pk, query, max(0, at - PAGE)) if at else "",
            "earlier": _page(pk, query, at + PAGE) if at + PAGE < len(found) else "",
        },
    )


def _called(branches: Sequence[Branch], names: Names, query: str) -> list[Branch]:
    wanted = query.casefold()
    called = names.of(branch.pk for branch in branches)
    return [
        branch
        for branch, name in zip(branches, called, strict=True)
        if wanted in name.casefold()
    ]


def _rows(
    principal: UserPrincipal,
    thread: Thread,
    lines: Sequence[Line],
    shown: Sequence[Branch],
    names: Names,
) -> list[Row]:
    by_id = {line.id: line for line in lines}
    colours = colours_of(lines)
    sources = {source for branch in shown if (source := branch.parent_id)}
    wanted = sources | {branch.pk for branch in shown}
    named = dict(zip(wanted, names.of(wanted), strict=True))
    stars = thread.remarks.stars_of(principal).filter(checkpoint=None)
    starred = set(stars.values_list("branch_id", flat=True))
    return [
        Row(
            branch=branch,
            line=by_id[branch.pk],
            name=named[branch.pk],
            source=named[branch.parent_id] if branch.parent_id else "",
            colour=colours[branch.pk],
            place=Place(thread.pk, branch.pk),
            starred=branch.pk in starred,
        )
        for branch in shown
    ]


def _page(thread: UUID, query: str, start: int) -> str:
    asked: dict[str, Any] = {}
    if query:
        asked["q"] = query
    if start:
        asked["from"] = start
    page = reverse("agents:thread_branches", args=[thread])
    return f"{page}?{urlencode(asked)}" if asked else page
