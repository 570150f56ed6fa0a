"""The list beside a request, and the list alone for pages that are open."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.http import HttpResponse
from django.urls import reverse
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_safe
from django_htmx.http import HttpResponseClientRefresh

from agents.models import Agent, Approval
from agents.pages import live
from agents.pages.inbox import find, queue
from agents.pages.inbox.filters import (
    AGE_WORDS,
    CLAIMED_WORDS,
    Filters,
    filters_of,
    number,
    numbers,
    usual_tab,
)
from agents.pages.inbox.metrics import today
from agents.pages.principal import MemberRequest, member
from agents.tools import registry
from checkpoints.access import UserPrincipal
from checkpoints.compiled import Compiled
from checkpoints.models import Group

# A list that grows at its end while others of it part shows some more than a page.
MOST_SHOWN = 2 * find.PAGE


@require_safe
@member
def listing(request: MemberRequest) -> HttpResponse:
    """The list alone, for a page that shows it; 304 while it shows the same.

    `shown` names what that page shows; without it the list is drawn anew. `open` is the
    id of the request beside it.
    """
    principal = request.principal
    filters = Filters.of(request.GET, principal)
    shown = numbers(request.GET.get("shown", ""), most=MOST_SHOWN)
    if shown:
        end = number(request.GET.get("end", ""))
        page = queue.again(principal, filters, shown=shown, end=end)
    else:
        page = queue.page(principal, filters)
    if "empty" in request.GET:  # a page without a list: it is drawn anew, or not
        return (
            HttpResponseClientRefresh() if page.approvals else HttpResponse(status=204)
        )
    opened = request.GET.get("open", "")
    current = next((one for one in page.approvals if str(one.pk) == opened), None)
    tag = page.tag(current)
    if same := live.unchanged(request, tag):
        return same
    drawn = queue.queue(principal, page, current=current)
    request.waiting = drawn.tabs[usual_tab(principal)]
    context = {"queue": drawn, "open": opened}
    return live.region(request, "inbox/_poll.html", context, shown=tag)


@require_safe
@member
def waiting(request: MemberRequest) -> HttpResponse:
    """The navigation's count alone; 304 while it is the same."""
    count = find.said(find.waiting(request.principal))
    tag = live.tag([count])
    if same := live.unchanged(request, tag):
        return same
    return live.region(
        request, "_waiting.html", {"count": "" if count == "0" else count}, shown=tag
    )


def beside(
    request: MemberRequest,
    current: Approval | None,
    *,
    page: queue.Page | None = None,
) -> dict[str, Any]:
    """What a page shows beside the request that is open: list, tabs, filters, the next."""
    principal = request.principal
    page = page or queue.page(principal, filters_of(request))
    drawn = queue.queue(principal, page, current=current)
    request.waiting = drawn.tabs[usual_tab(principal)]
    return {
        "queue": drawn,
        "next": following(page, current),
        "open": current.pk if current else "",
        "today": SimpleLazyObject(lambda: today(principal)),
        "choices": SimpleLazyObject(lambda: choices(principal)),
    }


def the_next(request: MemberRequest, current: Approval) -> Approval | None:
    """Where to go on after this one, in the tab and with the filters of the page."""
    principal, filters = request.principal, filters_of(request)
    if filters.show == "decided":
        return None
    if filters.chosen or filters.after:
        return _below(queue.page(principal, filters).approvals, current)
    return _below(queue.places(principal, filters.show), current)


def address_of(request: MemberRequest, approval: Approval) -> str:
    """The page of a request, in the same tab and with the same filters."""
    page = reverse("agents:approval", args=[approval.pk])
    return f"{page}{filters_of(request).here}"


def refresh_list(response: HttpResponse) -> HttpResponse:
    """The list asks anew what it shows: it knows which rows, and no other comes between."""
    response["HX-Trigger"] = json.dumps({live.CHANGED: {"target": "#inbox-list"}})
    return response


def following(page: queue.Page, current: Approval | None) -> Approval | None:
    """Where to go on after this one: what stands below it, else what stands first."""
    if page.filters.show == "decided":
        return None
    return _below(page.approvals, current)


def _below(approvals: Sequence[Approval], current: Approval | None) -> Approval | None:
    waits = [one for one in approvals if one != current and one.is_pending]
    if current is None:
        return waits[0] if waits else None
    below = (one for one in waits if find.key(one) > find.key(current))
    return next(below, waits[0] if waits else None)


_AGENTS = Compiled(
    lambda by: (
        Agent.objects.for_user(by).order_by("name").values_list("name", flat=True)
    )
)
_GROUPS = Compiled(lambda by: Group.objects.for_user(by).order_by("name"))


def choices(principal: UserPrincipal) -> dict[str, Any]:
    """What the filters can be set to."""
    agents = _AGENTS.rows(principal)
    known = [registry.agent(name) for name in agents if name in registry]
    return {
        "agents": agents,
        "tools": sorted({tool.name for agent in known for tool in agent.tools}),
        "risks": Approval.Risk.values,
        "groups": _GROUPS.rows(principal),
        "claimed": CLAIMED_WORDS.items(),
        "ages": AGE_WORDS.items(),
    }
