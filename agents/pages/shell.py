"""What every page shares: the navigation's counts and the reader's preferences."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property, partial
from typing import Any

from django.conf import settings
from django.db.models import F, Func, IntegerField, QuerySet, Subquery
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST, require_safe

from agents.models import Approval, Delivery, Run
from agents.pages import live
from agents.pages.inbox import find
from agents.pages.inbox.filters import filters_of
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import see_other
from agents.pages.stream import streamed
from checkpoints.access import UserPrincipal
from checkpoints.compiled import Compiled
from checkpoints.models import Workspace

# What each preference may be; the first is how it is without a cookie.
PREFERENCES = {"theme": ("system", "light", "dark"), "shortcuts": ("on", "off")}
# What the shortcuts page lists. The keys themselves are `data-hotkey` on each control.
SHORTCUTS = (
    (
        "Anywhere",
        (
            ("Commands: go anywhere", ("Ctrl K", "⌘ K")),
            ("Inbox", ("g i",)),
            ("Threads", ("g t",)),
            ("Runs", ("g r",)),
            ("Agents", ("g a",)),
            ("Memory", ("g m",)),
            ("Policies", ("g p",)),
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
            ("Open it", ("o", "Enter")),
            ("Show what has come since", (".",)),
            ("Mine, team, snoozed, decided", ("1", "2", "3", "4")),
            ("Filter", ("f",)),
            ("Select it", ("x",)),
            ("Select on, downwards or upwards", ("Shift j", "Shift k")),
            ("Approve and run", ("a",)),
            ("Approve and remember", ("A",)),
            ("Edit the arguments", ("e",)),
            ("Answer a question", ("r",)),
            ("Reject", ("d",)),
            ("Undo, while it can be", ("z",)),
            ("Claim it, or let it go; assign it", ("i", "I")),
            ("Snooze, escalate, write a note", ("h", "!", "m")),
        ),
    ),
    (
        "Threads",
        (
            ("Next, previous thread", ("j", "k")),
            ("Open it, select it", ("o", "x")),
            ("Filter", ("f",)),
            ("Compare the two that are selected", ("c",)),
        ),
    ),
    (
        "Compare",
        (
            ("Next, previous difference", ("n", "p")),
            ("Unified or split", ("u",)),
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
            ("Watch a path, or no longer", ("w",)),
            ("Previous, next change of the watched path", ("[", "]")),
            ("Filter steps", ("s",)),
            ("Follow new steps", ("l",)),
            ("Copy the address", ("y",)),
            ("Write a note", ("m",)),
            ("Fork from here", ("f",)),
            ("Compare the branch with its source, or another", ("c",)),
        ),
    ),
)
EXPIRED = timedelta(days=7)  # ago; earlier ones count no longer
YEAR = 365 * 24 * 60 * 60  # seconds


def preference(request: HttpRequest, name: str) -> str:
    value = request.COOKIES.get(name, "")
    return value if value in PREFERENCES[name] else PREFERENCES[name][0]


def context(request: HttpRequest) -> dict[str, Any]:
    """Context processor. The counts are asked for only by pages that show them."""
    principal: UserPrincipal | None = getattr(request, "principal", None)
    counts = Counts(principal)
    return {
        "shell": {
            "layout": "base.html" if principal else "door.html",
            # A fragment belongs to the section of its page: /f/threads/… to threads.
            "section": request.path.removeprefix("/f").strip("/").partition("/")[0],
            "theme": preference(request, "theme"),
            "shortcuts": preference(request, "shortcuts"),
            "waiting": partial(_waiting, request, principal),
            "counts": counts,
            "running": lambda: counts.running,
            "kept": partial(_kept, request, principal),
            # What parts of the page wait for before they ask whether they changed.
            "streamed": principal is not None and streamed(request),
            "live": live.HEARING if streamed(request) else live.ASKING,
        }
    }


def _waiting(request: HttpRequest, principal: UserPrincipal | None) -> str:
    """As it is said: "7", "999+"; empty where nothing waits."""
    if principal is None:
        return ""
    counted = getattr(request, "waiting", None)
    found = counted or find.said(find.waiting(principal))
    return "" if found == "0" else found


def _kept(request: Any, principal: UserPrincipal | None) -> str:
    """The query that keeps the Inbox's tab and filters, for links to its requests."""
    return filters_of(request).here if principal else ""


class Counts:
    """What the navigation counts beside the queue: one statement, when first asked for.

    `running` runs; requests of which a message was `undelivered`, and those that
    `expired` undecided in the last days.
    """

    def __init__(self, principal: UserPrincipal | None) -> None:
        self._principal = principal

    @property
    def running(self) -> int:
        return self._found[0]

    @property
    def undelivered(self) -> int:
        return self._found[1]

    @property
    def expired(self) -> int:
        return self._found[2]

    @cached_property
    def _found(self) -> tuple[int, int, int]:
        if (principal := self._principal) is None:
            return 0, 0, 0
        found: tuple[int, int, int] = _COUNTED.first(principal) or (0, 0, 0)
        return found


def _counted(principal: UserPrincipal) -> QuerySet[Workspace, Any]:
    live = [Run.Status.READY, Run.Status.RUNNING]
    requests = Approval.objects.for_user(principal)
    return Workspace.objects.filter(pk=principal.workspace_id).values_list(
        _number(Run.objects.for_user(principal).filter(status__in=live)),
        _number(
            Delivery.objects.for_user(principal).filter(
                status=Delivery.Status.UNDELIVERED, approval__in=requests
            ),
            of="approval",
        ),
        _number(
            requests.filter(status=Approval.Status.EXPIRED, due_at__gt=Now() - EXPIRED)
        ),
    )


_COUNTED = Compiled(_counted)


def _number(rows: QuerySet[Any, Any], *, of: str = "pk") -> Subquery:
    """How many different ones, as a column."""
    counted = Func(
        F(of),
        template="count(DISTINCT %(expressions)s)",
        output_field=IntegerField(),
    )
    return Subquery(
        rows.order_by().annotate(how_many=counted).values("how_many"),
        output_field=IntegerField(),
    )


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
