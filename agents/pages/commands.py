"""The command palette: where one can go, narrowed by what is typed. Nothing is opened.

A dialog with script, a page without. To look for words in titles it leads to the lists
that search them, where each search is recorded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_safe

from agents.models import Approval
from agents.pages.inbox.filters import number
from agents.pages.principal import MemberRequest, member
from checkpoints.access import Role, UserPrincipal

LONGEST = 100  # characters of what is typed
May = Callable[[UserPrincipal], bool]


@dataclass(frozen=True)
class Command:
    """One line: what it is called, where it leads, and its key where it has one."""

    words: str
    address: str
    icon: str
    keys: str = ""


@dataclass(frozen=True)
class _Page:
    words: str
    to: str  # the name of a URL
    icon: str
    keys: str = ""
    query: str = ""
    may: May = lambda principal: True


def _audits(principal: UserPrincipal) -> bool:
    return principal.may_audit


def _reads(principal: UserPrincipal) -> bool:
    return principal.may_read


def _operates(principal: UserPrincipal) -> bool:
    return principal.may_operate


def _admin(principal: UserPrincipal) -> bool:
    return principal.role is Role.ADMIN


PAGES = (
    _Page("Inbox: mine", "agents:inbox", "inbox", "g i", "?show=mine"),
    _Page("Inbox: team", "agents:inbox", "inbox", query="?show=team"),
    _Page("Inbox: snoozed", "agents:inbox", "clock", query="?show=snoozed"),
    _Page("Inbox: decided", "agents:inbox", "check", query="?show=decided"),
    _Page("Inbox: high risk", "agents:inbox", "high", query="?show=team&risk=high"),
    _Page("Decisions in figures", "agents:inbox_metrics", "clock"),
    _Page("Threads", "agents:threads", "thread", "g t"),
    _Page("Threads that wait", "agents:threads", "thread", query="?status=waiting"),
    _Page("Threads that failed", "agents:threads", "alert", query="?status=failed"),
    _Page("Trajectories", "agents:trajectories", "out", may=_reads),
    _Page("Runs and workers", "agents:runs", "run", "g r"),
    _Page("Start a run", "agents:new_run", "plus", may=_operates),
    _Page("Agents", "agents:agents", "agent", "g a"),
    _Page("Memory", "agents:memory", "memory", "g m"),
    _Page("Audit log", "agents:audit", "audit", "g l", may=_audits),
    _Page("Retention", "agents:retention", "clock", may=_admin),
    _Page("API tokens", "agents:tokens", "lock", may=_admin),
    _Page("Keyboard shortcuts", "agents:shortcuts", "ask", "?"),
)


@require_safe
@member
def commands(request: MemberRequest) -> HttpResponse:
    """The palette as a page."""
    return render(request, "commands.html", _context(request))


@require_safe
@member
def dialog(request: MemberRequest) -> HttpResponse:
    return render(request, "commands/_dialog.html", _context(request))


@require_safe
@member
def listing(request: MemberRequest) -> HttpResponse:
    """The lines alone, while somebody types."""
    return render(request, "commands/_list.html", _context(request))


def _context(request: MemberRequest) -> dict[str, Any]:
    typed = request.GET.get("q", "").replace("\0", "").strip()[:LONGEST]
    groups = {
        "Requests": list(_requests(request.principal, typed)),
        "Go to": list(_pages(request.principal, typed)),
        "Look for": list(_searches(request.principal, typed)),
    }
    found = [(name, lines) for name, lines in groups.items() if lines]
    return {"typed": typed, "groups": found}


def _pages(principal: UserPrincipal, typed: str) -> Iterator[Command]:
    words = typed.casefold().split()
    for page in PAGES:
        if page.may(principal) and all(w in page.words.casefold() for w in words):
            address = reverse(page.to) + page.query
            yield Command(page.words, address, page.icon, page.keys)


def _requests(principal: UserPrincipal, typed: str) -> Iterator[Command]:
    """A request by its number: "APR-2041", "2041"."""
    named = re.fullmatch(r"(?:apr-?)?(\d+)", typed.casefold())
    found = number(named[1]) if named else 0
    if found:
        for one in Approval.objects.for_user(principal).filter(number=found):
            address = reverse("agents:approval", args=[one.pk])
            yield Command(f"{one}, {one.get_status_display()}", address, "inbox")


def _searches(principal: UserPrincipal, typed: str) -> Iterator[Command]:
    if not typed or not principal.may_read:
        return
    requests, query = {"show": "team", "q": typed}, {"q": typed}
    yield Command(
        f"Requests with “{typed}” in their title",
        f"{reverse('agents:inbox')}?{urlencode(requests)}",
        "search",
    )
    yield Command(
        f"Threads with “{typed}” in their title",
        f"{reverse('agents:threads')}?{urlencode(query)}",
        "search",
    )


urlpatterns = [
    path("commands", commands, name="commands"),
    path("f/commands/", dialog, name="commands_dialog"),
    path("f/commands/list", listing, name="commands_list"),
]
