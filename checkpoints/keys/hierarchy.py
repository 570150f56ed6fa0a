"""Which key seals what, and how it is reached.

    key-encryption key (`providers`)
     └─ workspace key
         ├─ a thread's data key (seals) and MAC key (state chain, digests)
         └─ the workspace's detail key (seals), index key and decision key (MACs)

A thread's keys are destroyed together: what they sealed is gone, wherever copies of
it lie. Unwrapped keys stay in this process for minutes (`cache`); whether a key still
lives is asked at each opening, by `data_keys` or by the statement that reads a branch.
`rotation` replaces them.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from django.db import transaction
from django.db.models import F, prefetch_related_objects

from checkpoints import audit
from checkpoints.access import Reason, ScopedQuerySet
from checkpoints.clock import ClockTimestamp
from checkpoints.compiled import Compiled
from checkpoints.db import rows
from checkpoints.db.prepared import Prepared
from checkpoints.errors import (
    CheckpointsError,
    DecryptionError,
    NotPermitted,
    Shredded,
    UnknownKey,
)
from checkpoints.ids import short, uuid7
from checkpoints.keys import material
from checkpoints.keys.cache import KeyCache
from checkpoints.models import Branch, DataKey, Thread, Workspace, WorkspaceKey
from checkpoints.pure import envelope
from checkpoints.pure.envelope import KEY_BYTES

_Purpose = DataKey.Purpose
_OF_THREAD = (_Purpose.DATA, _Purpose.MAC)
_OF_WORKSPACE = (_Purpose.DETAIL, _Purpose.INDEX, _Purpose.DECISION)


@dataclass(frozen=True)
class ThreadKeys:
    """What seals a thread's records now, and what chains its steps."""

    data: envelope.DataKey
    mac: bytes = field(repr=False)


# A process that works on a thread goes on with the key that it began with for so long
# after the thread got a new one. It would cost each step a look-up to know at once.
WRITES_ON = 10.0  # seconds

_threads: KeyCache[ThreadKeys] = KeyCache(seconds=WRITES_ON)  # by id of the thread
_workspaces: KeyCache[envelope.DataKey] = KeyCache()  # by workspace and purpose


def create_workspace_keys(workspace: Workspace) -> None:
    """The keys of a new workspace."""
    with transaction.atomic():
        key = WorkspaceKey(workspace=workspace)
        material.wrap_workspace_key(key, secrets.token_bytes(KEY_BYTES))
        key.save(force_insert=True)
        _create(key, _OF_WORKSPACE, thread_id=None)


def create_thread_keys(thread: Thread) -> ThreadKeys:
    """The keys of a new thread, whose row need not be written yet.

    Raises UnknownKey when its workspace has none.
    """
    key = (
        WorkspaceKey.objects.unscoped(Reason.KEYS)
        .filter(workspace_id=thread.workspace_id)
        .order_by("-version")
        .first()
    )
    if key is None:
        raise UnknownKey(
            f"Workspace {thread.workspace_id} has no key; create_workspace_keys() makes it."
        )
    data, mac = _create(key, _OF_THREAD, thread_id=thread.pk)
    keys = ThreadKeys(data=data, mac=mac.secret)
    _threads.put(thread.pk, keys)
    return keys


def thread_keys(thread_id: UUID) -> ThreadKeys:
    """The keys to write steps with. Raises Shredded and UnknownKey.

    They may be WRITES_ON seconds old: a new version is taken up after that, and who
    shreds a thread fences off those that write to it.
    """
    if (known := _threads.get(thread_id)) is not None:
        return known
    newest: dict[str, DataKey] = {}
    for values in _OF_A_THREAD.execute({"thread": thread_id}).fetchall():
        row, key = rows.each(values, DataKey, WorkspaceKey)
        row.workspace_key = key
        newest[row.purpose] = row
    if not newest.keys() >= set(_OF_THREAD):
        raise UnknownKey(f"Thread {thread_id} has no keys.")
    data, mac = (newest[purpose] for purpose in _OF_THREAD)
    keys = ThreadKeys(
        data=envelope.DataKey(data.pk, material.secret(data)), mac=material.secret(mac)
    )
    _threads.put(thread_id, keys)
    return keys


