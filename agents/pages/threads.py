"""The threads list: what stands where, newest first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import Case, Count, Exists, F, OuterRef, Q, Subquery, Sum, When
from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import path
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_safe

from agents.models import Agent, Run
from agents.pages.damage import open_each
from agents.pages.principal import MemberRequest, member
from checkpoints import gate
from checkpoints.access import UserPrincipal
from checkpoints.clock import ClockTimestamp
from checkpoints.gate import Pass
from checkpoints.ids import short
from checkpoints.models import Branch, Checkpoint, CheckpointDelta, Thread

# A queryset of annotated threads, and one of them: the annotations of `annotated` and
# `by_activity` are not known to their types.
Threads = Any
Found = Any

PAGE = 25  # rows
SEARCHED = 2_000  # titles that are opened for one search
SPARKS = 14  # steps in the little chart of a row

VIEWS = ("all", "waiting", "running", "failed", "done", "forked")
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
class Bar:
    """One step's time in the little chart."""

    x: float
    y: float
    height: float
    hot: bool


@dataclass
class Row:
    thread: Found
    title: str
    status: str
    active_at: datetime
    run: Run | None
    last: str = ""  # the newest step's label
    steps: int = 0
    branches: int = 0
    cost: Decimal | None = None
    tokens: int = 0
    bars: list[Bar] = field(default_factory=list)
    readable: bool = True

    @property
    def agent(self) -> str:
        return self.run.agent_version.agent.name if self.run else ""


@require_safe
@member
def threads(request: MemberRequest) -> HttpResponse:
    filters = Filters.of(request.GET)
    everything = annotated(request.principal)
    counts = _counts(everything)
    rows, earlier, later = _page(
        request.principal,
        _filtered(everything.by_activity(), filters),
        filters,
        before=request.GET.get("before", ""),
        after=request.GET.get("after", ""),
    )
    return render(
        request,
        "threads.html",
        {
            "filters": filters,
            "views": [
                (view, filters.address(status=view), counts.get(view, 0))
                for view in VIEWS
            ],
            "periods": PERIODS.items(),
            "agents": _agents(request.principal),
            "rows": rows,
            "total": counts["all"],
            "earlier": earlier and filters.address(before=earlier),
            "later": later and filters.address(after=later),
            "clear": "?",
        },
    )


def annotated(principal: UserPrincipal) -> Threads:
    """Threads with their newest run, a live one before all others."""
    of_thread = {"thread": OuterRef("pk")}
    run = Run.objects.filter(**of_thread).order_by(
        Case(When(status__in=Run.LIVE, then=0), default=1), "-created_at"
    )
    return Thread.objects.for_user(principal).annotate(
        run_id=Subquery(run.values("pk")[:1]),
        run_status=Subquery(run.values("status")[:1]),
        is_forked=Exists(Branch.objects.filter(**of_thread, parent__isnull=False)),
    )


def _filtered(threads: Threads, filters: Filters) -> Threads:
    if filters.view in STATUSES:
        threads = threads.filter(run_status__in=STATUSES[filters.view])
    elif filters.view == "forked":
        threads = threads.filter(is_forked=True)
    if filters.agent:
        of_agent = Run.objects.filter(
            thread=OuterRef("pk"), agent_version__agent__name=filters.agent
        )
        threads = threads.filter(Exists(of_agent))
    if filters.since:
        threads = threads.filter(active_at__gt=ClockTimestamp() - AGES[filters.since])
    return threads


def _counts(threads: Threads) -> dict[str, int]:
    """How many threads each view has."""
    counts: dict[str, int] = threads.aggregate(
        all=Count("pk"),
        forked=Count("pk", filter=Q(is_forked=True)),
        **{
            view: Count("pk", filter=Q(run_status__in=statuses))
            for view, statuses in STATUSES.items()
        },
    )
    return counts


