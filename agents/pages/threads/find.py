"""Which threads the list shows: filters, counts, search and pages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Case, Count, Exists, OuterRef, Q, Subquery, When
from django.http import QueryDict
from django.utils.dateparse import parse_datetime

from agents.models import Run
from agents.pages.damage import open_each
from checkpoints import gate
from checkpoints.access import UserPrincipal
from checkpoints.clock import ClockTimestamp
from checkpoints.gate import Pass
from checkpoints.ids import short
from checkpoints.models import Branch, Deletion, Thread

# A queryset of annotated threads, and one of them: the annotations of `annotated` and
# `by_activity` are not known to their types.
Threads = Any
Found = Any

PAGE = 25  # rows
SEARCHED = 2_000  # titles that are opened for one search

VIEWS = ("all", "waiting", "running", "failed", "done", "forked", "archived")
STATUSES = {
    "waiting": [Run.Status.WAITING],
    "running": [Run.Status.RUNNING, Run.Status.READY],
    "failed": [Run.Status.FAILED],
    "done": [Run.Status.SUCCEEDED],
}
PERIODS = {"": "Any time", "day": "Last 24 hours", "week": "Last 7 days"}
AGES = {"day": timedelta(days=1), "week": timedelta(days=7)}


@dataclass(frozen=True)
class Filters:
    view: str = "all"
    agent: str = ""
    since: str = ""
    text: str = ""

    @classmethod
    def of(cls, query: QueryDict) -> Filters:
        view, since = query.get("status", "all"), query.get("since", "")
        return cls(
            view=view if view in VIEWS else "all",
            agent=query.get("agent", "").replace("\0", ""),  # PostgreSQL takes none
            since=since if since in PERIODS else "",
            text=query.get("q", "").strip(),
        )

    def address(self, **changes: str) -> str:
        """The list's address with these filters, and others in their place."""
        values = {
            "status": "" if self.view == "all" else self.view,
            "agent": self.agent,
            "since": self.since,
            "q": self.text,
        } | changes
        query = QueryDict(mutable=True)
        for name, value in values.items():
            if value and value != "all":
                query[name] = value
        return f"?{query.urlencode()}" if query else "?"

    @property
    def said(self) -> list[str]:
        """What is filtered by, in words."""
        found = [] if self.view == "all" else [self.view]
        found += [self.agent] if self.agent else []
        found += [PERIODS[self.since].lower()] if self.since else []
        return found + ([f"“{self.text}”"] if self.text else [])


@dataclass(frozen=True)
class Page:
    """Threads of one page, and cursors to older and newer ones where there are any."""

    threads: list[Found]
    earlier: str
    later: str
    opened: Pass | None  # where a search has opened their titles


def annotated(principal: UserPrincipal) -> Threads:
    """Threads with their newest run, a live one before all others."""
    of_thread = {"thread": OuterRef("pk")}
    run = Run.objects.filter(**of_thread).order_by(
        Case(When(status__in=Run.LIVE, then=0), default=1), "-created_at"
    )
    gone = Deletion.objects.for_user(principal).filter(**of_thread).order_by("-at")
    return Thread.objects.for_user(principal).annotate(
        run_id=Subquery(run.values("pk")[:1]),
        run_status=Subquery(run.values("status")[:1]),
        gone=Subquery(gone.values("what")[:1]),
        is_forked=Exists(Branch.objects.filter(**of_thread, parent__isnull=False)),
    )


def filtered(threads: Threads, filters: Filters) -> Threads:
    if filters.view in STATUSES:
        threads = threads.filter(run_status__in=STATUSES[filters.view])
    elif filters.view == "forked":
        threads = threads.filter(is_forked=True)
    elif filters.view == "archived":
        threads = threads.exclude(pruned_at=None)
    if filters.agent:
        of_agent = Run.objects.filter(
            thread=OuterRef("pk"), agent_version__agent__name=filters.agent
        )
        threads = threads.filter(Exists(of_agent))
    if filters.since:
        threads = threads.filter(active_at__gt=ClockTimestamp() - AGES[filters.since])
    return threads


def counts_of(threads: Threads) -> dict[str, int]:
    """How many threads each view has."""
    counts: dict[str, int] = threads.aggregate(
        all=Count("pk"),
        forked=Count("pk", filter=Q(is_forked=True)),
        archived=Count("pk", filter=Q(pruned_at__isnull=False)),
        **{
            view: Count("pk", filter=Q(run_status__in=statuses))
            for view, statuses in STATUSES.items()
        },
    )
    return counts


def page_of(
    principal: UserPrincipal,
    threads: Threads,
    filters: Filters,
    *,
    before: str,
    after: str,
) -> Page:
    """The page before or after a cursor; without one, the newest.

    A cursor is a row's time and id: new rows on top move nothing.
    """
    newer = _cursor(after)
    older = None if newer else _cursor(before)
    if newer:
        threads = threads.filter(
            Q(active_at__gt=newer[0]) | Q(active_at=newer[0], pk__gt=newer[1])
        ).order_by("active_at", "pk")
    else:
        if older:
            threads = threads.filter(
                Q(active_at__lt=older[0]) | Q(active_at=older[0], pk__lt=older[1])
            )
        threads = threads.order_by("-active_at", "-pk")
    if filters.text and principal.may_read:
        found, opened = _search(principal, threads, filters.text)
    else:
        found, opened = list(threads[: PAGE + 1]), None
    more, shown = len(found) > PAGE, found[:PAGE]
    if newer:
        shown.reverse()
    has_older = more if not newer else True
    has_newer = more if newer else older is not None
    return Page(
        shown,
        earlier=_said(shown[-1]) if shown and has_older else "",
        later=_said(shown[0]) if shown and has_newer else "",
        opened=opened,
    )


def _search(
    principal: UserPrincipal, threads: Threads, text: str
) -> tuple[list[Found], Pass]:
    """Those whose title holds the text, of the newest that other filters leave."""
    wanted = text.casefold()
    candidates = list(threads[:SEARCHED])
    opened = gate.admit(principal, purpose="search threads", threads=candidates)
    found = [
        thread
        for thread, title in zip(
            candidates, open_each(opened, candidates, "title"), strict=True
        )
        if wanted in (title or "").casefold() or wanted == short(thread.pk)
    ]
    return found, opened


def _said(thread: Found) -> str:
    return f"{thread.active_at.isoformat()}~{thread.pk}"


def _cursor(text: str) -> tuple[datetime, UUID] | None:
    """What an address says; None for anything else than a cursor."""
    when, _, identifier = text.partition("~")
    try:
        moment = parse_datetime(when)
        # In UTC: PostgreSQL knows no offset of sixteen hours.
        return (moment.astimezone(UTC), UUID(identifier)) if moment else None
    except (ValueError, OverflowError):
        return None
