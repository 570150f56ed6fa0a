"""Wrap keys anew, while everything goes on: no record that they sealed is touched.

A batch is unwrapped, wrapped, opened again to see that it is the same, and then replaces
what it was made from, if that is still there, in one statement; while PostgreSQL is busy
with it, the next batch of workspace keys is wrapped. Two that do this at once, or
one that was killed and is run again, only find less to do. What is done and what is left
is in the rows. A key that does not open is named and passed over; it hinders no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import UUID

from django.db import connection, transaction

from checkpoints import audit
from checkpoints.access import Reason, ScopedQuerySet
from checkpoints.db import arrays
from checkpoints.db.prepared import Answer, Prepared
from checkpoints.errors import CheckpointsError, DecryptionError, UnknownKey
from checkpoints.failpoints import failpoint
from checkpoints.ids import short, uuid7
from checkpoints.keys import material
from checkpoints.keys.providers import Wrapped, provider
from checkpoints.models import DataKey, WorkspaceKey
from checkpoints.pure import envelope

BATCH = 1000  # data keys; a transaction of about 0.1 s

Progress = Callable[[int, int], None]  # how many of how many
Row = TypeVar("Row", WorkspaceKey, DataKey)


@dataclass
class Tally:
    """How many rows were due, how many were done, and which were not, and why."""

    due: int = 0
    done: int = 0
    failed: list[str] = field(default_factory=list)

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.due + other.due, self.done + other.done, self.failed + other.failed
        )


def silent(done: int, due: int) -> None:
    """Progress that nobody watches."""


def outdated(kek_from: str | None = None) -> ScopedQuerySet[WorkspaceKey]:
    """Workspace keys that the current key-encryption key does not wrap."""
    rows = WorkspaceKey.objects.unscoped(Reason.KEYS).exclude(kek=provider().current())
    return rows if kek_from is None else rows.filter(kek=kek_from)


def rewrap(
    *,
    kek_from: str | None = None,
    batch: int | None = None,
    progress: Progress = silent,
    dry_run: bool = False,
    via: str = "command",
    actor_id: int | None = None,
) -> Tally:
    """Every workspace key under the current key-encryption key.

    `kek_from`: only those under this one. A dry run does all but write. Raises
    KeysUnavailable when a provider's service does not answer; then what was done stays.
    """
    rows = outdated(kek_from)
    tally = Tally(due=rows.count())
    progress(0, tally.due)
    pages = _pages(
        rows.only("workspace_id", "version", "kek", "wrapped"),
        batch or provider().batch,
    )
    page = next(pages, None)
    before: Answer | None = None
    while page is not None:
        # Meanwhile PostgreSQL writes the page before.
        opened = _workspace_secrets(page, tally)
        wrapped = _wrapped(opened) if opened else []
        tally.done += _replaced(before)
        page = next(pages, None)
        before = None
        if dry_run:
            tally.done += len(wrapped)
        elif wrapped:
            before = _replace_workspace_keys(wrapped, via, actor_id)
        progress(tally.done, tally.due)
    if before is not None:
        tally.done += _replaced(before)
        progress(tally.done, tally.due)
    return tally


def rewrap_data_keys(
    key: WorkspaceKey,
    *,
    batch: int = BATCH,
    progress: Progress = silent,
    dry_run: bool = False,
) -> Tally:
    """Every living data key of a workspace, wrapped by `key`, its newest workspace key.

    Raises DecryptionError, UnknownKey, KeysUnavailable when `key` itself does not open.
    """
    rows = (
        DataKey.objects.unscoped(Reason.KEYS)
        .filter(workspace_id=key.workspace_id, destroyed_at=None)
        # What somebody else's rotation put under a newer key stays there.
        .filter(workspace_key__version__lt=key.version)
        .select_related("workspace_key")
    )
    tally = Tally(due=rows.count())
    progress(0, tally.due)
    wrapping = material.wrapping(key)
    for page in _pages(rows, batch):
        wrapped = {
            row.pk: (bytes(row.wrapped or b""), anew)
            for row in page
            if (anew := _under(row, wrapping, tally)) is not None
        }
        tally.done += len(wrapped) if dry_run else _replace_data_keys(key, wrapped)
        progress(tally.done, tally.due)
    return tally


def _pages(rows: ScopedQuerySet[Row], size: int) -> Iterator[list[Row]]:
    """The rows, `size` at a time, by id: one that stays due does not come again."""
    ordered = rows.order_by("pk")
    page = list(ordered[:size])
    while page:
        yield page
        page = list(ordered.filter(pk__gt=page[-1].pk)[:size])


def _workspace_secrets(
    page: Sequence[WorkspaceKey], tally: Tally
) -> list[tuple[WorkspaceKey, bytes]]:
    """The keys of a page that open, each with its secret."""
    opened = []
    for row, plain in zip(page, _unwrapped(page), strict=True):
        try:
            if isinstance(plain, CheckpointsError):
                raise plain
            opened.append((row, envelope.unchecked(plain, row.pk)))
        except (UnknownKey, DecryptionError) as error:
            tally.failed.append(
                f"Workspace {row.workspace_id}, key {short(row.pk)} v{row.version}: {error}"
            )
    return opened


def _unwrapped(page: Sequence[WorkspaceKey]) -> Iterable[bytes | CheckpointsError]:
    """One call for all; where one of them does not open, one call each."""
    items = [material.as_wrapped(row) for row in page]
    try:
        return provider().unwrap(items)
    except (UnknownKey, DecryptionError) as error:
        return [error] if len(page) == 1 else [_alone(item) for item in items]


def _alone(item: Wrapped) -> bytes | CheckpointsError:
    try:
        [plain] = provider().unwrap([item])
    except (UnknownKey, DecryptionError) as error:
        return error
    return plain


def _wrapped(
    opened: Sequence[tuple[WorkspaceKey, bytes]],
) -> list[tuple[WorkspaceKey, Wrapped]]:
    plain = [material.as_plain(row, secret) for row, secret in opened]
    wrapped = provider().wrap(plain)
    # The row about to be replaced is the only copy of this key.
    if provider().unwrap(wrapped) != [item.key for item in plain]:
        raise DecryptionError(
            f"The provider of {wrapped[0].kek!r} does not open what it has just wrapped;"
            " nothing of this batch was stored."
        )
    return list(zip((row for row, _ in opened), wrapped, strict=True))


def _replace_workspace_keys(
    wrapped: Sequence[tuple[WorkspaceKey, Wrapped]], via: str, actor_id: int | None
) -> Answer:
    """Sent, and not waited for."""
    failpoint("before rewrap")
    return _REPLACE_WORKSPACE_KEYS.send(
        {
            "ids": arrays.uuids(row.pk for row, _ in wrapped),
            "before": arrays.byteas(row.wrapped for row, _ in wrapped),
            "keks": arrays.texts(new.kek for _, new in wrapped),
            "wrapped": arrays.byteas(new.key for _, new in wrapped),
            "events": arrays.uuids(uuid7() for _ in wrapped),
            **audit.record_beside(
                "key_rewrap",
                WorkspaceKey,
                via=via,
                actor_id=actor_id,
                kek=wrapped[0][1].kek,
            ),
        }
    )


def _replaced(sent: Answer | None) -> int:
    """How many keys the statement replaced, once it has."""
    if sent is None:
        return 0
    row = sent.row()
    failpoint("after rewrap")
    return int(row[0] or 0) if row else 0


def _under(row: DataKey, key: envelope.DataKey, tally: Tally) -> bytes | None:
    """This data key wrapped by `key`; None, and a line in the tally, when it does not open."""
    context = material.data_context(row)
    try:
        secret = envelope.unwrap(
            bytes(row.wrapped or b""),
            wrapping=material.wrapping(row.workspace_key),
            context=context,
        )
    except (UnknownKey, DecryptionError) as error:
        tally.failed.append(f"{row.get_purpose_display()} {row.pk}: {error}")
        return None
    return envelope.wrap(secret, wrapping=key, context=context)


def _replace_data_keys(
    key: WorkspaceKey, wrapped: dict[UUID, tuple[bytes, bytes]]
) -> int:
    failpoint("before rewrap of data keys")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            _REPLACE_DATA_KEYS,
            {
                "key": key.pk,
                "ids": list(wrapped),
                "before": [before for before, _ in wrapped.values()],
                "wrapped": [anew for _, anew in wrapped.values()],
            },
        )
        replaced: int = cursor.rowcount
        failpoint("during rewrap of data keys")
    failpoint("after rewrap of data keys")
    return replaced


# Each statement locks its rows in one order, so that two at once do not lock each other
# out; the second finds other bytes than those that it read, and leaves them.
# What is replaced is recorded with it.
_REPLACE_WORKSPACE_KEYS = Prepared(f"""
WITH due AS (
    SELECT k.id, n.kek, n.wrapped, n.event
    FROM {WorkspaceKey._meta.db_table} k
    JOIN unnest(%(ids)s::uuid[], %(before)s::bytea[], %(keks)s::text[],
                %(wrapped)s::bytea[], %(events)s::uuid[])
      AS n(id, before, kek, wrapped, event)
      ON n.id = k.id AND n.before = k.wrapped
    ORDER BY k.id
    FOR NO KEY UPDATE OF k
), replaced AS (
    UPDATE {WorkspaceKey._meta.db_table} k
    SET kek = due.kek, wrapped = due.wrapped, rewrapped_at = clock_timestamp()
    FROM due
    WHERE k.id = due.id
    RETURNING k.id, k.workspace_id, due.event
), recorded AS (
    {audit.BESIDE} replaced AS n
)
SELECT count(*)::text FROM replaced
""")  # noqa: S608  # our own names; values are parameters

_REPLACE_DATA_KEYS = f"""
WITH due AS (
    SELECT k.id, n.wrapped
    FROM {DataKey._meta.db_table} k
    JOIN unnest(%(ids)s::uuid[], %(before)s::bytea[], %(wrapped)s::bytea[])
      AS n(id, before, wrapped)
      ON n.id = k.id AND n.before = k.wrapped
    ORDER BY k.id
    FOR NO KEY UPDATE OF k
)
UPDATE {DataKey._meta.db_table} k
SET workspace_key_id = %(key)s, wrapped = due.wrapped
FROM due
WHERE k.id = due.id
"""  # noqa: S608  # our own names; values are parameters
