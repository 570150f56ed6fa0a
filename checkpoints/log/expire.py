"""Take a thread's content away: after it was archived, or for good.

Each is one transaction a thread: the journal, what it removes, and what says so become
true together, and no reader ever sees half a thread. Objects outside the database go
after the commit; what a crash leaves there is found again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q, Value
from django.db.models.expressions import Combinable

from checkpoints import audit, gate, stores
from checkpoints.access import Principal, Reason, SystemPrincipal, UserPrincipal
from checkpoints.clock import ClockTimestamp
from checkpoints.errors import NotPermitted
from checkpoints.failpoints import failpoint
from checkpoints.ids import short
from checkpoints.keys import hierarchy
from checkpoints.log import archive as archives
from checkpoints.log import archive_care, content
from checkpoints.models import Archive, Branch, Deletion, RetentionPolicy, Thread

_What = Deletion.What
_Status = Archive.Status


@dataclass(frozen=True)
class Work:
    """What the app above knows of a thread: expressions over a row of threads.

    `agent` is the name of the agent that worked there; `busy` is true while something
    there is not over, so that its content must stay.
    """

    agent: Combinable
    busy: Combinable | Q


NO_WORK = Work(agent=Value(""), busy=Value(False))

HELD, PINNED, BUSY = (
    "it is on legal hold",
    "it is pinned",
    "a run or an approval there is not over",
)
_WAY_OUT = {
    HELD: "An admin has to lift the hold first.",
    PINNED: "Unpin it first.",
    BUSY: "Decide or cancel it first.",
}


def why_kept(thread: Thread, work: Work) -> str | None:
    """Why the content of a thread stays whatever a policy says; None: it may go."""
    if thread.legal_hold:
        return HELD
    if thread.pinned:
        return PINNED
    this = Thread.objects.unscoped(Reason.ARCHIVE).filter(pk=thread.pk)
    if this.filter(branches__holder__isnull=False).exists() or (
        this.annotate(busy=work.busy).filter(busy=True).exists()
    ):
        return BUSY
    return None


def require_free(thread: Thread, work: Work) -> None:
    """Raises NotPermitted, with the reason and the way out, for content that must stay."""
    if (kept := why_kept(thread, work)) is not None:
        raise NotPermitted(
            f"Thread {short(thread.pk)} keeps its content: {kept}. {_WAY_OUT[kept]}"
        )


def prune(
    archive: Archive,
    *,
    work: Work = NO_WORK,
    by: Principal | None = None,
    via: str = "worker",
) -> bool:
    """Remove what the archive holds from the database; it is read once more before.

    False when the thread went on since, or the archive is gone: it is given up then, and
    the thread keeps everything. Raises NotPermitted while the thread is held, pinned or
    at work, and StoreUnavailable.
    """
    with transaction.atomic():
        thread = _lock(archive.thread_id)
        archive = (
            Archive.objects.unscoped(Reason.ARCHIVE)
            .select_for_update()
            .get(pk=archive.pk)
        )
        if archive.status != _Status.VERIFIED:
            return archive.status == _Status.PRUNED
        require_free(thread, work)
        whole = archive_care.is_current(archive) and archive_care.is_undamaged(archive)
        if whole:
            # Whoever read a branch before, and is about to append, appends nothing.
            thread.branches.update(fence=F("fence") + 1)
            journaled = _journal(thread, _What.ARCHIVED, archive.policy, by)
            objects = content.remove(thread)
            Archive.objects.unscoped(Reason.ARCHIVE).filter(pk=archive.pk).update(
                status=_Status.PRUNED, pruned_at=ClockTimestamp()
            )
            audit.record(
                by or SystemPrincipal(archives.TASK, thread.workspace_id),
                "prune",
                obj=thread,
                via=via,
                archive=archive.pk,
                deletion=journaled.pk,
                count=archive.steps,
            )
            failpoint("prune: before commit")
    if not whole:
        archive_care.discard(archive)
        return False
    failpoint("prune: committed")
    remove_objects(objects)
    return True


def shred(
    thread_id: UUID,
    *,
    work: Work = NO_WORK,
    by: UserPrincipal | None = None,
    policy: RetentionPolicy | None = None,
    reason: str = "",
    via: str = "worker",
) -> Deletion:
    """Destroy a thread's keys, and with them its content wherever copies of it lie.

    Archives and blobs go, too. Done again, it ends what the first time began, and gives
    its journal row. Raises NotPermitted while the thread is held, pinned or at work, and
    StoreUnavailable when objects could not be removed; they can be noise only, and are
    removed later.
    """
    objects: list[tuple[str, str]] = []
    with transaction.atomic():
        thread = _lock(thread_id)
        done = content.last_deletion(thread_id)
        if done is None or done.what != _What.SHREDDED:
            require_free(thread, work)
            done = _journal(thread, _What.SHREDDED, policy, by, reason=reason)
            hierarchy.destroy_thread_keys(
                thread_id, by_id=by.user_id if by else None, via=via
            )
            objects = content.remove(thread)
            audit.record(
                by or SystemPrincipal(archives.TASK, thread.workspace_id),
                "shred",
                obj=thread,
                via=via,
                deletion=done.pk,
                count=done.steps,
            )
        failpoint("shred: before commit")
    failpoint("shred: committed")
    for archive in of_shredded().filter(thread_id=thread_id):
        archive_care.discard(archive)
    remove_objects(objects)
    return done


def of_shredded() -> Any:
    """Archives of shredded threads that are still to be removed."""
    shredded = Deletion.objects.unscoped(Reason.ARCHIVE).filter(what=_What.SHREDDED)
    return (
        Archive.objects.unscoped(Reason.ARCHIVE)
        .exclude(status=_Status.DELETED)
        .filter(thread_id__in=shredded.values("thread_id"))
    )


def remove_objects(objects: Iterable[tuple[str, str]]) -> None:
    """Objects of rows that are gone. Orphans of a crash are swept by `blobs`."""
    for store, name in objects:
        stores.of(store).delete(name)


def _lock(thread_id: UUID) -> Thread:
    """The thread and its branches, locked: nothing begins there, is appended or packed.

    Not the thread's key: who holds a branch, and inserts a row of its thread, would wait
    for us as we wait for the branch.
    """
    thread = (
        Thread.objects.unscoped(Reason.ARCHIVE)
        .select_for_update(no_key=True)
        .get(pk=thread_id)
    )
    branches = (
        Branch.objects.unscoped(Reason.ARCHIVE)
        .filter(thread=thread)
        .order_by("pk")
        .select_for_update()
        .values_list("pk", flat=True)
    )
    # Again, until none is new: a fork may have come while we waited for the others.
    known: list[UUID] | None = None
    while (found := list(branches.all())) != known:
        known = found
    return thread


def _journal(
    thread: Thread,
    what: Deletion.What,
    policy: RetentionPolicy | None,
    by: Principal | None,
    *,
    reason: str = "",
) -> Deletion:
    """The journal's row, then the mark: the database lets content go after both only."""
    row = Deletion(
        workspace_id=thread.workspace_id,
        thread=thread,
        what=what,
        policy=policy,
        by_id=by.user_id if isinstance(by, UserPrincipal) else None,
        steps=thread.checkpoints.count(),
    )
    if reason:
        row.reason = gate.seal(row, "reason", reason)
    row.save(force_insert=True)
    Thread.objects.unscoped(Reason.ARCHIVE).filter(pk=thread.pk).update(
        pruned_at=ClockTimestamp()
    )
    return row
