"""Write a thread to an archive, and show that it could be read again.

The archive has every row of the thread, as ciphertext, and the rows that those refer to;
with the key-encryption key, that is enough for an empty database (`restore`). Nothing
is removed here: that is `retention`'s, after a grace period.
"""

from __future__ import annotations

import hmac
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.db import IntegrityError, OperationalError, connection, transaction
from django.db.models import Model, Q, QuerySet
from psycopg import IsolationLevel, errors

from checkpoints import audit, gate, stores
from checkpoints.access import Principal, Reason, SystemPrincipal
from checkpoints.alone import alone
from checkpoints.clock import ClockTimestamp, now
from checkpoints.errors import CheckpointsError, MissingObject, NotPermitted
from checkpoints.failpoints import failpoint
from checkpoints.ids import short
from checkpoints.keys import hierarchy
from checkpoints.log import rows, source, verify_archive
from checkpoints.models import (
    Archive,
    Blob,
    Branch,
    DataKey,
    RetentionPolicy,
    Thread,
    WorkspaceKey,
)
from checkpoints.pure.archived import CHUNK, Lines, Row, split
from checkpoints.stores.mark import require_same

KEYS_FORMAT = "holdpoint archive keys"
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
    thread's content is not here or another process archives it now, StoreUnavailable,
    and what `verify` raises for a thread that is damaged: such a one keeps its rows.
    """
    with alone(f"archive {thread_id}") as granted:
        if not granted:
            raise NotPermitted(
                f"Thread {short(thread_id)} is being archived by another process."
            )
        return _write(thread_id, by, policy, via)


def _write(
    thread_id: UUID, by: Principal | None, policy: RetentionPolicy | None, via: str
) -> Archive:
    archive, thread = _begin(thread_id, by, policy)
    if archive.status == _Status.VERIFIED:
        return archive
    pass_ = gate.admit(
        SystemPrincipal(TASK, thread.workspace_id), purpose="archive", threads=[thread]
    )
    store, name = stores.of(archive.store), archive.object_name
    require_same(store)
    parts = source.Parts(store, name)
    try:
        with _one_moment():
            _require_here(thread)
            store.write(source.keys_name(name), _keys(thread))
            failpoint("archive: keys written")
            steps = _write_lines(thread, archive, parts)
        digest = parts.close()
        failpoint("archive: written")
        verify_archive.verify(pass_, source.stored(archive.store, name))
        failpoint("archive: read back")
    except CheckpointsError:
        if not _mine(archive).exists():  # shredded meanwhile: nobody else will look
            source.delete(archive.store, name)
        raise
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
    if not done:  # it was given up meanwhile
        source.delete(archive.store, name)
    archive.refresh_from_db()
    return archive


def discard(archive: Archive) -> None:
    """Give an archive up. Its row says so last: until then, this is done again."""
    source.delete(archive.store, archive.object_name)
    Archive.objects.unscoped(Reason.ARCHIVE).filter(pk=archive.pk).update(
        status=_Status.DELETED
    )


def give_up(thread_id: UUID) -> None:
    """Discard what was written of a thread that could not be archived."""
    begun = Archive.objects.unscoped(Reason.ARCHIVE).filter(
        thread_id=thread_id, status=_Status.WRITING
    )
    for archive in begun:
        discard(archive)


def write_keys_anew(archive: Archive) -> None:
    """Bring the wrapped keys beside an archive to what the database has now.

    After the key-encryption key was rotated: else an empty database would need the old
    one. Keys that are destroyed meanwhile are not written: who destroys them waits.
    """
    store = stores.of(archive.store)
    name = source.keys_name(archive.object_name)
    with transaction.atomic():
        threads = Thread.objects.unscoped(Reason.ARCHIVE).select_for_update(no_key=True)
        wanted = _keys(threads.get(pk=archive.thread_id))
        archive.refresh_from_db()
        if archive.status == _Status.DELETED:
            return
        try:
            if store.read(name) == wanted:
                return
            # An object is never overwritten. The keys are in the database, so that
            # being killed between the two loses nothing: the next call writes them.
            store.delete(name)
        except MissingObject:
            pass
        store.write(name, wanted)


def fingerprint(thread_id: UUID) -> Row:
    """What tells whether a thread went on since: its branches' heads, and its rows."""
    heads = (
        Branch.objects.unscoped(Reason.ARCHIVE)
        .filter(thread_id=thread_id)
        .values_list("pk", "head_step", "head_mac")
    )
    counted = {
        model._meta.label_lower: rows.of_thread(model, thread_id).count()
        for model in rows.models_of_threads()
        # Packing moves steps from one to the other; the heads cover both.
        if model not in rows.OPERATIONS
    }
    return {
        "heads": {
            str(pk): f"{step}:{bytes(mac).hex()}" for pk, step, mac in sorted(heads)
        },
        "rows": counted,
    }


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
    hierarchy.thread_keys(thread_id)  # Shredded
    archives = Archive.objects.unscoped(Reason.ARCHIVE).filter(thread=thread)
    archive = archives.filter(status__in=_IN_WORK).first()
    if archive is not None and archive.status == _Status.VERIFIED:
        if is_current(archive):
            return archive, thread
        discard(archive)
        archive = None
    name, kind = stores.new_name("archive"), stores.configured().kind
    if archive is not None:
        source.delete(archive.store, archive.object_name)
        archives.filter(pk=archive.pk, status=_Status.WRITING).update(
            store=kind, object_name=name, created_at=ClockTimestamp()
        )
        archive.refresh_from_db()
        return archive, thread
    user_id = getattr(by, "user_id", None)
    try:
        archive = Archive.objects.create(
            workspace_id=thread.workspace_id,
            thread=thread,
            store=kind,
            object_name=name,
            policy=policy,
            requested_by_id=user_id,
        )
    except IntegrityError:
        raise NotPermitted(
            f"Thread {short(thread_id)} is being archived by another process."
        ) from None
    return archive, thread