def _page(
    principal: UserPrincipal,
    threads: Threads,
    filters: Filters,
    *,
    before: str,
    after: str,
) -> tuple[list[Row], str, str]:
    """Rows, and cursors to the older and newer ones where there are any.

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
    rows = rows_of(principal, shown, opened)
    has_older = more if not newer else True
    has_newer = more if newer else older is not None
    return (
        rows,
        _said(rows[-1]) if rows and has_older else "",
        _said(rows[0]) if rows and has_newer else "",
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


def rows_of(
    principal: UserPrincipal, threads: Sequence[Found], opened: Pass | None = None
) -> list[Row]:
    """The list's rows. Who may not read sees structure, and no titles."""
    if principal.may_read and threads and opened is None:
        opened = gate.admit(principal, purpose="threads list", threads=threads)
    titles = open_each(opened, threads, "title") if opened else [None] * len(threads)
    ids = [thread.pk for thread in threads]
    runs = {
        run.pk: run
        for run in Run.objects.for_user(principal)
        .filter(pk__in=[thread.run_id for thread in threads])
        .select_related("agent_version__agent")
        .defer("error", "agent_version__spec")
    }
    branches: dict[UUID, list[Branch]] = {}
    for branch in (
        Branch.objects.for_user(principal)
        .filter(thread__in=ids)
        .only("thread_id", "head_id", "head_step", "updated_at")
        .order_by("updated_at")
    ):
        branches.setdefault(branch.thread_id, []).append(branch)
    newest = {
        thread.pk: _of_run(branches[thread.pk], runs.get(thread.run_id))
        for thread in threads
    }
    labels = _labels(principal, newest.values(), opened)
    bars = _bars(principal, newest.values())
    sums = _sums(principal, ids)
    rows = []
    for thread, title in zip(threads, titles, strict=True):
        cost, tokens = sums.get(thread.pk, (None, 0))
        branch = newest[thread.pk]
        status = thread.run_status or (
            "imported" if thread.origin == Thread.Origin.IMPORT else "idle"
        )
        rows.append(
            Row(
                thread=thread,
                title=title or f"Thread {short(thread.pk)}",
                status=status,
                active_at=thread.active_at,
                run=runs.get(thread.run_id),
                last=labels.get(branch.head_id, ""),
                steps=max(each.head_step for each in branches[thread.pk]) + 1,
                branches=len(branches[thread.pk]),
                cost=cost,
                tokens=tokens,
                bars=bars.get(branch.pk, []),
                readable=title is not None or opened is None,
            )
        )
    return rows


def _of_run(branches: Sequence[Branch], run: Run | None) -> Branch:
    """The branch that a row tells of: its run's, else the one that moved last."""
    for branch in branches:
        if run is not None and branch.pk == run.branch_id:
            return branch
    return branches[-1]


def _labels(
    principal: UserPrincipal, branches: Iterable[Branch], opened: Pass | None
) -> dict[UUID | None, str]:
    """The newest step's label of each branch, or its kind and tool where sealed."""
    heads = [branch.head_id for branch in branches if branch.head_id]
    if opened is None:
        steps = Checkpoint.objects.for_user(principal).filter(pk__in=heads)
        return {
            pk: name or kind
            for pk, name, kind in steps.values_list("pk", "name", "kind")
        }
    deltas = list(CheckpointDelta.objects.for_user(principal).filter(pk__in=heads))
    records = open_each(opened, deltas, "record")
    return {
        delta.pk: record["label"]
        for delta, record in zip(deltas, records, strict=True)
        if record
    }


def _sums(
    principal: UserPrincipal, threads: Sequence[UUID]
) -> dict[UUID, tuple[Decimal | None, int]]:
    rows = (
        Checkpoint.objects.for_user(principal)
        .filter(thread__in=threads)
        .values("thread")
        .annotate(cost=Sum("cost"), read=Sum("tokens_in"), written=Sum("tokens_out"))
    )
    return {
        row["thread"]: (row["cost"], (row["read"] or 0) + (row["written"] or 0))
        for row in rows
    }


def _bars(
    principal: UserPrincipal, branches: Iterable[Branch]
) -> dict[UUID, list[Bar]]:
    """The times of the newest steps, as bars; a failed step's is hot."""
    rows = (
        Checkpoint.objects.for_user(principal)
        .filter(
            branch__in=[branch.pk for branch in branches],
            step__gt=F("branch__head_step") - SPARKS,
        )
        .order_by("step")
        .values_list("branch_id", "latency_ms", "status", "kind")
    )
    found: dict[UUID, list[tuple[int, bool]]] = {}
    for branch, latency, status, kind in rows:
        failed = status == Checkpoint.Status.FAILED or kind == Checkpoint.Kind.ERROR
        found.setdefault(branch, []).append((latency or 0, failed))
    return {branch: _chart(times) for branch, times in found.items()}


def _chart(times: list[tuple[int, bool]]) -> list[Bar]:
    """Heights by square root, so that one long step does not flatten the others."""
    top = max(time for time, _ in times) ** 0.5 or 1
    bars = []
    for n, (time, failed) in enumerate(times):
        height = round(2 + 15 * time**0.5 / top, 1)
        bars.append(Bar(round(n * 5.1, 1), round(18 - height, 1), height, failed))
    return bars


def _agents(principal: UserPrincipal) -> list[str]:
    return list(
        Agent.objects.for_user(principal)
        .order_by("name")
        .values_list("name", flat=True)
    )


def _said(row: Row) -> str:
    return f"{row.active_at.isoformat()}~{row.thread.pk}"


def _cursor(text: str) -> tuple[datetime, UUID] | None:
    """What an address says; None for anything else than a cursor."""
    when, _, identifier = text.partition("~")
    try:
        moment = parse_datetime(when)
        return (moment, UUID(identifier)) if moment else None
    except ValueError:
        return None


urlpatterns = [path("threads/", threads, name="threads")]
