"""A thread's board: read it live, bring a version back, take a lock away from its run."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_http_methods, require_safe

from agents.pages import live
from agents.pages.board.page import Shown, context_of, entry_of, shown, tag_of
from agents.pages.memory.form import number, typed_of
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import went_on
from checkpoints import entries, entry_locks
from checkpoints.entries import READERS, VIEWER
from checkpoints.errors import EntryConflict, EntryLocked, InvalidEntry, NotPermitted
from checkpoints.models import Entry, EntryLock

TAKEN = "The lock was taken away: what its run writes under it from now on is refused."
NOT_HELD = "That lock had ended already, or another run has it. This is how it is now."


@require_http_methods(["GET", "HEAD", "POST"])
@member
def board(request: MemberRequest, pk: UUID) -> HttpResponse:
    """A part of the board, and its locks. POST takes a lock away.

    A sub-agent's branch has none of its own: this leads to the one that it works on.
    """
    at = _at(request, pk)
    if at.thread.pk != pk:
        return redirect(at.address)
    if request.method != "POST":
        return _page(request, at)
    _require_writer(request)
    sent = request.POST
    locks = EntryLock.objects.for_user(request.principal).filter(owner=at.board.of)
    try:
        lock = locks.filter(pk=UUID(sent.get("lock", ""))).first()
    except ValueError:
        raise Http404 from None
    if lock is None:
        raise Http404
    fence = number(sent.get("fence", ""))
    if not entry_locks.release(request.principal, lock, fence=fence):
        return _page(request, at, status=409, error=NOT_HELD)
    return went_on(request, at.address, say=TAKEN)


@require_http_methods(["GET", "HEAD", "POST"])
@member
def board_entry(request: MemberRequest, pk: UUID, entry: UUID) -> HttpResponse:
    """One entry beside the list, with its history. POST restores a version."""
    at = _at(request, pk)
    by = request.principal
    if request.method == "POST":
        _require_writer(request)
    if not by.may_read:
        return _page(request, at)
    found = entry_of(by, at, entry)
    if request.method != "POST":
        return _page(request, at, found)
    typed = typed_of(request.POST)
    version = number(request.POST.get("version", ""))
    try:
        row = entries.restore(
            by, found, version, expected=typed.expected, request_key=typed.request_key
        )
    except InvalidEntry as wrong:
        return _page(request, at, found, status=422, error=str(wrong))
    except EntryConflict as lost:
        return _page(request, at, found, status=409, lost=lost)
    except EntryLocked as held:
        return _page(request, at, found, status=409, error=str(held))
    say = f"Version {version} is back, as version {row.version}."
    return went_on(request, at.of(found), say=say)


@require_safe
@member
def board_live(request: MemberRequest, pk: UUID) -> HttpResponse:
    """The list and the locks, for the page that shows them: 304 until something changed."""
    at = _at(request, pk)
    if not request.principal.may_read:
        raise NotPermitted(READERS)
    tag = tag_of(request.principal, at)
    if same := live.unchanged(request, tag):
        return same
    context = context_of(request.principal, at)
    return live.region(request, "board/_list.html", context, shown=tag)


def _at(request: MemberRequest, pk: UUID) -> Shown:
    asked = request.GET
    return shown(request.principal, pk, asked.get("branch", ""), asked.get("line", ""))


def _require_writer(request: MemberRequest) -> None:
    if not request.principal.may_read:
        raise NotPermitted(READERS)
    if not request.principal.may_operate:
        raise NotPermitted(VIEWER)


def _page(
    request: MemberRequest,
    at: Shown,
    entry: Entry | None = None,
    *,
    status: int = 200,
    **more: Any,
) -> HttpResponse:
    context = context_of(request.principal, at, entry, **more)
    return render(request, "board.html", context, status=status)


urlpatterns = [
    path("threads/<uuid:pk>/board/", board, name="board"),
    path("threads/<uuid:pk>/board/<uuid:entry>/", board_entry, name="board_entry"),
    path("f/threads/<uuid:pk>/board/", board_live, name="board_live"),
]
