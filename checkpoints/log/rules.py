"""What applies to which threads: the policies of a workspace and its agents.

A thread expires so many days after its last step (or after it was restored). Threads on
legal hold, pinned, or with something not over keep everything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import (
    Exists,
    F,
    Model,
    OuterRef,
    QuerySet,
    Subquery,
    Sum,
    Value,
)
from django.db.models.functions import Greatest, Length

from checkpoints.access import Reason
from checkpoints.clock import ClockTimestamp
from checkpoints.compiled import Compiled
from checkpoints.log.expire import BUSY, HELD, PINNED, Work
from checkpoints.models import (
    AuditEvent,
    Blob,
    Branch,
    CheckpointDelta,
    RetentionPolicy,
    Segment,
    Thread,
)

_SIZES: dict[type[Model], Any] = {
    CheckpointDelta: Length("record"),
    Segment: Length("record"),
    Blob: F("stored_size"),
}
_Then = RetentionPolicy.Then


@dataclass(frozen=True)
class Rule:
    """What applies to the threads of one agent, or of all others, in a workspace."""

    workspace_id: UUID
    agent: str  # empty: every agent without a rule of its own
    keep_days: int | None  # None: for ever
    then: str
    archive_days: int | None
    policy: RetentionPolicy | None  # None: the setting speaks
    besides: tuple[str, ...] = ()  # agents with rules of their own

    @property
    def name(self) -> str:
        return self.agent or ("other agents" if self.besides else "every agent")

    @property
    def deletes(self) -> bool:
        return self.then == _Then.DELETE


@dataclass
class Forecast:
    """What a rule leads to now."""

    rule: Rule
    due: list[UUID] = field(default_factory=list)
    kept: dict[str, int] = field(default_factory=dict)  # reason → threads


def rules(workspace_id: UUID) -> list[Rule]:
    """The workspace's rules, agents' own first. Without any, RETENTION_DAYS applies."""
    own = list(
        RetentionPolicy.objects.unscoped(Reason.ARCHIVE)
        .filter(workspace_id=workspace_id)
        .order_by("-agent")
    )
    agents = tuple(policy.agent for policy in own if policy.agent)
    found = [
        Rule(
            workspace_id,
            policy.agent,
            policy.keep_days,
            policy.then,
            policy.archive_days,
            policy,
            besides=() if policy.agent else agents,
        )
        for policy in own
    ]
    if all(rule.agent for rule in found):
        days = settings.RETENTION_DAYS or None
        found.append(
            Rule(workspace_id, "", days, _Then.ARCHIVE, None, None, besides=agents)
        )
    return found


def rule_of(workspace_id: UUID, agent: str) -> Rule:
    """The agent's own rule wins over the workspace's."""
    found = rules(workspace_id)
    return next((rule for rule in found if rule.agent == agent), found[-1])


def most_steps(workspace_id: UUID, agent: str) -> int | None:
    """How many steps a thread of this agent may have; None: no limit."""
    caps = dict(_CAPS.rows(None, workspace=workspace_id, agent=agent))
    return caps.get(agent, caps.get(""))


_CAPS = Compiled(
    lambda _, workspace, agent: (
        RetentionPolicy.objects.unscoped(Reason.ARCHIVE)
        .filter(workspace_id=workspace, agent__in=["", agent])
        .values_list("agent", "max_steps")
    )
)


# The same, for a statement that knows a workspace `here` and an `agent`.
MOST_STEPS = f"""(
    SELECT max_steps FROM {RetentionPolicy._meta.db_table} policy
    WHERE policy.workspace_id = here.id AND policy.agent IN ('', agent.name)
    ORDER BY policy.agent DESC LIMIT 1
)"""  # noqa: S608  # our own names


def expired(rule: Rule, work: Work) -> QuerySet[Any, Any]:
    """Threads whose time is over by this rule, oldest first; also those that are kept.

    Each with `agent`, `active_at` and `busy`.
    """
    latest = ClockTimestamp() - Value(timedelta(days=rule.keep_days or 0))
    restored = AuditEvent.objects.unscoped(Reason.ARCHIVE).filter(
        object_type="checkpoints.thread", object_id=OuterRef("pk"), action="restore"
    )
    last_step = (
        Branch.objects.unscoped(Reason.ARCHIVE)
        .filter(thread=OuterRef("pk"))
        .order_by("-updated_at")
        .values("updated_at")[:1]
    )
    threads = (
        Thread.objects.unscoped(Reason.ARCHIVE)
        .filter(workspace_id=rule.workspace_id, pruned_at=None)
        .filter(created_at__lt=latest)
        .annotate(
            agent=work.agent,
            busy=work.busy,
            active_at=Greatest(F("created_at"), Subquery(last_step)),
        )
        .filter(active_at__lt=latest)
        .exclude(Exists(restored.filter(at__gte=latest)))
    )
    threads = (
        threads.filter(agent=rule.agent)
        if rule.agent
        else threads.exclude(agent__in=rule.besides)
    )
    if rule.keep_days is None:
        return threads.none()
    return threads.order_by("active_at", "pk")


def due(rule: Rule, work: Work) -> QuerySet[Any, Any]:
    """Of the expired, those that nothing protects."""
    return expired(rule, work).filter(pk__in=free(work))


def free(work: Work) -> QuerySet[Any, Any]:
    """Ids of threads that nothing protects: in a batch, no other takes their place."""
    return (
        Thread.objects.unscoped(Reason.ARCHIVE)
        .annotate(busy=work.busy)
        .filter(pinned=False, legal_hold=False, busy=False)
        .exclude(branches__holder__isnull=False)
        .values("pk")
    )


def forecast(workspace_id: UUID, work: Work) -> list[Forecast]:
    """What would be done now, rule by rule. Changes nothing."""
    found = []
    for rule in rules(workspace_id):
        report = Forecast(rule)
        for pk, held, pinned, busy in expired(rule, work).values_list(
            "pk", "legal_hold", "pinned", "busy"
        ):
            reason = HELD if held else PINNED if pinned else BUSY if busy else None
            if reason is None:
                report.due.append(pk)
            else:
                report.kept[reason] = report.kept.get(reason, 0) + 1
        found.append(report)
    return found


def size_of(thread_ids: list[UUID]) -> int:
    """Bytes of these threads' operations and blobs, sealed."""
    total = 0
    for model, column in _SIZES.items():
        rows = model._default_manager.all().unscoped(Reason.ARCHIVE)  # type: ignore[attr-defined]  # ours have it
        total += (
            rows.filter(thread_id__in=thread_ids).aggregate(size=Sum(column))["size"]
            or 0
        )
    return total
