"""Which agents there are, and how the last days went for each.

An agent is registered by code, known to the workspace by a row once a run of it was
started, or both. Counts are of what the person who asks may see.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Count, FloatField, Max, Q, Sum
from django.db.models.functions import Extract, TruncDate
from django.http import Http404

from agents import models
from agents.models import AgentVersion, Approval, Policy, Run
from agents.runs.figures import Quantile
from agents.tools import Agent, registry
from agents.tools.declared import Effect, Tool
from checkpoints import clock
from checkpoints.access import UserPrincipal

DAYS = 7
WEEK = timedelta(days=DAYS)
EFFECTS: tuple[Effect, ...] = (
    "none",
    "read",
    "write",
    "external",
)  # as the table shows them


@dataclass(frozen=True)
class Week:
    """The last seven days of one agent."""

    runs: int = 0
    succeeded: int = 0
    failed: int = 0
    cost: Decimal | None = None
    asked: int = 0  # people, about calls
    approved: int = 0
    rejected: int = 0
    edited: int = 0
    decided_in: float | None = None  # seconds, the median

    @property
    def success(self) -> int | None:
        """Percent of the runs that came to an end by themselves."""
        return _share(self.succeeded, self.succeeded + self.failed)

    @property
    def approval(self) -> int | None:
        """Percent of the requests that people decided."""
        return _share(self.approved, self.approved + self.rejected)

    @property
    def edits(self) -> int | None:
        """Percent of what was approved."""
        return _share(self.edited, self.approved)

    @property
    def cost_a_run(self) -> Decimal | None:
        return self.cost / self.runs if self.cost is not None and self.runs else None

    @property
    def median(self) -> timedelta | None:
        return None if self.decided_in is None else timedelta(seconds=self.decided_in)


@dataclass(frozen=True)
class Row:
    """One agent. `known`: the workspace's row; `code`: what an app registers now."""

    name: str
    known: models.Agent | None = None
    code: Agent | None = None
    version: int | None = None  # the newest
    rules: int = 0  # of policies in force, its own and the workspace's
    week: Week = field(default_factory=Week)

    @property
    def enabled(self) -> bool:
        return self.known is None or self.known.enabled

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tuple(self.code.tools) if self.code else ()

    @property
    def effects(self) -> list[tuple[Effect, int]]:
        """Effect class and how many tools have it; questions to people are of none."""
        found = Counter(tool.effect for tool in self.tools)
        return [(effect, found[effect]) for effect in EFFECTS if found[effect]]


def rows(principal: UserPrincipal) -> list[Row]:
    """Every agent, by name. Five statements."""
    known = {row.name: row for row in models.Agent.objects.for_user(principal)}
    declared = {agent.name: agent for agent in registry}
    newest = dict(
        AgentVersion.objects.for_user(principal)
        .order_by()
        .values_list("agent")
        .annotate(newest=Max("number"))
    )
    weeks = _weeks(principal)
    rules = {
        policy.agent_id: len(policy.rules) for policy in policies_in_force(principal)
    }
    return [
        Row(
            name,
            known=(row := known.get(name)),
            code=declared.get(name),
            version=newest.get(row.pk) if row else None,
            rules=rules.get(None, 0) + (rules.get(row.pk, 0) if row else 0),
            week=weeks.get(row.pk, Week()) if row else Week(),
        )
        for name in sorted({*known, *declared})
    ]


def row_of(principal: UserPrincipal, name: str) -> Row:
    """One of them. Raises Http404 for a name that neither code nor the workspace knows."""
    known = models.Agent.objects.for_user(principal).filter(name=name).first()
    code = registry.agent(name) if name in registry else None
    if known is None and code is None:
        raise Http404
    if known is None:
        return Row(name, code=code)
    newest = AgentVersion.objects.for_user(principal).filter(agent=known)
    return Row(
        name,
        known=known,
        code=code,
        version=newest.aggregate(newest=Max("number"))["newest"],
        week=_weeks(principal, known).get(known.pk, Week()),
    )


def policies_in_force(
    principal: UserPrincipal, agent: models.Agent | None = None
) -> list[Policy]:
    """The newest version of each policy; with an agent, its own and the workspace's."""
    found = Policy.objects.for_user(principal).select_related("agent", "made_by")
    if agent is not None:
        found = found.filter(Q(agent=agent) | Q(agent=None))
    return list(found.order_by("agent_id", "-version").distinct("agent_id"))


def days(principal: UserPrincipal, agent: models.Agent | None) -> list[int]:
    """Runs on each of the last seven days, the oldest first."""
    if agent is None:
        return [0] * DAYS
    now = clock.now()
    found = dict(
        _runs(principal, now, [agent])
        .annotate(day=TruncDate("created_at"))
        .values_list("day")
        .annotate(n=Count("pk"))
    )
    first = now.date() - timedelta(days=DAYS - 1)
    return [found.get(first + timedelta(days=n), 0) for n in range(DAYS)]


def calls(principal: UserPrincipal, agent: models.Agent | None) -> dict[str, int]:
    """Calls by tool in the last seven days."""
    if agent is None:
        return {}
    found = (
        models.ToolCall.objects.for_user(principal)
        .filter(
            created_at__gt=clock.now() - WEEK,
            run__agent_version__agent=agent,
        )
        .order_by()
        .values_list("tool")
        .annotate(n=Count("pk"))
    )
    return dict(found)


def _weeks(
    principal: UserPrincipal, agent: models.Agent | None = None
) -> dict[Any, Week]:
    """By the agent's id. Two statements, however many agents there are."""
    now = clock.now()
    only = [agent] if agent else None
    status = Run.Status
    of_runs = {
        row.pop("agent_version__agent"): row
        for row in _runs(principal, now, only)
        .values("agent_version__agent")
        .annotate(
            runs=Count("pk"),
            succeeded=Count("pk", filter=Q(status=status.SUCCEEDED)),
            failed=Count("pk", filter=Q(status=status.FAILED)),
            spent=Sum("cost"),
        )
    }
    asked = Approval.objects.for_user(principal).filter(
        asked_at__gt=now - WEEK, kind=Approval.Kind.APPROVAL
    )
    if only:
        asked = asked.filter(run__agent_version__agent__in=only)
    took: Any = Extract("decided_at", "epoch", output_field=FloatField()) - Extract(
        "asked_at", "epoch", output_field=FloatField()
    )
    approved = Q(status=Approval.Status.APPROVED)
    of_requests = {
        row.pop("run__agent_version__agent"): row
        for row in asked.order_by()
        .values("run__agent_version__agent")
        .annotate(
            asked=Count("pk"),
            approved=Count("pk", filter=approved),
            rejected=Count("pk", filter=Q(status=Approval.Status.REJECTED)),
            edited=Count("pk", filter=approved & Q(call__effective__isnull=False)),
            decided_in=Quantile(took, 0.5),
        )
    }
    found: dict[Any, Week] = {}
    for pk in {*of_runs, *of_requests}:
        runs = of_runs.get(pk, {})
        cost = runs.pop("spent", None)
        found[pk] = Week(**runs, cost=cost, **of_requests.get(pk, {}))
    return found


def _runs(
    principal: UserPrincipal, now: datetime, agents: Iterable[models.Agent] | None
) -> Any:
    """Those that began in the week, of these agents or of all."""
    runs = Run.objects.for_user(principal).filter(created_at__gt=now - WEEK)
    if agents is not None:
        runs = runs.filter(agent_version__agent__in=agents)
    return runs.order_by()


def _share(part: int, of: int) -> int | None:
    return round(100 * part / of) if of else None