def sealing_key(thread_id: UUID) -> envelope.DataKey:
    """The key to seal a record of a thread with, now: the newest, which still lives.

    Asked of the database each time, so that a rotation and a destruction count at once.
    Raises Shredded and UnknownKey.
    """
    newest = _NEWEST.execute({"thread": thread_id}).fetchone()
    if newest is not None and newest[1]:
        secret = material.known.get(newest[0])
        if secret is not None:
            return envelope.DataKey(newest[0], secret)
    row = (
        _rows()
        .filter(thread_id=thread_id, purpose=_Purpose.DATA)
        .order_by("-version")
        .first()
    )
    if row is None:
        raise UnknownKey(f"Thread {thread_id} has no keys.")
    return envelope.DataKey(row.pk, material.secret(row))


def data_keys(ids: Iterable[UUID]) -> dict[UUID, envelope.DataKey]:
    """These keys, in one query that also asks whether each still lives.

    Raises Shredded when one was destroyed, and UnknownKey when there is none.
    """
    keys: dict[UUID, envelope.DataKey] = {}
    for key_id, found in each_data_key(ids).items():
        if isinstance(found, CheckpointsError):
            raise found
        keys[key_id] = found
    return keys


def each_data_key(
    ids: Iterable[UUID],
) -> dict[UUID, envelope.DataKey | CheckpointsError]:
    """As `data_keys`, with the error in the place of a key that cannot be used.

    Raises KeysUnavailable.
    """
    wanted = set(ids)
    if not wanted:
        return {}
    of_one = len(wanted) == 1  # as on most pages: that statement is written once
    found = _ONE.rows(None, pk=next(iter(wanted))) if of_one else _of(wanted)
    rows = {row.pk: row for row in found}
    # Who destroyed them, of however many: an error names the person.
    prefetch_related_objects(
        [row for row in rows.values() if row.destroyed_by_id], "destroyed_by"
    )
    return {key_id: _usable(key_id, rows.get(key_id)) for key_id in wanted}


def data_keys_seen_alive(ids: Iterable[UUID]) -> dict[UUID, envelope.DataKey]:
    """As `data_keys`, for a caller whose own statement has just read that they live."""
    wanted = set(ids)
    known = {
        key: envelope.DataKey(key, secret)
        for key in wanted
        if (secret := material.known.get(key)) is not None
    }
    return known if known.keys() == wanted else data_keys(wanted)


def workspace_key(workspace_id: UUID, purpose: str) -> envelope.DataKey:
    """The workspace's newest key for this purpose. Raises UnknownKey."""
    name = (workspace_id, str(purpose))
    if (known := _workspaces.get(name)) is not None:
        return known
    row = (
        _rows()
        .filter(workspace_id=workspace_id, thread=None, purpose=purpose)
        .order_by("-version")
        .first()
    )
    if row is None:
        raise UnknownKey(f"Workspace {workspace_id} has no {purpose} key.")
    key = envelope.DataKey(row.pk, material.secret(row))
    _workspaces.put(name, key)
    return key


def workspace_mac(workspace_id: UUID, purpose: str) -> bytes:
    """The secret for keyed digests: purpose "index" or "decision"."""
    return workspace_key(workspace_id, purpose).secret


def unwrapped(row: DataKey | WorkspaceKey) -> envelope.DataKey:
    """The key that this row holds as it stands, whatever this process has cached.

    Raises DecryptionError when the row was altered or swapped, Shredded, UnknownKey.
    """
    material.known.drop(row.pk)
    if isinstance(row, WorkspaceKey):
        return material.wrapping(row)
    return envelope.DataKey(row.pk, material.secret(row))


