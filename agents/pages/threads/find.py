"""Which threads the list shows: in SQL, without a look at any checkpoint.

A thread's time is when its branches moved last, its status that of its newest run, one
that is not over before all others. What is asked about runs (agent, version, step, error
class, who started it) is asked of one run; sums are over all runs of the thread. Each
filter is a set that is made once, not a question for each thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db.models import (
    Case,
    Count,
    Exists,
    IntegerField,
    OuterRef,
    Q,
    Sum,
    Value,
    When,
)
from django.db.models.functions import Now
from django.utils.dateparse import parse_datetime

from agents.debug import remarks
from agents.models import Run, ToolCall
from agents.pages.threads.filters import AGES, PROGRAM, Filters
from agents.runs import searched
from checkpoints.access import UserPrincipal
from checkpoints.compiled import Compiled
from checkpoints.models import Branch, Remark, Thread

# A queryset of threads: what annotations add is not known to its type.
Threads = Any

PAGE = 25  # rows
MOST = 999  # threads that are counted where a filter is on; above it is "999+"

STATUSES = {
    "waiting": (Run.Status.WAITING,),
    "running": (Run.Status.RUNNING, Run.Status.READY),
    "failed": (Run.Status.FAILED,),
    "done": (Run.Status.SUCCEEDED,),
}
# What is asked of a thread's runs, and how a run says it.
OF_A_RUN = {
    "agent": "agent_version__agent__name",
    "version": "agent_version__number",
    "step": "failed_step",
    "error": "error_class",
    "by": "started_by__username",
}
SUMS = {"cost": "cost", "tokens": "tokens", "time": "worked"}


@dataclass(frozen=True)
class Place:
    """Where a thread stands in the list: when it moved last, and its id."""

    at: datetime
    thread: UUID

    def __str__(self) -> str:
        return f"{self.at.isoformat()}~{self.thread}"

    @classmethod
    def of(cls, typed: str) -> Place | None:
        """What an address says; None for anything else than a place."""
        when, _, identifier = typed.partition("~")
        try:
            moment = parse_datetime(when)
            # In UTC: PostgreSQL knows no offset of sixteen hours.
            return cls(moment.astimezone(UTC), UUID(identifier)) if moment else None
        except (ValueError, OverflowError):
            return None


@dataclass(frozen=True)
class Page:
    """Places of one page, and of its ends where there are older and newer ones."""

    places: list[Place]
    older: Place | None
    newer: Place | None


def matching(principal: UserPrincipal, filters: Filters) -> Threads:
    """The threads of the tab that the filters leave, in no order; the text is sealed."""
    threads = Thread.objects.for_user(principal)
    workspace = principal.workspace_id
    values = filters.values
    if filters.view in STATUSES:
        newest = newest_runs(workspace).filter(status__in=STATUSES[filters.view])
        threads = threads.filter(pk__in=newest.values("thread"))
    elif filters.view == "starred":
        mine = Remark.objects.for_user(principal).stars_of(principal)
        threads = threads.filter(pk__in=mine.values("thread"))
    elif filters.view == "archived":
        threads = threads.exclude(pruned_at=None)
    forked = Branch.objects.filter(workspace=workspace, parent__isnull=False)
    if filters.view == "forked" or values.get("forks") == "yes":
        threads = threads.filter(pk__in=forked.values("thread"))
    if values.get("forks") == "no":
        # Not "not in": that is no join to PostgreSQL.
        threads = threads.filter(~Exists(forked.filter(thread=OuterRef("pk"))))
    if asked := {name: values[name] for name in OF_A_RUN if name in values}:
        threads = threads.filter(pk__in=_runs(workspace, asked).values("thread"))
    if over := {name: values[name] for name in SUMS if name in values}:
        threads = threads.filter(pk__in=_spent(workspace, over))
    if "tool" in values:
        calls = ToolCall.objects.filter(workspace=workspace, tool=values["tool"])
        threads = threads.filter(pk__in=calls.values("thread"))
    if "label" in values:
        threads = threads.filter(pk__in=_labelled(principal, values["label"]))
    if "field" in values:
        threads = threads.filter(pk__in=_holding(principal, *values["field"]))
    if "since" in values:
        # Not clock_timestamp(): it is volatile, so asked for each row.
        moved = Branch.objects.filter(
            workspace=workspace, updated_at__gt=Now() - AGES[values["since"]]
        )
        threads = threads.filter(pk__in=moved.values("thread"))
    first, end = filters.begun
    if first:
        threads = threads.filter(created_at__gte=first)
    if end:
        threads = threads.filter(created_at__lt=end)
    return threads


def _labelled(principal: UserPrincipal, words: str) -> Any:
    """Threads with this label. Which have it tells what it says, so readers alone ask."""
    if not principal.may_read:
        return []
    return remarks.labelled(principal, words).values("thread")


def _holding(principal: UserPrincipal, name: str, value: str) -> Any:
    """Threads whose state holds this, by what was kept of it: for readers, as a label."""
    if not principal.may_read:
        return []
    return searched.holding(principal, name, value).values("thread")


def newest_runs(workspace: UUID) -> Any:
    """The run of each thread that says its status: no other comes before it."""
    live = Case(
        When(status__in=Run.LIVE, then=Value(1)),
        default=Value(0),
        output_field=IntegerField(),
    )
    later = Q(created_at__gt=OuterRef("created_at")) | Q(
        created_at=OuterRef("created_at"), pk__gt=OuterRef("pk")
    )
    before = Q(live__gt=OuterRef("live")) | Q(later, live=OuterRef("live"))
    runs = Run.objects.filter(workspace=workspace).annotate(live=live)
    return runs.filter(~Exists(runs.filter(before, thread=OuterRef("thread"))))


def _runs(workspace: UUID, asked: dict[str, Any]) -> Any:
    runs = Run.objects.filter(workspace=workspace)
    if "step" in asked or "error" in asked:
        runs = runs.filter(status=Run.Status.FAILED)  # as the indexes say it
    if asked.get("by") == PROGRAM:
        asked = {name: asked[name] for name in asked if name != "by"}
        runs = runs.filter(grant__token__isnull=False)
    return runs.filter(**{OF_A_RUN[name]: value for name, value in asked.items()})


def _spent(workspace: UUID, over: dict[str, Any]) -> Any:
    totals = {f"total_{name}": Sum(SUMS[name]) for name in over}
    return (
        Run.objects.filter(workspace=workspace)
        .order_by()
        .values("thread")
        .annotate(**totals)
        .filter(**{f"total_{name}__gt": value for name, value in over.items()})
        .values("thread")
    )


def page_of(threads: Threads, *, before: Place | None, after: Place | None) -> Page:
    """The page before or after a place; without one, the newest.

    A place is a time and an id: new rows on top move nothing.
    """
    rows = places(threads)
    if after:
        rows = rows.filter(
            Q(active_at__gt=after.at) | Q(active_at=after.at, pk__gt=after.thread)
        ).order_by("active_at", "pk")
    elif before:
        rows = older(rows, before)
    found = [Place(at, pk) for pk, at in rows[: PAGE + 1]]
    more, shown = len(found) > PAGE, found[:PAGE]
    if after:
        shown.reverse()
    has_older = more if not after else True
    has_newer = more if after else before is not None
    return Page(
        shown,
        older=shown[-1] if shown and has_older else None,
        newer=shown[0] if shown and has_newer else None,
    )


def first_page(principal: UserPrincipal) -> Page:
    """As `page_of`, where nothing is filtered: the statement is written once."""
    found = [Place(at, pk) for pk, at in _FIRST.rows(principal)]
    shown = found[:PAGE]
    return Page(shown, older=shown[-1] if len(found) > PAGE else None, newer=None)


def places(threads: Threads) -> Threads:
    """(id, when it moved last) of each, the newest first."""
    return (
        threads.by_activity()
        .order_by("-active_at", "-pk")
        .values_list("pk", "active_at")
    )


def older(rows: Threads, place: Place) -> Threads:
    """Those of `places` that come after it in the list."""
    return rows.filter(
        Q(active_at__lt=place.at) | Q(active_at=place.at, pk__lt=place.thread)
    )


_FIRST = Compiled(lambda by: places(Thread.objects.for_user(by))[: PAGE + 1])


def counts_of(principal: UserPrincipal) -> dict[str, int]:
    """How many threads each tab has, without filters."""
    by_status = dict(_BY_STATUS.rows(principal))
    found = _BY_PLACE.rows(principal) or [(0, 0, 0, 0)]
    ((everything, archived, forked, starred),) = found
    return {
        "all": everything,
        "archived": archived,
        "forked": forked,
        "starred": starred,
        **{
            view: sum(by_status.get(status, 0) for status in statuses)
            for view, statuses in STATUSES.items()
        },
    }


def number(threads: Threads) -> str:
    """How many these are, as it is said: "7", "999+"."""
    found = threads.order_by()[: MOST + 1].count()
    return f"{MOST}+" if found > MOST else str(found)


def _by_status(by: UserPrincipal) -> Any:
    return (
        newest_runs(by.workspace_id)
        .for_user(by)
        .order_by()
        .values("status")
        .annotate(threads=Count("pk"))
        .values_list("status", "threads")
    )


def _by_place(by: UserPrincipal) -> Any:
    forked = Branch.objects.filter(workspace=by.workspace_id, parent__isnull=False)
    mine = Remark.objects.for_user(by).stars_of(by)
    return (
        Thread.objects.for_user(by)
        .order_by()
        .values("workspace")
        .annotate(
            everything=Count("pk"),
            archived=Count("pruned_at"),
            forked=Count("pk", filter=Q(pk__in=forked.values("thread"))),
            starred=Count("pk", filter=Q(pk__in=mine.values("thread"))),
        )
        .values_list("everything", "archived", "forked", "starred")
    )


_BY_STATUS = Compiled(_by_status)
_BY_PLACE = Compiled(_by_place)
