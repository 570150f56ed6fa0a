"""The Inbox's pages and fragments, and those of one request."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_safe

from agents.models import Approval
from agents.pages import live
from agents.pages.damage import DAMAGE
from agents.pages.inbox import editing, pane, queue
from agents.pages.inbox.detail import Detail, tag_of
from agents.pages.inbox.filters import filters_of
from agents.pages.inbox.listing import beside, listing, the_next, waiting
from agents.pages.inbox.metrics import metrics
from agents.pages.inbox.opening import find, open_asked
from agents.pages.principal import MemberRequest, member


@require_safe
@member
def home(request: MemberRequest) -> HttpResponse:
    return redirect("agents:inbox")


@require_safe
@member
def inbox(request: MemberRequest) -> HttpResponse:
    """The list, with its first request opened beside it where there is room."""
    page = queue.page(request.principal, filters_of(request))
    current = None
    if page.approvals and page.filters.show != "decided":
        current = find(request.principal, page.approvals[0].pk)
    return draw(request, page=page, current=current, opened=False)


@require_safe
@member
def approval(request: MemberRequest, pk: UUID) -> HttpResponse:
    return draw(request, current=pane.get(request, pk))


@require_safe
@member
def edit(request: MemberRequest, pk: UUID) -> HttpResponse:
    """The arguments as a form."""
    return draw(request, current=pane.get(request, pk), mode="edit")


@require_safe
@member
def reject(request: MemberRequest, pk: UUID) -> HttpResponse:
    """The request with the sheet that wants a reason."""
    return draw(request, current=pane.get(request, pk), mode="reject")


@require_safe
@member
def argument(request: MemberRequest, pk: UUID, number: int) -> HttpResponse:
    """One argument in full, where the page of its request has no room for it."""
    current = pane.get(request, pk)
    read = pane.read_by(request)
    try:
        asked = open_asked(request.principal, current, read=read)
        rows, foldable = asked.arguments, asked.foldable
    except DAMAGE:
        rows = foldable = []
    if number >= len(rows):
        raise Http404
    others = [row.token for row in foldable if row.is_read and row != rows[number]]
    context = {"approval": current, "argument": rows[number], "others": others}
    return render(request, "inbox_argument.html", context)


@require_safe
@member
def part(request: MemberRequest, pk: UUID, mode: str = "") -> HttpResponse:
    """The detail pane alone; 304 while it shows the same."""
    current = pane.get(request, pk)
    tag = tag_of(current)
    if not mode and (same := live.unchanged(request, tag)):
        return same
    detail = pane.opened(request, current)
    context = _context(detail, mode)
    if not current.is_pending:
        context["next"] = the_next(request, current)
    return live.region(request, "inbox/_detail.html", context, shown=tag)


def draw(
    request: MemberRequest,
    *,
    page: queue.Page | None = None,
    current: Approval | None,
    mode: str = "",
    opened: bool = True,
) -> HttpResponse:
    context: dict[str, Any] = {}
    if current is not None:
        detail = pane.opened(request, current)
        context = _context(detail, mode)
    context |= beside(request, current, page=page)
    return render(request, "inbox.html", {**context, "opened": opened})


def _context(detail: Detail, mode: str) -> dict[str, Any]:
    edited = None
    if mode == "edit" and detail.may_decide:
        pane.schema_of(detail.approval)  # 404 where there is none
        edited = editing.shown(detail, detail.asked)
    return pane.context_of(detail, mode=mode, edited=edited)


urlpatterns = [
    path("", home, name="home"),
    path("inbox/", inbox, name="inbox"),
    path("inbox/<uuid:pk>/", approval, name="approval"),
    path("inbox/<uuid:pk>/edit", edit, name="edit"),
    path("inbox/<uuid:pk>/reject", reject, name="reject"),
    path("inbox/<uuid:pk>/argument/<int:number>", argument, name="argument"),
    path("inbox/metrics", metrics, name="inbox_metrics"),
    path("f/waiting", waiting, name="waiting"),
    path("f/inbox/", listing, name="inbox_list"),
    path("f/inbox/<uuid:pk>/", part, name="approval_part"),
    path("f/inbox/<uuid:pk>/edit", part, {"mode": "edit"}, name="edit_part"),
    path("f/inbox/<uuid:pk>/reject", part, {"mode": "reject"}, name="reject_part"),
]