def destroy_thread_keys(
    thread_id: UUID, *, by_id: int | None = None, via: str = "worker"
) -> None:
    """Shred a thread: nothing that its keys sealed can be opened again, anywhere.

    `by_id` is the person who wanted it; None: a policy did. `via` is the audit row's.
    Backups of the key rows still open it; erasure is complete when they expire. Holders
    of its branches are fenced off, so that none seals anything more. Does nothing when
    the keys are gone already. Raises NotPermitted while the thread is on legal hold.
    """
    with transaction.atomic():
        # Locked, as by whoever makes keys for it: no key appears beside these.
        thread = (
            Thread.objects.unscoped(Reason.KEYS)
            .select_for_update(no_key=True)
            .get(pk=thread_id)
        )
        if thread.legal_hold:
            raise NotPermitted(
                f"Thread {short(thread_id)} is on legal hold; an admin has to lift it"
                " before its keys can be destroyed."
            )
        destroyed = (
            DataKey.objects.unscoped(Reason.KEYS)
            .filter(thread=thread, destroyed_at=None)
            .update(wrapped=None, destroyed_at=ClockTimestamp(), destroyed_by_id=by_id)
        )
        if destroyed:
            Branch.objects.unscoped(Reason.KEYS).filter(thread=thread).update(
                fence=F("fence") + 1
            )
            audit.record(
                None,
                "key_destroy",
                obj=thread,
                via=via,
                actor_id=by_id,
                count=destroyed,
            )
    forget()


def forget_thread(thread_id: UUID) -> None:
    """Look up which keys this thread is written with when it is written to again."""
    _threads.drop(thread_id)


def forget() -> None:
    """Empty this process's key caches."""
    for cache in (material.known, _threads, _workspaces):
        cache.clear()


def _create(
    key: WorkspaceKey, purposes: Iterable[str], *, thread_id: UUID | None
) -> list[envelope.DataKey]:
    made = [envelope.DataKey(uuid7(), secrets.token_bytes(KEY_BYTES)) for _ in purposes]
    rows = []
    for purpose, new in zip(purposes, made, strict=True):
        row = DataKey(
            id=new.id,
            workspace_id=key.workspace_id,
            thread_id=thread_id,
            purpose=purpose,
            version=1,
            workspace_key=key,
        )
        row.wrapped = material.wrap_data_key(row, new.secret)
        rows.append(row)
    DataKey.objects.bulk_create(rows)
    return made


def _usable(
    key_id: UUID, row: DataKey | None
) -> envelope.DataKey | UnknownKey | Shredded | DecryptionError:
    if row is None:
        return UnknownKey(f"No key has the id {key_id}.")
    try:
        return envelope.DataKey(key_id, material.secret(row))
    except (UnknownKey, Shredded, DecryptionError) as error:
        return error


_OF_A_THREAD = Prepared(f"""
SELECT {rows.columns(DataKey, "mine")}, {rows.columns(WorkspaceKey, "its")}
FROM {DataKey._meta.db_table} mine
JOIN {WorkspaceKey._meta.db_table} its ON its.id = mine.workspace_key_id
WHERE mine.thread_id = %(thread)s
ORDER BY mine.version
""")  # noqa: S608  # our own names; values are parameters
_NEWEST = Prepared(f"""
SELECT id, destroyed_at IS NULL AND wrapped IS NOT NULL FROM {DataKey._meta.db_table}
WHERE thread_id = %(thread)s AND purpose = '{_Purpose.DATA}'
ORDER BY version DESC LIMIT 1
""")  # noqa: S608  # our own names; values are parameters


def _of(ids: Iterable[UUID]) -> ScopedQuerySet[DataKey]:
    return _rows().filter(pk__in=ids)


_ONE = Compiled(lambda _, pk: _of([pk]))


def _rows() -> ScopedQuerySet[DataKey]:
    return DataKey.objects.unscoped(Reason.KEYS).select_related("workspace_key")
