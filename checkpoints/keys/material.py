"""Key rows and the secrets in them, which stay in this process for minutes (`cache`).

A cached secret is found by the id of its row. Whether the row still lives is asked of the
row each time, before its secret is looked up.
"""

from __future__ import annotations

from checkpoints.errors import Shredded
from checkpoints.ids import short
from checkpoints.keys.cache import KeyCache
from checkpoints.keys.providers import Plain, Wrapped, provider
from checkpoints.models import DataKey, WorkspaceKey
from checkpoints.pure import envelope
from checkpoints.pure.envelope import NIL, Context

known: KeyCache[bytes] = KeyCache()  # secrets, by id of the key row


def secret(row: DataKey) -> bytes:
    """Raises Shredded, DecryptionError when the row was altered or swapped, UnknownKey."""
    if row.wrapped is None or row.destroyed_at is not None:
        raise Shredded(_obituary(row))
    found = known.get(row.pk)
    if found is None:
        found = envelope.unwrap(
            bytes(row.wrapped),
            wrapping=wrapping(row.workspace_key),
            context=data_context(row),
        )
        known.put(row.pk, found)
    return found


def wrapping(key: WorkspaceKey) -> envelope.DataKey:
    """The workspace key itself. Raises DecryptionError, UnknownKey, KeysUnavailable."""
    found = known.get(key.pk)
    if found is None:
        [plain] = provider().unwrap([as_wrapped(key)])
        found = envelope.unchecked(plain, key.pk)
        known.put(key.pk, found)
    return envelope.DataKey(key.pk, found)


def wrap_workspace_key(key: WorkspaceKey, secret: bytes) -> None:
    """Fill the row with `secret`, wrapped by the current key-encryption key."""
    [done] = provider().wrap([as_plain(key, secret)])
    key.kek, key.wrapped = done.kek, done.key


def wrap_data_key(row: DataKey, secret: bytes) -> bytes:
    """`secret`, wrapped for this row by the workspace key that the row names."""
    return envelope.wrap(
        secret, wrapping=wrapping(row.workspace_key), context=data_context(row)
    )


def as_plain(key: WorkspaceKey, secret: bytes) -> Plain:
    return Plain(envelope.checked(secret, key.pk), workspace_context(key))


def as_wrapped(key: WorkspaceKey) -> Wrapped:
    return Wrapped(key.kek, bytes(key.wrapped), workspace_context(key))


def workspace_context(key: WorkspaceKey) -> Context:
    return Context(
        purpose="key.workspace",
        workspace=key.workspace_id,
        thread=NIL,
        object=key.pk,
        step=key.version,
        schema=1,
    )


def data_context(row: DataKey) -> Context:
    return Context(
        purpose=f"key.{row.purpose}",
        workspace=row.workspace_id,
        thread=row.thread_id or NIL,
        object=row.pk,
        step=row.version,
        schema=1,
    )


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
