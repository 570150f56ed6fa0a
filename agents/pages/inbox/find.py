"""Which requests a tab has, in which order, and how many: all in SQL, all bounded.

The order is one expression, and `approval_queue` is its index: requests by their
deadline, those without one after all others, by priority, risk and age. A page reads as
many index entries as it has rows, whatever waits behind them.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.db.models import (
    BooleanField,
    Case,
    Exists,
    F,
    Func,
    IntegerField,
    JSONField,
    OuterRef,
    Q,
    Subquery,
    UUIDField,
    Value,
    When,
)
from django.db.models.fields import TextField
from django.db.models.lookups import GreaterThan, LessThan
from django.utils import timezone

from agents.models import Approval, Decision, Run, Snooze
from agents.models.approvals import DUE, FAR, RANK, RISKS
from agents.pages.inbox.filters import AGES, Filters, usual_tab
from checkpoints.access import Role, UserPrincipal
from checkpoints.clock import ClockTimestamp
from checkpoints.compiled import Compiled
from checkpoints.models import Membership, Workspace

PAGE = 50  # rows
MOST = 999  # that are counted; a count above reads "999+"

Rows = Any  # a queryset of requests: what annotations add is not known to its type

# The columns that say where a request stands.
PLACE = ("due_at", "priority", "risk", "asked_at", "status")
ORDER = (DUE, F("priority") * -1, RANK, F("asked_at"), F("id"))


class Row(Func):
    """(a, b, c): PostgreSQL compares such rows column by column."""

    template = "(%(expressions)s)"
    output_field = TextField()


class AskedLater(Func):
    """Whether one of the steps of the escalation that were taken asks this group."""

    function = "jsonb_path_exists"
    output_field = BooleanField()

    def __init__(self, group: UUID) -> None:
        values = Func(
            *(Value("last"), F("level") - 1, Value("group")),
            Value(group, output_field=UUIDField()),
            function="jsonb_build_object",
            output_field=JSONField(),
        )
        path = Value("$.escalation[0 to $last].group ? (@ == $group)")
        super().__init__(F("terms"), path, values)


class Counted(Subquery):
    """How many rows of a queryset, of at most so many that it is cut to."""

    template = "(SELECT count(*) FROM (%(subquery)s) counted)"
    output_field = IntegerField()


class Both(Subquery):
    """How many rows of a queryset that is cut, and of how many of them `mine` is true."""

    template = (
        "(SELECT ARRAY[count(*), count(*) FILTER (WHERE mine)]"
        " FROM (%(subquery)s) counted)"
    )
    output_field = ArrayField(IntegerField())


def tab(principal: UserPrincipal, show: str) -> Rows:
    """The requests of a tab, without its filters."""
    visible = Approval.objects.for_user(principal)
    match show:
        case "decided":
            return visible.exclude(decided_at=None).exclude(status="pending")
        case "snoozed":
            return visible.pending().filter(
                snoozes__by=principal.user_id, snoozes__until__gt=ClockTimestamp()
            )
        case "mine":
            return visible.pending().filter(_mine(principal))
    return visible.pending()


def _snoozed(principal: UserPrincipal) -> Exists:
    return Exists(
        Snooze.objects.for_user(principal).filter(
            approval=OuterRef("pk"), by=principal.user_id, until__gt=ClockTimestamp()
        )
    )


def _mine(principal: UserPrincipal) -> Q:
    """Assigned to this person, or to nobody who may decide and theirs to, and not snoozed.

    Nor what they have approved and waits for others, nor what they started where
    its terms say that someone else decides.
    """
    to_me = Q(assigned_to=principal.user_id)
    free = Q(assigned_to=None) | _left_with_who_may_not(principal)
    anyone = free & _may_decide(principal) & _of_groups(principal)
    mine = to_me | anyone if anyone else to_me
    started_runs = Run.objects.for_user(principal).filter(
        pk=OuterRef("run"), started_by=principal.user_id
    )
    started = (
        Q(terms__has_key="exclude")  # else the next is unknown, and so is its opposite
        & Q(terms__exclude__contains=["starter"])
        & Q(Exists(started_runs))
    )
    given = Decision.objects.for_user(principal).filter(
        approval=OuterRef("pk"), revision=OuterRef("revision"), by=principal.user_id
    )
    said = Q(Q(approvers__gt=1), Exists(given))
    return Q(~_snoozed(principal), mine, ~started, ~Q(said))


def _left_with_who_may_not(principal: UserPrincipal) -> Q:
    """Assigned to somebody who lost the right since (`who.has_right`)."""
    members = (
        Membership.objects.for_user(principal)
        .filter(user=OuterRef("assigned_to"), user__is_active=True)
        .exclude(role=Role.AUDITOR)
    )
    approves = Q(Exists(members.filter(can_approve=True)))
    answers = Q(kind=Approval.Kind.QUESTION) & Q(
        Exists(members.filter(role__in=[Role.OPERATOR, Role.ADMIN]))
    )
    return Q(assigned_to__isnull=False) & ~(approves | answers)


def _may_decide(principal: UserPrincipal) -> Q:
    if principal.can_approve:
        return Q(status="pending")
    if principal.may_operate:
        return Q(kind=Approval.Kind.QUESTION)
    return Q(pk__in=[])


def _of_groups(principal: UserPrincipal) -> Q:
    """As `who.asked_groups`: those of the terms, and of each escalation that was taken."""
    of_any = ~Q(terms__has_key="groups")
    for group in principal.groups:
        of_any |= Q(terms__groups__contains=[str(group)])
        of_any |= Q(Q(level__gt=0), AskedLater(group))
    return of_any


def filtered(rows: Rows, principal: UserPrincipal, filters: Filters) -> Rows:
    """Those that the filters leave, but for the text, which is sealed."""
    if filters.agent:
        rows = rows.filter(run__agent_version__agent__name=filters.agent)
    if filters.tool:
        rows = rows.filter(call__tool=filters.tool)
    if filters.risk:
        rows = rows.filter(risk=filters.risk)
    if filters.group:
        rows = rows.filter(terms__groups__contains=[str(filters.group)])
    if filters.age:
        rows = rows.filter(asked_at__lt=ClockTimestamp() - AGES[filters.age])
    match filters.claimed:
        case "me":
            rows = rows.filter(claimed_by=principal.user_id)
        case "others":
            rows = rows.exclude(claimed_by=None).exclude(claimed_by=principal.user_id)
        case "nobody":
            rows = rows.filter(claimed_by=None)
    return rows


def in_order(rows: Rows, show: str) -> Rows:
    if show == "decided":
        return rows.order_by("-decided_at", "-pk")
    return rows.order_by(*ORDER)


def place(principal: UserPrincipal, number: int) -> Approval | None:
    """The request of that number, where a page begins or ends."""
    if not number:
        return None
    return Approval.objects.for_user(principal).filter(number=number).first()


def beyond(rows: Rows, show: str, at: Approval | None) -> Rows:
    """Those that come after this request; all, where there is none."""
    if at is None:
        return rows
    if show == "decided":
        newest_first = (F("decided_at"), F("id"))
        return rows.filter(LessThan(Row(*newest_first), _row(at.decided_at, at.pk)))
    return rows.filter(GreaterThan(Row(*ORDER), _row(*key(at))))


def up_to(rows: Rows, at: Approval | None) -> Rows:
    """Those that come before it, of a tab whose requests wait."""
    if at is None:
        return rows
    return rows.filter(LessThan(Row(*ORDER), _row(*key(at))))


def _row(*values: Any) -> Row:
    return Row(*(Value(value) for value in values))


def key(approval: Approval) -> tuple[Any, ...]:
    """Where a request stands: as `ORDER` says it."""
    return (
        approval.due_at or FAR,
        -approval.priority,
        RISKS[approval.risk],
        approval.asked_at,
        approval.pk,
    )


# Under which heading a request stands, by its deadline

OVERDUE, TODAY, LATER, NO_DEADLINE = (
    "Overdue",
    "Due today",
    "Due later",
    "No deadline",
)


def end_of_today() -> datetime:
    midnight = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + timedelta(days=1)


def heading(approval: Approval, *, now: datetime, tomorrow: datetime) -> str:
    due = approval.due_at
    if due is None:
        return NO_DEADLINE
    if due < now:
        return OVERDUE
    return TODAY if due < tomorrow else LATER


def _counted(principal: UserPrincipal) -> Rows:
    mine = Case(When(_mine(principal), then=Value(True)), default=Value(False))
    team = tab(principal, "team").order_by().annotate(mine=mine)
    snoozed = tab(principal, "snoozed").order_by().values_list("pk")
    return Workspace.objects.filter(pk=principal.workspace_id).values_list(
        Both(team.values_list("mine")[: MOST + 1]), Counted(snoozed[: MOST + 1])
    )


def _waiting(show: str, principal: UserPrincipal) -> Rows:
    rows = tab(principal, show).order_by().values_list("pk")
    return Workspace.objects.filter(pk=principal.workspace_id).values_list(
        Counted(rows[: MOST + 1]), flat=True
    )


_COUNTED = Compiled(_counted)
_WAITING = {show: Compiled(partial(_waiting, show)) for show in ("mine", "team")}


def counts(principal: UserPrincipal) -> dict[str, int]:
    """How many each tab has, none more than `MOST` + 1.

    In one statement, which looks at what waits once; what is mine of more than that is
    asked for itself.
    """
    # A workspace that has just gone has none.
    (team, mine), snoozed = _COUNTED.first(principal) or ((0, 0), 0)
    if mine < team > MOST:
        mine = _number(principal, "mine")
    return {"mine": mine, "team": team, "snoozed": snoozed}


def said(count: int) -> str:
    """As it is shown: "7", "999+"."""
    return f"{MOST}+" if count > MOST else str(count)


def waiting(principal: UserPrincipal) -> int:
    """What waits for this person, or where they decide nothing what waits; bounded."""
    return _number(principal, usual_tab(principal))


def _number(principal: UserPrincipal, show: str) -> int:
    found: int = _WAITING[show].first(principal) or 0
    return found