def is_current(archive: Archive) -> bool:
    """Whether a verified archive is still there and shows its thread as it is."""
    try:
        reader = source.stored(archive.store, archive.object_name).read()
    except CheckpointsError as problem:
        if problem.retry:
            raise
        return False
    return bool(reader.manifest["thread"] == fingerprint(archive.thread_id))


def is_undamaged(archive: Archive) -> bool:
    """Whether a verified archive's bytes are those that were verified."""
    digest = sha256()
    try:
        for part in source.stored(archive.store, archive.object_name).packed():
            digest.update(part.read())
    except MissingObject:
        return False
    return hmac.compare_digest(digest.digest(), bytes(archive.digest))


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


def _require_here(thread: Thread) -> None:
    """Keep the thread's content, and its keys, until this transaction is over.

    So no copy of a key is written once it was destroyed; who destroys it waits, and
    removes this archive, too. Raises NotPermitted when that was done already.
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute(_KEEP, [thread.pk])
            here = cursor.fetchone() is not None
    except OperationalError as error:
        # By who removes it: it was locked, and is now another row than we see.
        if not isinstance(error.__cause__, errors.SerializationFailure):
            raise
        here = False
    if not here:
        raise NotPermitted(f"The content of thread {short(thread.pk)} goes just now.")


_KEEP = f"""
SELECT 1 FROM {Thread._meta.db_table} WHERE id = %s AND pruned_at IS NULL FOR KEY SHARE
"""  # noqa: S608  # our own name; the value is a parameter


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
        for column, value in row.items():
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


def _keys(thread: Thread) -> bytes:
    """Every wrapped key that a row of the archive may need, as JSON."""
    of_workspace = {"workspace_id": thread.workspace_id}
    wanted: dict[type[Model], Any] = {
        WorkspaceKey: rows.everything(WorkspaceKey).filter(**of_workspace),
        DataKey: rows.everything(DataKey).filter(
            Q(thread=thread) | Q(thread=None), **of_workspace
        ),
    }
    document = {
        "format": KEYS_FORMAT,
        "version": 1,
        **{
            model._meta.label_lower: [
                rows.to_json(model, values) for values in rows.pages(model, found)
            ]
            for model, found in wanted.items()
        },
    }
    return json.dumps(document, indent=1, sort_keys=True).encode()
