"""Write a thread to an archive, and show that it could be read again.

The archive has every row of the thread, as ciphertext, and the rows that those refer to;
with the key-encryption key, that is enough for an empty database (`restore`). Nothing
is removed here: that is `retention`'s, after a grace period.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Model, QuerySet
from psycopg import IsolationLevel

from checkpoints import audit, gate, stores
from checkpoints.access import Principal, Reason, SystemPrincipal
from checkpoints.clock import ClockTimestamp, now
from checkpoints.db import locks
from checkpoints.errors import (
    BeingArchived,
    CheckpointsError,
    NotPermitted,
    Pruned,
    Shredded,
)
from checkpoints.failpoints import failpoint
from checkpoints.ids import short
from checkpoints.keys import hierarchy
from checkpoints.log import content, rows, source, verify_archive
from checkpoints.log.archive_care import (
    begin_anew,
    discard,
    fingerprint,
    hold,
    is_current,
    wrapped_keys,
)
from checkpoints.models import Archive, Blob, RetentionPolicy, Thread
from checkpoints.pure.archived import CHUNK, Lines, Row, split
from checkpoints.stores.mark import require_same

TASK = "archive"

_Status = Archive.Status
_IN_WORK = (_Status.WRITING, _Status.VERIFIED)


def write(
    thread_id: UUID,
    *,
    by: Principal | None = None,
    policy: RetentionPolicy | None = None,
    via: str = "worker",
) -> Archive:
    """The thread's archive, written, read back and verified.

    One that was begun and not finished is begun anew; one that is verified and still
    shows the thread as it is, is returned. Raises Shredded, NotPermitted when the
    thread's content is not here, BeingArchived when another process is at it,
    StoreUnavailable, and what `verify` raises for a thread that is damaged: such a one
    keeps its rows, and the archive is given up.
    """
    with locks.alone(locks.ARCHIVE, str(thread_id)) as granted:
        if not granted:
            raise BeingArchived(
                f"Thread {short(thread_id)} is being archived by another process. Try"
                " again in a moment."
            )
        archive, thread = _begin(thread_id, by, policy)
        if archive.status == _Status.VERIFIED:
            return archive
        try:
            return _write(archive, thread, by, via)
        except CheckpointsError as problem:
            # Where trying again helps, it is begun anew.
            if not problem.retry and not discard(archive):
                source.delete(archive.store, archive.object_name)
            raise


def _write(archive: Archive, thread: Thread, by: Principal | None, via: str) -> Archive:
    hierarchy.thread_keys(thread.pk)  # Shredded
    pass_ = gate.admit(
        SystemPrincipal(TASK, thread.workspace_id), purpose="archive", threads=[thread]
    )
    store, name = stores.of(archive.store), archive.object_name
    require_same(store)
    parts = source.Parts(store, name)
    with _one_moment():
        steps = _write_lines(thread, archive, parts)
    digest = parts.close()
    failpoint("archive: written")
    # Last, so that no key that a record names was made after them; and with the row
    # locked, so that they are not written beside an archive that was shredded meanwhile.
    with transaction.atomic():
        if not hold(archive):
            raise _gone(thread.pk)
        store.write(source.keys_name(name), wrapped_keys(thread))
    failpoint("archive: keys written")
    verify_archive.verify(pass_, source.stored(archive.store, name))
    failpoint("archive: read back")
    with transaction.atomic():
        done = _mine(archive).update(
            status=_Status.VERIFIED,
            size=parts.size,
            digest=digest,
            steps=steps,
            verified_at=ClockTimestamp(),
        )
        if done:
            audit.record(
                by or pass_.principal,
                "archive",
                obj=thread,
                via=via,
                archive=archive.pk,
                count=steps,
            )
    if not done:  # the thread was shredded, and its archives with it
        raise _gone(thread.pk)
    archive.refresh_from_db()
    return archive


def _begin(
    thread_id: UUID, by: Principal | None, policy: RetentionPolicy | None
) -> tuple[Archive, Thread]:
    """The archive in work, under a name of its own; what an older attempt left goes."""
    thread = Thread.objects.unscoped(Reason.ARCHIVE).get(pk=thread_id)
    if thread.pruned_at is not None:
        raise NotPermitted(
            f"The content of thread {short(thread_id)} is not here: it went on"
            f" {thread.pruned_at:%Y-%m-%d}."
        )
    archives = Archive.objects.unscoped(Reason.ARCHIVE).filter(thread=thread)
    archive = archives.filter(status__in=_IN_WORK).first()
    if archive is not None and archive.status == _Status.VERIFIED:
        if is_current(archive):
            return archive, thread
        if not discard(archive):
            raise _gone(thread_id)
        archive = None
    if archive is not None:
        if not begin_anew(archive):
            raise _gone(thread_id)
        return archive, thread
    archive = Archive.objects.create(
        workspace_id=thread.workspace_id,
        thread=thread,
        store=stores.configured().kind,
        object_name=stores.new_name("archive"),
        policy=policy,
        requested_by_id=getattr(by, "user_id", None),
    )
    return archive, thread


def _gone(thread_id: UUID) -> CheckpointsError:
    """Why an archive is not what it was when this process began it."""
    try:
        content.require(thread_id)
    except (Pruned, Shredded) as gone:
        return gone
    return NotPermitted(f"The archive of thread {short(thread_id)} was given up.")


def _mine(archive: Archive) -> Any:
    return Archive.objects.unscoped(Reason.ARCHIVE).filter(
        pk=archive.pk, status=_Status.WRITING, object_name=archive.object_name
    )


@contextmanager
def _one_moment() -> Iterator[None]:
    """A transaction whose every statement sees the database as it is now."""
    connection.ensure_connection()
    raw: Any = connection.connection
    raw.isolation_level = IsolationLevel.REPEATABLE_READ
    try:
        with transaction.atomic(durable=True):
            yield
    finally:
        if not raw.closed:  # a lost connection is not used again
            raw.isolation_level = None


def _write_lines(thread: Thread, archive: Archive, parts: source.Parts) -> int:
    """The number of steps."""
    lines, counts = Lines(), Counter[str]()
    parts.add(
        lines.manifest(
            id=str(archive.pk),
            workspace=str(thread.workspace_id),
            thread_id=str(thread.pk),
            made_at=now().isoformat(),
            thread=fingerprint(thread.pk),
        )
    )
    for model, values in _all_rows(thread):
        row = rows.to_json(model, values)
        if model is Blob:
            sealed = stores.of(values["store"]).read(values["object_name"])
            row["object"] = rows.plain(sealed)
        for column, value in sorted(row.items()):  # as they are read again
            if isinstance(value, str) and len(pieces := split(value)) > 1:
                for piece in pieces:
                    parts.add(lines.line(CHUNK, {"text": piece}))
                row[column] = {"chunks": len(pieces)}
        parts.add(lines.line(model._meta.label_lower, row))
        counts[model._meta.label_lower] += 1
    parts.add(lines.end(hierarchy.thread_keys(thread.pk).mac))
    return counts["checkpoints.checkpoint"]


def _all_rows(thread: Thread) -> Iterator[tuple[type[Model], Row]]:
    """Rows that others refer to come before them."""
    wanted: dict[type[Model], set[Any]] = {}
    for model in rows.models_of_threads():
        for column, target in rows.references(model):
            _want(wanted, target, column, rows.of_thread(model, thread.pk))
    for model, ids in _with_parents(wanted):
        found = rows.everything(model).filter(pk__in=ids)
        for values in rows.pages(model, found):
            yield model, values
    for model in rows.models_of_threads():
        for values in rows.pages(model, rows.of_thread(model, thread.pk)):
            yield model, values


def _with_parents(
    wanted: dict[type[Model], set[Any]],
) -> Iterator[tuple[type[Model], set[Any]]]:
    """Also what the rows that are referred to refer to; parents first."""
    todo, order = list(wanted), list[type[Model]]()
    while todo:
        model = todo.pop()
        if model in order:
            order.remove(model)  # needed by one more: it moves behind it
        order.append(model)
        for column, target in rows.references(model):
            found = rows.everything(model).filter(pk__in=wanted[model])
            _want(wanted, target, column, found)
            todo.append(target)
    for model in reversed(order):
        yield model, wanted[model]


def _want(
    wanted: dict[type[Model], set[Any]],
    target: type[Model],
    column: str,
    of: QuerySet[Any, Any],
) -> None:
    ids = of.order_by().exclude(**{column: None}).values_list(column).distinct()
    wanted.setdefault(target, set()).update(pk for (pk,) in ids)
