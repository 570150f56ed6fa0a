"""The threads list: what stands where, newest first."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_safe

from agents.models import Agent, Run
from agents.pages import live
from agents.pages.principal import MemberRequest, member
from agents.pages.threads.find import (
    PERIODS,
    VIEWS,
    Filters,
    Page,
    annotated,
    counts_of,
    filtered,
    page_of,
)
from agents.pages.threads.rows import rows_of
from checkpoints.access import UserPrincipal

POLL = "every 4s"


@require_safe
@member
def threads(request: MemberRequest) -> HttpResponse:
    filters = Filters.of(request.GET)
    counts = counts_of(annotated(request.principal))
    return render(
        request,
        "threads.html",
        {
            **_table(request, filters, _page(request, filters)),
            "filters": filters,
            "views": [
                (view, filters.address(status=view), counts.get(view, 0))
                for view in VIEWS
            ],
            "periods": PERIODS.items(),
            "agents": _agents(request.principal),
            "total": counts["all"],
            "clear": "?",
        },
    )


@require_safe
@member
def table(request: MemberRequest) -> HttpResponse:
    """The rows anew, for a page that shows threads at work."""
    filters = Filters.of(request.GET)
    page = _page(request, filters)
    tag = _tag(page)
    if same := live.unchanged(request, tag):
        return same
    context = _table(request, filters, page)
    return live.region(request, "threads/_table.html", context, shown=tag)


def _page(request: MemberRequest, filters: Filters) -> Page:
    return page_of(
        request.principal,
        filtered(annotated(request.principal).by_activity(), filters),
        filters,
        before=request.GET.get("before", ""),
        after=request.GET.get("after", ""),
    )


def _table(request: MemberRequest, filters: Filters, page: Page) -> dict[str, Any]:
    return {
        "rows": rows_of(request.principal, page.threads, page.opened),
        "earlier": page.earlier and filters.address(before=page.earlier),
        "later": page.later and filters.address(after=page.later),
        "table_url": f"{reverse('agents:threads_table')}?{request.GET.urlencode()}",
        "tag": _tag(page),
        # A search opens titles, and each opening is recorded: not every few seconds.
        "poll": POLL if not filters.text and _any_live(page) else "",
    }


def _any_live(page: Page) -> bool:
    return any(thread.run_status in Run.LIVE for thread in page.threads)


def _tag(page: Page) -> str:
    return live.tag(
        f"{thread.pk} {thread.run_status} {thread.active_at}" for thread in page.threads
    )


def _agents(principal: UserPrincipal) -> list[str]:
    return list(
        Agent.objects.for_user(principal)
        .order_by("name")
        .values_list("name", flat=True)
    )


urlpatterns = [
    path("threads/", threads, name="threads"),
    path("f/threads/", table, name="threads_table"),
]
