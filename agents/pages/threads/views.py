"""The threads list: what stands where, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path, reverse
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_safe

from agents.models import Run
from agents.pages import live
from agents.pages.principal import MemberRequest, member
from agents.pages.threads import find
from agents.pages.threads.filters import VIEWS, Filters
from agents.pages.threads.find import Place
from agents.pages.threads.form import fields, first_agent
from agents.pages.threads.load import Found, load
from agents.pages.threads.rows import rows_of
from agents.pages.threads.search import Search, search

POLL = "every 4s"
SEALED = "Search: titles and states are sealed for your role. Nothing was searched."


@dataclass(frozen=True)
class Shown:
    """What a page of the list shows, and where its neighbours are."""

    filters: Filters
    found: Sequence[Found]
    older: str = ""
    newer: str = ""
    search: Search | None = None
    matches: str = ""  # how many there are, where a filter is on

    @property
    def tag(self) -> str:
        return live.tag(
            f"{each.thread.pk} {each.status} {each.active_at}" for each in self.found
        )

    @property
    def poll(self) -> str:
        """A search opens titles, and each opening is recorded: not every few seconds."""
        at_work = any(each.status in Run.LIVE for each in self.found)
        return POLL if at_work and self.search is None else ""


@require_safe
@member
def threads(request: MemberRequest) -> HttpResponse:
    filters = _filters(request)
    counts = find.counts_of(request.principal)
    shown = _shown(request, filters)
    return render(
        request,
        "threads.html",
        {
            **_table(request, shown),
            "filters": filters,
            "shown": shown,
            "views": [
                (view, filters.address(status=view), counts[view]) for view in VIEWS
            ],
            "fields": SimpleLazyObject(lambda: fields(request.principal, filters)),
            "total": counts["all"],
            "first_agent": SimpleLazyObject(lambda: first_agent(request.principal)),
        },
    )


@require_safe
@member
def table(request: MemberRequest) -> HttpResponse:
    """The rows anew, for a page that shows threads at work."""
    shown = _shown(request, _filters(request))
    if same := live.unchanged(request, shown.tag):
        return same
    context = _table(request, shown)
    return live.region(request, "threads/_table.html", context, shown=shown.tag)


def _filters(request: MemberRequest) -> Filters:
    """What the address says; without a text where nothing may be opened to look for it."""
    filters = Filters.of(request.GET)
    if not filters.text or request.principal.may_read:
        return filters
    return replace(filters, text="", wrong={**filters.wrong, "q": SEALED})


def _shown(request: MemberRequest, filters: Filters) -> Shown:
    principal = request.principal
    before = Place.of(request.GET.get("before", ""))
    after = Place.of(request.GET.get("after", ""))
    threads = find.matching(principal, filters)
    if filters.text:
        found = search(principal, threads, filters.text, before=before)
        further = found.further
        return Shown(
            filters,
            found.found,
            older=filters.address(before=str(further)) if further else "",
            newer=filters.address() if before else "",
            search=found,
        )
    plain = filters.view == "all" and not filters.chosen
    if plain and not before and not after:
        page = find.first_page(principal)
    else:
        page = find.page_of(threads, before=before, after=after)
    return Shown(
        filters,
        load(principal, page.places),
        older=filters.address(before=str(page.older)) if page.older else "",
        newer=filters.address(after=str(page.newer)) if page.newer else "",
        matches=find.number(threads) if filters.chosen else "",
    )


def _table(request: MemberRequest, shown: Shown) -> dict[str, Any]:
    opened = shown.search.opened if shown.search else None
    return {
        "rows": rows_of(request.principal, shown.found, opened),
        "earlier": "" if shown.search else shown.older,
        "later": "" if shown.search else shown.newer,
        "table_url": f"{reverse('agents:threads_table')}?{request.GET.urlencode()}",
        "tag": shown.tag,
        "poll": shown.poll,
    }


urlpatterns = [
    path("threads/", threads, name="threads"),
    path("f/threads/", table, name="threads_table"),
]
