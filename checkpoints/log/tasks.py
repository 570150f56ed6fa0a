"""What people ask of retention: pages write it down, workers do it.

The web's database role may remove no content and add no archive. A task stays open until
it was done or refused, and each can be begun again, so a worker that dies loses none.
"""

from __future__ import annotations

import logging

from django.db import IntegrityError, transaction

from checkpoints import audit, gate
from checkpoints.access import Reason, Role, SystemPrincipal, UserPrincipal
from checkpoints.clock import ClockTimestamp
from checkpoints.errors import (
    BadArchive,
    BeingArchived,
    CheckpointsError,
    NotPermitted,
)
from checkpoints.log import archive as archives
from checkpoints.log import archive_care, expire, retention, source
from checkpoints.log.expire import Work
from checkpoints.log.restore import restore
from checkpoints.models import Archive, Membership, RetentionTask, Thread

logger = logging.getLogger(__name__)

BATCH = 5
SWEEP = 100  # threads of each kind that "run now" takes on

_What = RetentionTask.What
_Outcome = RetentionTask.Outcome
_ADMINS = frozenset({_What.SHRED, _What.SWEEP})
_LONGEST = 400  # characters of an answer


def require_may_ask(by: UserPrincipal, what: str) -> None:
    """Raises NotPermitted."""
    if what in _ADMINS and by.role is not Role.ADMIN:
        raise NotPermitted("Only an admin of the workspace does this.")
    if not by.may_operate:
        raise NotPermitted(
            "Viewers and auditors do not change threads; an operator can."
        )


def ask(
    what: str, *, by: UserPrincipal, thread: Thread | None = None, reason: str = ""
) -> RetentionTask | None:
    """Write down what is to be done; None when something is open there already.

    Raises NotPermitted.
    """
    require_may_ask(by, what)
    task = RetentionTask(
        workspace_id=by.workspace_id, thread=thread, what=what, by_id=by.user_id
    )
    if reason:
        task.reason = gate.seal(task, "reason", reason)
    try:
        with transaction.atomic():
            task.save(force_insert=True)
            audit.record(by, f"ask_{what}", obj=thread or task, task=task.pk)
    except IntegrityError:
        return None
    return task


def work_off(work: Work, *, limit: int = BATCH) -> int:
    """Do what was asked, oldest first; how many were done or refused.

    Raises StoreUnavailable once all had their turn: what was not done stays open.
    """
    tasks = RetentionTask.objects.unscoped(Reason.ARCHIVE).filter(outcome=_Outcome.OPEN)
    done, away = 0, None
    for task in tasks.select_related("thread", "by").order_by("asked_at")[:limit]:
        try:
            answer, outcome = _do(task, work), _Outcome.DONE
        except BeingArchived:
            continue
        except CheckpointsError as problem:
            if problem.retry:
                away = problem
                continue
            logger.info("a task was refused: %s", problem)
            answer, outcome = str(problem), _Outcome.REFUSED
        tasks.filter(pk=task.pk).update(
            outcome=outcome, answer=answer[:_LONGEST], done_at=ClockTimestamp()
        )
        done += 1
    if away is not None:
        raise away
    return done


def _do(task: RetentionTask, work: Work) -> str:
    """What was done. Raises NotPermitted, and what doing it raises."""
    by = _principal(task)
    require_may_ask(by, task.what)
    if task.thread is not None and task.thread.workspace_id != task.workspace_id:
        # Row security looks at the task's workspace, not at the thread's.
        raise NotPermitted("This thread is not in the workspace of who asked.")
    match task.what, task.thread:
        case _What.SWEEP, _:
            swept = retention.sweep(work, limit=SWEEP, workspace_id=task.workspace_id)
            return said(swept)
        case _What.ARCHIVE, Thread() as thread:
            return _archive(thread, by, work)
        case _What.RESTORE, Thread() as thread:
            kept = thread.archives.filter(status=Archive.Status.PRUNED)
            archived = kept.order_by("-pruned_at").first()
            if archived is None:
                raise NotPermitted("There is no archive of this thread.")
            if not archive_care.is_undamaged(archived):
                raise BadArchive("Its archive is not what was written, or is missing.")
            stored = source.stored(archived.store, archived.object_name)
            found = restore(stored, by=by)
            return f"Restored {found.steps} steps."
        case _What.SHRED, Thread() as thread:
            reason = _reason(task)
            expire.shred(thread.pk, work=work, by=by, reason=reason)
            return "Its keys were destroyed, and its content with them."
    raise NotPermitted("This was asked for no thread.")


def _archive(thread: Thread, by: UserPrincipal, work: Work) -> str:
    if thread.pruned_at is not None:
        return "It was archived already."
    expire.require_free(thread, work)
    archived = archives.write(thread.pk, by=by)
    if not expire.prune(archived, work=work, by=by):
        raise NotPermitted("The thread went on meanwhile; it keeps its content.")
    return f"Archived {archived.steps} steps, {archived.size:,} bytes."


def _principal(task: RetentionTask) -> UserPrincipal:
    """The person who asked, as they are now. Raises NotPermitted."""
    membership = (
        Membership.objects.unscoped(Reason.ARCHIVE)
        .filter(workspace_id=task.workspace_id, user_id=task.by_id)
        .filter(user__is_active=True)
        .first()
    )
    if membership is None:
        raise NotPermitted("Whoever asked for this is no longer a member here.")
    return UserPrincipal(
        user_id=task.by_id,
        workspace_id=task.workspace_id,
        role=Role(membership.role),
        can_approve=membership.can_approve,
        name=task.by.get_full_name() or task.by.get_username(),
    )


def _reason(task: RetentionTask) -> str:
    """The words given for it, to be kept in the journal."""
    if task.reason is None or task.thread is None:
        return ""
    pass_ = gate.admit(
        SystemPrincipal(archives.TASK, task.workspace_id),
        purpose="retention task",
        threads=[task.thread],
    )
    return str(pass_.open(task, "reason"))


def said(done: retention.Done) -> str:
    """In words, as "12 archived, 3 pruned."."""
    parts = [f"{count} {what}" for what, count in vars(done).items() if count]
    return f"{', '.join(parts).capitalize()}." if parts else "Nothing was due."
