"""Which key seals what, and how it is reached.

    key-encryption key (`providers`)
     └─ workspace key
         ├─ a thread's data key (seals) and MAC key (state chain, digests)
         └─ the workspace's detail key (seals), index key and decision key (MACs)

A thread's keys are destroyed together: what they sealed is gone, wherever copies of
it lie. Unwrapped keys stay in this process for minutes (`cache`); whether a key still
lives is asked at each opening, by `data_keys` or by the statement that reads a branch.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from django.db import transaction
from django.db.models import F

from checkpoints import audit
from checkpoints.access import Reason, ScopedQuerySet
from checkpoints.clock import ClockTimestamp
from checkpoints.errors import NotPermitted, Shredded, UnknownKey
from checkpoints.ids import short, uuid7
from checkpoints.keys.cache import KeyCache
from checkpoints.keys.providers import provider
from checkpoints.models import Branch, DataKey, Thread, Workspace, WorkspaceKey
from checkpoints.pure import envelope
from checkpoints.pure.envelope import KEY_BYTES, NIL, Context

_Purpose = DataKey.Purpose
_OF_THREAD = (_Purpose.DATA, _Purpose.MAC)
_OF_WORKSPACE = (_Purpose.DETAIL, _Purpose.INDEX, _Purpose.DECISION)


@dataclass(frozen=True)
class ThreadKeys:
    """What seals a thread's records now, and what chains its steps."""

    data: envelope.DataKey
    mac: bytes = field(repr=False)


_secrets: KeyCache[bytes] = KeyCache()  # by id of the key row
_threads: KeyCache[ThreadKeys] = KeyCache()  # by id of the thread
_workspaces: KeyCache[envelope.DataKey] = KeyCache()  # by workspace and purpose


def create_workspace_keys(workspace: Workspace) -> None:
    """The keys of a new workspace."""
    with transaction.atomic():
        key = WorkspaceKey(workspace=workspace)
        secret = secrets.token_bytes(KEY_BYTES)
        keks = provider()
        key.kek = keks.current()
        key.wrapped = keks.wrap(key.kek, secret, context=_workspace_context(key))
        key.save(force_insert=True)
        _secrets.put(key.pk, secret)
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
    """The keys to write with. Raises Shredded when they were destroyed, and UnknownKey."""
    if (known := _threads.get(thread_id)) is not None:
        return known
    newest = {
        row.purpose: row
        for row in _rows().filter(thread_id=thread_id).order_by("version")
    }
    if not newest.keys() >= set(_OF_THREAD):
        raise UnknownKey(f"Thread {thread_id} has no keys.")
    data, mac = (newest[purpose] for purpose in _OF_THREAD)
    keys = ThreadKeys(data=envelope.DataKey(data.pk, _secret(data)), mac=_secret(mac))
    _threads.put(thread_id, keys)
    return keys


def data_keys(ids: Iterable[UUID]) -> dict[UUID, envelope.DataKey]:
    """These keys, in one query that also asks whether each still lives.

    Raises Shredded when one was destroyed, and UnknownKey when there is none.
    """
    wanted = set(ids)
    if not wanted:
        return {}
    rows = _rows().filter(pk__in=wanted)
    keys = {row.pk: envelope.DataKey(row.pk, _secret(row)) for row in rows}
    for missing in wanted - keys.keys():
        raise UnknownKey(f"No key has the id {missing}.")
    return keys


def data_keys_seen_alive(ids: Iterable[UUID]) -> dict[UUID, envelope.DataKey]:
    """As `data_keys`, for a caller whose own statement has just read that they live."""
    wanted = set(ids)
    known = {
        key: envelope.DataKey(key, secret)
        for key in wanted
        if (secret := _secrets.get(key)) is not None
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
    key = envelope.DataKey(row.pk, _secret(row))
    _workspaces.put(name, key)
    return key


def workspace_mac(workspace_id: UUID, purpose: str) -> bytes:
    """The secret for keyed digests: purpose "index" or "decision"."""
    return workspace_key(workspace_id, purpose).secret


def unwrapped(row: DataKey | WorkspaceKey) -> envelope.DataKey:
    """The key that this row holds as it stands, whatever this process has cached.

    Raises DecryptionError when the row was altered or swapped, Shredded, UnknownKey.
    """
    _secrets.drop(row.pk)
    secret = _wrapping(row).secret if isinstance(row, WorkspaceKey) else _secret(row)
    return envelope.DataKey(row.pk, secret)


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


def forget() -> None:
    """Empty this process's key caches."""
    for cache in (_secrets, _threads, _workspaces):
        cache.clear()


def _create(
    key: WorkspaceKey, purposes: Iterable[str], *, thread_id: UUID | None
) -> list[envelope.DataKey]:
    made = [envelope.DataKey(uuid7(), secrets.token_bytes(KEY_BYTES)) for _ in purposes]
    wrapping = _wrapping(key)
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
        row.wrapped = envelope.wrap(
            new.secret, wrapping=wrapping, context=_data_context(row)
        )
        rows.append(row)
    DataKey.objects.bulk_create(rows)
    for new in made:
        _secrets.put(new.id, new.secret)
    return made


def _rows() -> ScopedQuerySet[DataKey]:
    return DataKey.objects.unscoped(Reason.KEYS).select_related("workspace_key")


def _secret(row: DataKey) -> bytes:
    """The key's secret. Raises Shredded; whether the row lives is judged before the cache."""
    if row.wrapped is None or row.destroyed_at is not None:
        raise Shredded(_obituary(row))
    if (known := _secrets.get(row.pk)) is not None:
        return known
    secret = envelope.unwrap(
        bytes(row.wrapped),
        wrapping=_wrapping(row.workspace_key),
        context=_data_context(row),
    )
    _secrets.put(row.pk, secret)
    return secret


def _obituary(row: DataKey) -> str:
    """A constraint sees to it that a key which is gone says when it went."""
    what = (
        f"{row.get_purpose_display().capitalize()} {short(row.pk)}"
        if row.thread_id is None
        else f"Thread {short(row.thread_id)}"
    )
    who = row.destroyed_by
    return (
        f"{what} was shredded on {row.destroyed_at:%Y-%m-%d}"
        f"{f' by {who.get_full_name() or who.get_username()}' if who else ''};"
        " what it sealed is gone for good."
    )


def _wrapping(key: WorkspaceKey) -> envelope.DataKey:
    secret = _secrets.get(key.pk)
    if secret is None:
        secret = provider().unwrap(
            key.kek, bytes(key.wrapped), context=_workspace_context(key)
        )
        _secrets.put(key.pk, secret)
    return envelope.DataKey(key.pk, secret)


def _workspace_context(key: WorkspaceKey) -> Context:
    return Context(
        purpose="key.workspace",
        workspace=key.workspace_id,
        thread=NIL,
        object=key.pk,
        step=key.version,
        schema=1,
    )


def _data_context(row: DataKey) -> Context:
    return Context(
        purpose=f"key.{row.purpose}",
        workspace=row.workspace_id,
        thread=row.thread_id or NIL,
        object=row.pk,
        step=row.version,
        schema=1,
    )
