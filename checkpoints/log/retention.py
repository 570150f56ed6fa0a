"""How long content stays: policies of a workspace and its agents, and what they lead to.

A thread expires so many days after its last step (or after it was restored). It is
archived, and after a grace period its content goes; or its keys are destroyed at once.
Threads on legal hold, pinned, or with something not over keep everything. Each sweep
does a small batch and can stop anywhere: the rows say what is still to be done.
"""

from __future__ import annotations

import logging
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
from checkpoints.errors import CheckpointsError, NotPermitted
from checkpoints.log import archive as archives
from checkpoints.log import expire
from checkpoints.log.expire import BUSY, HELD, PINNED, Work
from checkpoints.models import (
    Archive,
    AuditEvent,
    Blob,
    Branch,
    CheckpointDelta,
    RetentionPolicy,
    Segment,
    Thread,
    Workspace,
)

logger = logging.getLogger(__name__)

BATCH = 10  # threads of one sweep
TRY_AGAIN = timedelta(days=1)  # with a thread that could not be archived

_SIZES: dict[type[Model], Any] = {
    CheckpointDelta: Length("record"),
    Segment: Length("record"),
    Blob: F("stored_size"),
}
_Then = RetentionPolicy.Then
_Status = Archive.Status


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


@dataclass
class Done:
    """What one sweep did, in threads; `failed` are left alone for a day."""

    archived: int = 0
    pruned: int = 0
    shredded: int = 0
    removed: int = 0  # archives
    failed: int = 0

    def __bool__(self) -> bool:
        return any(vars(self).values())


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
    caps = dict(
        RetentionPolicy.objects.unscoped(Reason.ARCHIVE)
        .filter(workspace_id=workspace_id, agent__in=["", agent])
        .values_list("agent", "max_steps")
    )
    return caps.get(agent, caps.get(""))


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
    return expired(rule, work).filter(pinned=False, legal_hold=False, busy=False)


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


def sweep(
    work: Work,
    *,
    limit: int = BATCH,
    workspace_id: UUID | None = None,
    via: str = "worker",
) -> Done:
    """Do what is due, at most `limit` threads of each kind.

    Raises StoreUnavailable, and what it did until then is done.
    """
    done = Done()
    for archive in expire.of_shredded()[:limit]:
        archives.discard(archive)
        done.removed += 1
    workspaces = (
        [workspace_id]
        if workspace_id
        else Workspace.objects.values_list("pk", flat=True).order_by("pk")
    )
    for each in workspaces:
        _go_on(each, work, limit, via, done)
        for rule in rules(each):
            _expire(rule, work, limit, via, done)
            _end_archives(rule, work, limit, via, done)
    return done


def _go_on(workspace_id: UUID, work: Work, limit: int, via: str, done: Done) -> None:
    """Archives in work: finish what was begun, prune what had its grace."""
    waiting = Archive.objects.unscoped(Reason.ARCHIVE).filter(workspace_id=workspace_id)
    for archive in waiting.filter(status=_Status.WRITING).order_by("created_at")[
        :limit
    ]:
        _archive(archive.thread_id, archive.policy, via, done)
    grace = timedelta(hours=settings.RETENTION_GRACE_HOURS)
    over = waiting.filter(
        status=_Status.VERIFIED, verified_at__lte=ClockTimestamp() - Value(grace)
    )
    for archive in over.select_related("policy").order_by("verified_at")[:limit]:
        if archive.requested_by_id is None and not _still_due(archive, work):
            archives.discard(archive)
            done.removed += 1
            continue
        try:
            done.pruned += expire.prune(archive, work=work, via=via)
        except NotPermitted:
            continue  # held or pinned since; when that is over, it goes on


def _still_due(archive: Archive, work: Work) -> bool:
    """Whether a rule still wants it, or would but for what protects the thread."""
    return any(
        expired(rule, work).filter(pk=archive.thread_id).exists()
        for rule in rules(archive.workspace_id)
    )


def _expire(rule: Rule, work: Work, limit: int, via: str, done: Done) -> None:
    of_thread = Archive.objects.unscoped(Reason.ARCHIVE).filter(thread=OuterRef("pk"))
    in_work = of_thread.filter(status__in=[_Status.WRITING, _Status.VERIFIED])
    failed = of_thread.filter(
        status=_Status.DELETED,
        verified_at=None,
        created_at__gt=ClockTimestamp() - Value(TRY_AGAIN),
    )
    threads = due(rule, work).exclude(Exists(in_work)).exclude(Exists(failed))
    for thread_id in list(threads.values_list("pk", flat=True)[:limit]):
        if rule.deletes:
            done.shredded += _shred(thread_id, rule, work, via)
        else:
            archive = _archive(thread_id, rule.policy, via, done)
            if archive is not None and settings.RETENTION_GRACE_HOURS == 0:
                done.pruned += expire.prune(archive, work=work, via=via)


def _archive(
    thread_id: UUID, policy: RetentionPolicy | None, via: str, done: Done
) -> Archive | None:
    """None where the thread could not be archived: it keeps its rows, and is left alone."""
    try:
        archive = archives.write(thread_id, policy=policy, via=via)
    except NotPermitted as kept:
        logger.info("a thread was not archived: %s", kept)  # another process is at it
        return None
    except CheckpointsError as problem:
        if problem.retry:
            raise  # the store is away
        logger.exception(
            "a thread was not archived", extra={"ids": {"thread": thread_id}}
        )
        archives.give_up(thread_id)
        done.failed += 1
        return None
    done.archived += 1
    return archive


def _shred(thread_id: UUID, rule: Rule, work: Work, via: str) -> bool:
    try:
        expire.shred(thread_id, work=work, policy=rule.policy, via=via)
    except NotPermitted as kept:
        logger.info("a thread was not shredded: %s", kept)
        return False
    return True


def _end_archives(rule: Rule, work: Work, limit: int, via: str, done: Done) -> None:
    """Threads whose archive was kept long enough are shredded."""
    if rule.archive_days is None:
        return
    latest = ClockTimestamp() - Value(timedelta(days=rule.archive_days))
    threads = (
        Thread.objects.unscoped(Reason.ARCHIVE)
        .filter(workspace_id=rule.workspace_id, legal_hold=False, pinned=False)
        .filter(archives__status=_Status.PRUNED, archives__pruned_at__lt=latest)
        .annotate(agent=work.agent)
    )
    threads = (
        threads.filter(agent=rule.agent)
        if rule.agent
        else threads.exclude(agent__in=rule.besides)
    )
    for thread_id in list(threads.values_list("pk", flat=True).distinct()[:limit]):
        done.shredded += _shred(thread_id, rule, work, via)
