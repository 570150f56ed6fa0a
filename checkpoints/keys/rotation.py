"""New keys for what is written from now on; what is written stays readable.

A thread's MAC key is never replaced: it chains the thread's steps from the first to the
last. A workspace's MAC keys (index, decision) are not either: what they made is compared
with what they make. A key younger than the time that is given is left alone, so that a
rotation which was cut short, or is run twice at once, goes on where it is.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Subquery

from checkpoints import audit, clock
from checkpoints.access import Reason, ScopedQuerySet
from checkpoints.errors import DecryptionError, UnknownKey
from checkpoints.failpoints import failpoint
from checkpoints.keys import hierarchy, material
from checkpoints.keys.rewrap import Progress, Tally, rewrap_data_keys, silent
from checkpoints.models import DataKey, Thread, Workspace, WorkspaceKey
from checkpoints.pure.envelope import KEY_BYTES

BATCH = 200  # threads; their rows are locked for about 50 ms

_Purpose = DataKey.Purpose


def rotate_thread_keys(
    thread_id: UUID, *, via: str = "command", actor_id: int | None = None
) -> DataKey:
    """A new data key for one thread: its row. Raises Shredded, UnknownKey."""
    failed: list[str] = []
    made = _rotate([thread_id], clock.now(), via, actor_id, failed)
    if failed:
        raise UnknownKey(failed[0])
    if made:
        return made[0]
    newest = _newest([thread_id]).first()
    if newest is None:
        raise UnknownKey(f"Thread {thread_id} has no keys.")
    material.secret(newest)  # raises Shredded
    return newest  # someone else's, a moment ago


def due_threads(
    before: datetime, *, workspace_id: UUID | None = None, thread_id: UUID | None = None
) -> ScopedQuerySet[Thread]:
    """Threads with a living data key made before this time, and none made since."""
    keys = DataKey.objects.unscoped(Reason.KEYS).filter(
        thread=OuterRef("pk"), purpose=_Purpose.DATA
    )
    rows = Thread.objects.unscoped(Reason.KEYS).filter(
        Exists(keys.filter(created_at__lt=before, destroyed_at=None)),
        ~Exists(keys.filter(created_at__gte=before)),
    )
    if workspace_id is not None:
        rows = rows.filter(workspace_id=workspace_id)
    return rows if thread_id is None else rows.filter(pk=thread_id)


def rotate_threads(
    before: datetime,
    *,
    workspace_id: UUID | None = None,
    thread_id: UUID | None = None,
    batch: int = BATCH,
    progress: Progress = silent,
    dry_run: bool = False,
    via: str = "command",
    actor_id: int | None = None,
) -> Tally:
    """New data keys for every thread whose key was made before this time.

    Of one workspace, of one thread, or of all. A thread whose workspace's key does not
    open is passed over. Raises KeysUnavailable; what was done stays.
    """
    rows = due_threads(before, workspace_id=workspace_id, thread_id=thread_id)
    tally = Tally(due=rows.count())
    if dry_run:
        tally.done = tally.due
        return tally
    progress(0, tally.due)
    ordered = rows.order_by("pk").values_list("pk", flat=True)
    page = list(ordered[:batch])
    while page:
        tally.done += len(_rotate(page, before, via, actor_id, tally.failed))
        progress(tally.done, tally.due)
        page = list(ordered.filter(pk__gt=page[-1])[:batch])
    return tally


def rotate_workspace_key(
    workspace: Workspace,
    before: datetime,
    *,
    progress: Progress = silent,
    dry_run: bool = False,
    via: str = "command",
    actor_id: int | None = None,
) -> Tally:
    """A new workspace key, if the newest was made before; then every data key under it.

    The workspace's detail key is replaced, too. Raises UnknownKey, DecryptionError and
    KeysUnavailable when the workspace's key does not open.
    """
    key = _newest_workspace_key(workspace.pk)
    if dry_run and key.created_at < before:
        rows = DataKey.objects.unscoped(Reason.KEYS)
        living = rows.filter(workspace=workspace, destroyed_at=None).count()
        return Tally(due=living, done=living)
    if not dry_run:
        key = _replace_workspace_key(workspace, before, via, actor_id)
    return rewrap_data_keys(key, progress=progress, dry_run=dry_run)


def _replace_workspace_key(
    workspace: Workspace, before: datetime, via: str, actor_id: int | None
) -> WorkspaceKey:
    """The newest workspace key, which was made since `before`."""
    failpoint("before a new workspace key")
    with transaction.atomic():
        # One at a time makes a new version.
        Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)
        key = _newest_workspace_key(workspace.pk)
        if key.created_at < before:
            key = _next_workspace_key(key)
            audit.record(
                None,
                "key_rotate",
                obj=key,
                via=via,
                actor_id=actor_id,
                version=key.version,
            )
        failpoint("during a new workspace key")
    hierarchy.forget()
    failpoint("after a new workspace key")
    return key


def _next_workspace_key(newest: WorkspaceKey) -> WorkspaceKey:
    hierarchy.unwrapped(newest)  # what does not open gets no successor
    key = WorkspaceKey(workspace_id=newest.workspace_id, version=newest.version + 1)
    material.wrap_workspace_key(key, secrets.token_bytes(KEY_BYTES))
    key.save(force_insert=True)
    detail = (
        DataKey.objects.unscoped(Reason.KEYS)
        .filter(workspace_id=key.workspace_id, thread=None, purpose=_Purpose.DETAIL)
        .latest("version")
    )
    _successor(detail, key).save(force_insert=True)
    return key


def _rotate(
    thread_ids: Collection[UUID],
    before: datetime,
    via: str,
    actor_id: int | None,
    failed: list[str],
) -> list[DataKey]:
    """The new keys of these threads, but of those that are shredded or have a younger."""
    failpoint("before new data keys")
    with transaction.atomic():
        # Locked, as by who destroys keys: none is made for a thread that is shredded.
        locked = (
            Thread.objects.unscoped(Reason.KEYS)
            .filter(pk__in=thread_ids)
            .order_by("pk")
            .select_for_update(no_key=True)
            .only("workspace_id")
        )
        threads = {thread.pk: thread for thread in locked}
        old = list(_newest(threads).filter(created_at__lt=before, destroyed_at=None))
        keys = _opened({row.workspace_id for row in old}, failed)
        made = [
            _successor(row, keys[row.workspace_id])
            for row in old
            if row.workspace_id in keys
        ]
        DataKey.objects.bulk_create(made)
        changed = [threads[row.thread_id] for row in made if row.thread_id]
        audit.record_each("key_rotate", changed, via=via, actor_id=actor_id)
        failpoint("during new data keys")
    for thread in changed:
        hierarchy.forget_thread(thread.pk)
    failpoint("after new data keys")
    return made


def _opened(workspaces: set[UUID], failed: list[str]) -> dict[UUID, WorkspaceKey]:
    """The newest keys of these workspaces, but of those that do not open."""
    keys = _newest_workspace_keys(workspaces)
    for workspace_id, key in list(keys.items()):
        try:
            material.wrapping(key)
        except (UnknownKey, DecryptionError) as error:
            failed.append(f"Workspace {workspace_id}: {error}")
            del keys[workspace_id]
    return keys


def _successor(row: DataKey, key: WorkspaceKey) -> DataKey:
    """The next version, not yet stored. It is not cached: its transaction may fail."""
    following = DataKey(
        workspace_id=row.workspace_id,
        thread_id=row.thread_id,
        purpose=row.purpose,
        version=row.version + 1,
        workspace_key=key,
    )
    following.wrapped = material.wrap_data_key(
        following, secrets.token_bytes(KEY_BYTES)
    )
    return following


def _newest(thread_ids: Collection[UUID]) -> ScopedQuerySet[DataKey]:
    """The newest data key of each thread, whatever became of it."""
    newest = (
        DataKey.objects.unscoped(Reason.KEYS)
        .filter(thread=OuterRef("thread"), purpose=_Purpose.DATA)
        .order_by("-version")
        .values("pk")[:1]
    )
    return (
        DataKey.objects.unscoped(Reason.KEYS)
        .filter(thread__in=thread_ids, purpose=_Purpose.DATA, pk=Subquery(newest))
        .select_related("destroyed_by")
    )


def _newest_workspace_key(workspace_id: UUID) -> WorkspaceKey:
    try:
        return _newest_workspace_keys({workspace_id})[workspace_id]
    except KeyError:
        raise UnknownKey(f"Workspace {workspace_id} has no key.") from None


def _newest_workspace_keys(ids: set[UUID]) -> dict[UUID, WorkspaceKey]:
    rows = (
        WorkspaceKey.objects.unscoped(Reason.KEYS)
        .filter(workspace_id__in=ids)
        .order_by("workspace_id", "-version")
        .distinct("workspace_id")
    )
    return {row.workspace_id: row for row in rows}
