"""What every page shares: the navigation's counts and the reader's preferences."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST, require_safe

from agents.models import Approval, Run
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import see_other
from checkpoints.access import UserPrincipal

# What each preference may be; the first is how it is without a cookie.
PREFERENCES = {"theme": ("system", "light", "dark"), "shortcuts": ("on", "off")}
# What the shortcuts page lists. The keys themselves are `data-hotkey` on each control.
SHORTCUTS = (
    (
        "Anywhere",
        (
            ("Inbox", ("g i",)),
            ("Threads", ("g t",)),
            ("Runs", ("g r",)),
            ("Audit, for auditors and admins", ("g l",)),
            ("This page", ("?",)),
            ("Search, where there is a search", ("/",)),
            ("Close what is open, leave a field", ("Esc",)),
            ("Send the form one is in", ("Ctrl Enter",)),
        ),
    ),
    (
        "Inbox",
        (
            ("Next, previous request", ("j", "k")),
            ("Open it", ("Enter",)),
            ("Approve and run", ("a",)),
            ("Edit the arguments", ("e",)),
            ("Answer a question", ("r",)),
            ("Reject", ("d",)),
            ("Waiting, decided", ("1", "2")),
        ),
    ),
    (
        "Thread",
        (
            ("Next, previous step", ("j", "k")),
            ("Next, previous tool, question or failure", ("n", "p")),
            ("First, last step", ("Home", "End")),
            ("The same step of the branch above, below", ("↑", "↓")),
            ("Tabs", ("1", "2", "3", "4", "5", "6")),
            ("Compare other steps with this one, or no longer", ("b", "B")),
            ("Follow new steps", ("l",)),
            ("Copy the address", ("y",)),
            ("Fork from here", ("f",)),
        ),
    ),
)
YEAR = 365 * 24 * 60 * 60  # seconds


def preference(request: HttpRequest, name: str) -> str:
    value = request.COOKIES.get(name, "")
    return value if value in PREFERENCES[name] else PREFERENCES[name][0]


def context(request: HttpRequest) -> dict[str, Any]:
    """Context processor. The counts are asked for only by pages that show them."""
    principal: UserPrincipal | None = getattr(request, "principal", None)
    return {
        "shell": {
            "layout": "base.html" if principal else "door.html",
            # A fragment belongs to the section of its page: /f/threads/… to threads.
            "section": request.path.removeprefix("/f").strip("/").partition("/")[0],
            "theme": preference(request, "theme"),
            "shortcuts": preference(request, "shortcuts"),
            "waiting": partial(_waiting, principal),
            "running": partial(_running, principal),
        }
    }


def _waiting(principal: UserPrincipal | None) -> int:
    if principal is None:
        return 0
    return Approval.objects.for_user(principal).pending().count()


def _running(principal: UserPrincipal | None) -> int:
    if principal is None:
        return 0
    live = [Run.Status.READY, Run.Status.RUNNING]
    return Run.objects.for_user(principal).filter(status__in=live).count()


@require_POST
def preferences(request: HttpRequest) -> HttpResponse:
    """Keeps a theme or the shortcuts' switch in a cookie; works before signing in."""
    back = request.POST.get("next", "")
    safe = url_has_allowed_host_and_scheme(
        back, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    response = see_other(back if safe else "/")
    for name, allowed in PREFERENCES.items():
        if (value := request.POST.get(name)) in allowed:
            response.set_cookie(
                name,
                value,
                max_age=YEAR,
                secure=settings.SESSION_COOKIE_SECURE,
                httponly=True,
                samesite="Lax",
            )
    return response


@require_safe
@member
def shortcuts(request: MemberRequest) -> HttpResponse:
    return render(request, "shortcuts.html", {"groups": SHORTCUTS})


urlpatterns = [
    path("preferences", preferences, name="preferences"),
    path("shortcuts", shortcuts, name="shortcuts"),
]
