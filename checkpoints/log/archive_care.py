"""Archives that are there: is one still good, and how it is given up.

Whoever changes an archive locks its row: objects go, or are replaced, only while the row
is what it was taken for. So nobody removes what another process has just verified, and
no wrapped key is put back beside an archive that was shredded meanwhile.
"""

from __future__ import annotations

import hmac
import json
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Model, Q

from checkpoints import stores
from checkpoints.access import Reason
from checkpoints.clock import ClockTimestamp
from checkpoints.errors import CheckpointsError, MissingObject
from checkpoints.failpoints import failpoint
from checkpoints.log import rows, source
from checkpoints.models import Archive, Branch, DataKey, Thread, WorkspaceKey
from checkpoints.pure.archived import Row

KEYS_FORMAT = "holdpoint archive keys"

_Status = Archive.Status
KEPT = (_Status.VERIFIED, _Status.PRUNED, _Status.RESTORED)  # whose objects are whole


def hold(archive: Archive) -> bool:
    """Lock its row in the open transaction, if that is still as it was read."""
    same = _archives().filter(
        pk=archive.pk, status=archive.status, object_name=archive.object_name
    )
    return bool(same.select_for_update().values_list("pk"))


def discard(archive: Archive) -> bool:
    """Give an archive up, objects and all. False: it is not what it was any more.

    Its row says so last: killed before, this is done again.
    """
    with transaction.atomic():
        if not hold(archive):
            return False
        source.delete(archive.store, archive.object_name)
        failpoint("discard: objects gone")
        _archives().filter(pk=archive.pk).update(status=_Status.DELETED)
    return True


def begin_anew(archive: Archive) -> bool:
    """Give one that was not finished another name, and remove what was written of it.

    False: it is not what it was any more.
    """
    with transaction.atomic():
        if not hold(archive):
            return False
        source.delete(archive.store, archive.object_name)
        _archives().filter(pk=archive.pk).update(
            store=stores.configured().kind,
            object_name=stores.new_name("archive"),
            created_at=ClockTimestamp(),
        )
    archive.refresh_from_db()
    return True


def write_keys_anew(archive: Archive) -> None:
    """Bring the wrapped keys beside an archive to what the database has now.

    After the key-encryption key was rotated: else an empty database would need the old
    one. Killed in the middle, it is done again: the keys are in the database, too.
    """
    with transaction.atomic():
        if archive.status not in KEPT or not hold(archive):
            return
        store = stores.of(archive.store)
        name = source.keys_name(archive.object_name)
        wanted = wrapped_keys(
            Thread.objects.unscoped(Reason.ARCHIVE).get(pk=archive.thread_id)
        )
        try:
            if store.read(name) == wanted:
                return
            store.delete(name)  # an object is never overwritten
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
    """Whether a verified archive's bytes are those that were verified, and its keys there."""
    digest = sha256()
    stored = source.stored(archive.store, archive.object_name)
    try:
        stored.keys()
        for part in stored.packed():
            digest.update(part.read())
    except MissingObject:
        return False
    return hmac.compare_digest(digest.digest(), bytes(archive.digest))


def wrapped_keys(thread: Thread) -> bytes:
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


def _archives() -> Any:
    return Archive.objects.unscoped(Reason.ARCHIVE)
