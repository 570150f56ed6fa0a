"""Which runs the page lists: by status, step, error class, agent, tool, cost and time.

"All runs that failed at step 5 in the last 24 hours" is ?show=failed&step=5&since=day.
Of runs that failed the time is when they did, of others when they began; each is served
by an index (docs/questions.md; tests/pages/test_run_questions.py asks for the plans).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from django.db.models import (
    DurationField,
    ExpressionWrapper,
    F,
    OuterRef,
    Q,
    Subquery,
)
from django.db.models.functions import Now
from django.http import QueryDict
from django.utils.dateparse import parse_datetime

from agents.models import Run, ToolCall
from checkpoints.access import UserPrincipal
from checkpoints.clock import ClockTimestamp

# A queryset of annotated runs, and one of them: `lease_left` (timedelta or None) and
# `doing` (a tool's name or None) are not known to their types.
Runs = Any
Found = Any

PAGE = 50  # rows

SHOWN: dict[str, tuple[Run.Status, ...]] = {
    "all": (),
    "live": Run.LIVE,
    "waiting": (Run.Status.WAITING,),
    "failed": (Run.Status.FAILED,),
    "done": (Run.Status.SUCCEEDED,),
    "cancelled": (Run.Status.CANCELLED,),
}
PERIODS = {
    "": "Any time",
    "hour": "Last hour",
    "day": "Last 24 hours",
    "week": "Last 7 days",
}
AGES = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
}
LAST_STEP = 2**31 - 1  # of the column
MOST = Decimal(999_999)  # dollars


@dataclass(frozen=True)
class Filters:
    show: str = "all"
    step: str = ""  # at which it failed
    error: str = ""
    agent: str = ""
    tool: str = ""
    cost: str = ""  # dollars, at least
    since: str = ""
    wrong: tuple[str, ...] = field(
        default=(), compare=False
    )  # what was left out, and why

    @classmethod
    def of(cls, query: QueryDict) -> Filters:
        wrong = []
        given = {
            # PostgreSQL takes no NUL.
            name: query.get(name, "").replace("\0", "").strip()
            for name in ("show", "step", "error", "agent", "tool", "cost", "since")
        }
        if given["step"] and _step(given["step"]) is None:
            wrong.append(f"The step “{given['step']}” is not a whole number.")
            given["step"] = ""
        if given["cost"] and _cost(given["cost"]) is None:
            wrong.append(f"The cost “{given['cost']}” is not an amount such as 0.50.")
            given["cost"] = ""
        if given["since"] not in PERIODS:
            given["since"] = ""
        if given["show"] not in SHOWN:
            given["show"] = "all"
        if given["step"] or given["error"]:
            given["show"] = "failed"  # nothing else has them
        return cls(**given, wrong=tuple(wrong))

    def address(self, **changes: str) -> str:
        """The list's address with these filters, and others in their place."""
        names = ("show", "step", "error", "agent", "tool", "cost", "since")
        query = QueryDict(mutable=True)
        for name in names:
            value = changes.get(name, getattr(self, name))
            if value and value != "all":
                query[name] = value
        return f"?{query.urlencode()}"

    @property
    def failed_only(self) -> bool:
        return self.show == "failed"

    @property
    def narrows(self) -> bool:
        """Whether anything but the status is asked for."""
        asked = (self.step, self.error, self.agent, self.tool, self.cost, self.since)
        return any(asked)


@dataclass(frozen=True)
class Page:
    """Runs of one page, and the cursor of the next where there is one."""

    runs: list[Found]
    earlier: str


def matching(principal: UserPrincipal, filters: Filters) -> Runs:
    """The runs that the filters leave, newest first."""
    runs = Run.objects.for_user(principal)
    if filters.failed_only:
        runs = runs.filter(status=Run.Status.FAILED)  # as the indexes say it
    elif SHOWN[filters.show]:
        runs = runs.filter(status__in=SHOWN[filters.show])
    if filters.step:
        runs = runs.filter(failed_step=_step(filters.step))
    if filters.error:
        runs = runs.filter(error_class=filters.error)
    if filters.agent:
        runs = runs.filter(agent_version__agent__name=filters.agent)
    if filters.tool:
        calls = ToolCall.objects.for_user(principal).filter(tool=filters.tool)
        runs = runs.filter(pk__in=calls.values("run"))
    if filters.cost:
        runs = runs.filter(cost__gte=_cost(filters.cost))
    if filters.since:
        # Not clock_timestamp(): it is volatile, and no index is looked into for it.
        since = Now() - AGES[filters.since]
        runs = runs.filter(**{f"{_moment(filters)}__gt": since})
    return runs.order_by(f"-{_moment(filters)}", "-pk")


def page_of(principal: UserPrincipal, filters: Filters, *, before: str = "") -> Page:
    """The page after a cursor: a row's time and id, so that new rows move nothing."""
    moment = _moment(filters)
    runs = matching(principal, filters)
    if cursor := _cursor(before):
        at, pk = cursor
        runs = runs.filter(Q(**{f"{moment}__lt": at}) | Q(**{moment: at}, pk__lt=pk))
    executing = ToolCall.objects.for_user(principal).filter(
        run=OuterRef("pk"), status=ToolCall.Status.EXECUTING
    )
    found = list(
        runs.annotate(
            lease_left=ExpressionWrapper(
                F("branch__lease_until") - ClockTimestamp(),
                output_field=DurationField(),
            ),
            doing=Subquery(executing.values("tool")[:1]),
        ).select_related(
            "thread",
            "branch",
            "grant__token",
            "agent_version__agent",
            "started_by",
        )[: PAGE + 1]
    )
    shown = found[:PAGE]
    more = len(found) > PAGE
    last = getattr(shown[-1], moment) if more else None
    return Page(shown, f"{last.isoformat()}~{shown[-1].pk}" if last else "")


def _moment(filters: Filters) -> str:
    return "finished_at" if filters.failed_only else "created_at"


def _step(text: str) -> int | None:
    if not text.isascii() or not text.isdecimal() or len(text) > 10:
        return None
    return min(int(text), LAST_STEP)


def _cost(text: str) -> Decimal | None:
    try:
        cost = Decimal(text.removeprefix("$"))
    except InvalidOperation:
        return None
    return min(cost, MOST) if cost.is_finite() and cost >= 0 else None


def _cursor(text: str) -> tuple[datetime, UUID] | None:
    """What an address says; None for anything else than a cursor."""
    when, _, identifier = text.partition("~")
    try:
        moment = parse_datetime(when)
        return (moment.astimezone(UTC), UUID(identifier)) if moment else None
    except (ValueError, OverflowError):
        return None
