"""By text: titles, and states as they are at the newest step, of what the filters leave.

Nothing that could be searched lies in the database in clear, so each thread is opened, the
newest first, and a page of it is bounded: by threads, by time, and by what it can show. It
says how far it came, and goes on from there. Where a thread has several branches, the one
that its row tells of is looked at.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from agents.pages.damage import DAMAGE, open_each
from agents.pages.threads import find
from agents.pages.threads.find import Place
from agents.pages.threads.load import MOST_AT_ONCE, Found, load
from agents.pages.threads.rows import branches_of, telling
from checkpoints import gate
from checkpoints.access import UserPrincipal
from checkpoints.gate import Pass
from checkpoints.ids import short
from checkpoints.log import hydrate
from checkpoints.models import Branch
from checkpoints.pure.find import appears


@dataclass(frozen=True)
class Bounds:
    """Of one page of a search; `threads` at most as many as can be loaded at once."""

    threads: int = MOST_AT_ONCE
    time: timedelta = timedelta(seconds=2)


BOUNDS = Bounds()


@dataclass(frozen=True)
class Search:
    """What was found, and how far the search came.

    `looked` of `of` threads that the filters leave were searched, with those of the pages
    before this one. `further`: from where it goes on; None: that was all.
    """

    found: Sequence[Found]
    opened: Pass
    looked: int
    of: int
    sealed: int  # threads of this page whose state did not open
    further: Place | None = None


def search(
    principal: UserPrincipal,
    threads: find.Threads,
    text: str,
    *,
    before: Place | None,
    bounds: Bounds | None = None,
) -> Search:
    """Those of `threads` after a place whose title or state holds the text, or that it
    names by their id. Raises NotPermitted."""
    bounds = bounds or BOUNDS
    wanted = text.casefold()
    rows = find.places(threads)
    rest = find.older(rows, before) if before else rows
    # One more, to know whether there is more.
    ahead = [Place(at, pk) for pk, at in rest[: bounds.threads + 1]]
    candidates = load(principal, ahead[: bounds.threads])
    opened = gate.admit(
        principal,
        purpose="search threads",
        threads=[each.thread for each in candidates],
    )
    until = time.monotonic() + bounds.time.total_seconds()
    titles = open_each(opened, [each.thread for each in candidates], "title")
    branches = branches_of(principal, [each.thread.pk for each in candidates])
    found: list[Found] = []
    looked = sealed = 0
    for each, title in zip(candidates, titles, strict=True):
        # One at least, or a search would go on from where it is for ever.
        if looked and (len(found) == find.PAGE or time.monotonic() > until):
            break
        looked += 1
        names = (short(each.thread.pk), str(each.thread.pk))
        if wanted in names or wanted in (title or "").casefold():
            found.append(each)
            continue
        holds = _holds(opened, telling(branches[each.thread.pk], each.run), wanted)
        sealed += holds is None
        if holds:
            found.append(each)
    result = Search(found, opened, looked, of=looked, sealed=sealed)
    return _so_far(result, threads, rows, candidates, more=len(ahead) > looked)


def _holds(opened: Pass, branch: Branch, wanted: str) -> bool | None:
    """Whether the state at its newest step holds the text; None: it does not open."""
    if branch.head_id is None:
        return False
    try:
        # The pass has just been given.
        at = hydrate.open_at(opened, branch, asked=True)
    except DAMAGE:
        return None
    return appears(at.state, wanted)


def _so_far(
    result: Search,
    threads: find.Threads,
    rows: find.Threads,
    candidates: Sequence[Found],
    *,
    more: bool,
) -> Search:
    """With how much of everything that was."""
    of = threads.count()
    if not more or not result.looked:
        return replace(result, looked=of, of=of)
    last = candidates[result.looked - 1]
    further = Place(last.active_at, last.thread.pk)
    left = find.older(rows, further).count()
    return replace(result, looked=max(of - left, result.looked), of=of, further=further)
