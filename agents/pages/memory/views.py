"""Long-term memory: what agents and people keep under names; change it, and bring it back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_http_methods

from agents.pages.memory.form import Typed, number, typed_of
from agents.pages.memory.page import SCOPES, Filters, context_of, filters_of
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import went_on
from checkpoints import entries
from checkpoints.entries import READERS, VIEWER
from checkpoints.errors import EntryConflict, InvalidEntry, NotPermitted
from checkpoints.models import Entry

GONE = "Deleted. Its history keeps it for 30 days: restore a version to have it back."


@require_http_methods(["GET", "HEAD", "POST"])
@member
def memory(request: MemberRequest) -> HttpResponse:
    """The entries of a scope; `new` has the form of another one, which POST puts."""
    filters = filters_of(request.GET)
    if request.method != "POST":
        begin = f"{filters.prefix.rstrip('/')}/" if filters.prefix else ""
        new = bool(request.GET.get("new")) and request.principal.may_operate
        return _page(request, filters, new=Typed(path=begin) if new else None)
    _require_writer(request)
    filters = filters_of(request.GET, scope=request.POST.get("scope", ""))
    typed = typed_of(request.POST)
    try:
        row = entries.put(
            request.principal,
            filters.scope,
            typed.name,
            typed.json(),
            expires_at=typed.expires_at(),
            request_key=typed.request_key,
        )
    except InvalidEntry as wrong:
        return _page(request, filters, status=422, new=typed, error=str(wrong))
    except EntryConflict as lost:
        there = entries.get(request.principal, filters.scope, typed.name)
        if there is None:  # it went again meanwhile
            return _page(request, filters, status=409, new=typed, error=str(lost))
        return _lost(request, filters, there.entry, typed, lost)
    return went_on(request, _of(row.entry_id, filters), say="Kept, as a new entry.")


@require_http_methods(["GET", "HEAD", "POST"])
@member
def memory_entry(request: MemberRequest, pk: UUID) -> HttpResponse:
    """One entry beside the list. POST saves, deletes or restores it."""
    if request.method == "POST":
        _require_writer(request)
    entry = _entry(request, pk)
    filters = filters_of(request.GET, scope=entry.scope if entry else "")
    if request.method != "POST" or entry is None:
        return _page(request, filters, entry=entry)
    typed = typed_of(request.POST)
    try:
        say = _do(request, entry, typed)
    except InvalidEntry as wrong:
        # A form without a value was one of the others.
        mine = {"typed": typed} if "value" in request.POST else {}
        return _page(
            request, filters, entry=entry, status=422, error=str(wrong), **mine
        )
    except EntryConflict as lost:
        return _lost(request, filters, entry, typed, lost)
    return went_on(request, _of(entry.pk, filters), say=say)


def _do(request: MemberRequest, entry: Entry, typed: Typed) -> str:
    """Does it; what is said then. Raises what the service does."""
    by, sent = request.principal, request.POST
    key, expected = typed.request_key, typed.expected
    if (do := sent.get("do", "")) == "restore":
        version = number(sent.get("version", ""))
        row = entries.restore(by, entry, version, expected=expected, request_key=key)
        return f"Version {version} is back, as version {row.version}."
    newest = entries.history(by, entry)[0]
    if newest.name is None:
        raise InvalidEntry(f"What is called so does not open. {newest.damage}")
    if do == "delete":
        entries.delete(by, entry.scope, newest.name, expected=expected, request_key=key)
        return GONE
    row = entries.put(
        by,
        entry.scope,
        newest.name,
        typed.json(),
        expected=expected,
        expires_at=typed.expires_at(newest.row.expires_at),
        request_key=key,
    )
    return f"Saved, as version {row.version}."


def _lost(
    request: MemberRequest,
    filters: Filters,
    entry: Entry,
    typed: Typed,
    lost: EntryConflict,
) -> HttpResponse:
    """Theirs and, where a value was typed, mine beside it: nothing of it is lost."""
    mine = "value" in request.POST
    more: dict[str, Any] = {"lost": lost, "mine": mine}
    if mine:
        # To save it now is to have seen theirs, which stands beside it.
        more["typed"] = replace(Typed(), **_kept(typed), expected=lost.version)
    return _page(request, filters, entry=entry, status=409, **more)


def _kept(typed: Typed) -> dict[str, Any]:
    return {"value": typed.value, "kind": typed.kind, "ends": typed.ends}


def _entry(request: MemberRequest, pk: UUID) -> Entry | None:
    """None for whom nothing is opened. Raises Http404 for what is not theirs to see."""
    if not request.principal.may_read:
        return None
    there = entries.seen(request.principal).filter(pk=pk, version__gt=0)
    found = there.filter(scope__in=SCOPES).first()
    if found is None:
        raise Http404
    return found


def _require_writer(request: MemberRequest) -> None:
    if not request.principal.may_read:
        raise NotPermitted(READERS)
    if not request.principal.may_operate:
        raise NotPermitted(VIEWER)


def _of(pk: UUID, filters: Filters) -> str:
    return reverse("agents:memory_entry", args=[pk]) + replace(filters, words="").query


def _page(
    request: MemberRequest,
    filters: Filters,
    *,
    entry: Entry | None = None,
    status: int = 200,
    **more: Any,
) -> HttpResponse:
    context = context_of(request.principal, filters, entry, **more)
    return render(request, "memory.html", context, status=status)


urlpatterns = [
    path("memory/", memory, name="memory"),
    path("memory/<uuid:pk>/", memory_entry, name="memory_entry"),
]
