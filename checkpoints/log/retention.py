"""What the rules of a workspace lead to (`rules` says which threads are due).

A thread that expired is archived, and after a grace period its content goes; or its keys
are destroyed at once. Each sweep does a small batch and can stop anywhere: the rows say
what is still to be done.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import Exists, OuterRef, Value

from checkpoints.access import Reason
from checkpoints.clock import ClockTimestamp
from checkpoints.errors import BeingArchived, CheckpointsError, NotPermitted
from checkpoints.log import archive as archives
from checkpoints.log import archive_care, expire
from checkpoints.log.expire import Work
from checkpoints.log.rules import Rule, due, expired, free, rules
from checkpoints.models import Archive, RetentionPolicy, Thread, Workspace

logger = logging.getLogger(__name__)

BATCH = 10  # threads of one sweep
TRY_AGAIN = timedelta(days=1)  # with a thread that could not be archived

_Status = Archive.Status


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
        archive_care.discard(archive)
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
        status=_Status.VERIFIED,
        verified_at__lte=ClockTimestamp() - Value(grace),
        thread__in=free(work),
    )
    for archive in over.select_related("policy").order_by("verified_at")[:limit]:
        if archive.requested_by_id is None and not _still_due(archive, work):
            archive_care.discard(archive)
            done.removed += 1
            continue
        try:
            done.pruned += expire.prune(archive, work=work, via=via)
        except NotPermitted:
            continue  # held or pinned just now; when that is over, it goes on


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
    except BeingArchived:
        return None
    except CheckpointsError as problem:
        if problem.retry:
            raise  # the store is away
        logger.exception(
            "a thread was not archived", extra={"ids": {"thread": thread_id}}
        )
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
        .filter(workspace_id=rule.workspace_id, pk__in=free(work))
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
