"""Bring a thread back from its archive: its content, or all of it into an empty database.

Nothing of an archive is believed before the whole of it was read: its lines, its MAC
under the thread's key, each record and each link. What a restore writes becomes visible
at once or not at all; killed anywhere, it can be begun again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import DatabaseError, DataError, IntegrityError, transaction
from django.db.models import F
from django.db.models.functions import Greatest

from checkpoints import audit, gate, stores
from checkpoints.access import Principal, Reason, SystemPrincipal
from checkpoints.clock import ClockTimestamp, now
from checkpoints.errors import BadArchive, CheckpointsError
from checkpoints.failpoints import failpoint
from checkpoints.gate import Pass
from checkpoints.ids import short
from checkpoints.keys import hierarchy
from checkpoints.log import content, hydrate, rows
from checkpoints.log.archive import TASK
from checkpoints.log.archive_care import KEYS_FORMAT
from checkpoints.log.insert import Inserter
from checkpoints.log.source import Source
from checkpoints.log.verify_archive import load, verify
from checkpoints.models import (
    Archive,
    Blob,
    Branch,
    Checkpoint,
    DataKey,
    Deletion,
    Thread,
    Workspace,
    WorkspaceKey,
)
from checkpoints.pure.archived import Reader
from checkpoints.stores.mark import require_same


@dataclass(frozen=True)
class Restored:
    thread_id: UUID
    steps: int
    is_new: bool  # the whole thread came, not its content alone
    was_here: bool = False  # nothing had to be done


def restore(
    source: Source, *, by: Principal | None = None, via: str = "worker"
) -> Restored:
    """Bring back what the archive holds; doing it twice does no more than once.

    Raises BadArchive when it is damaged, changed, of a later release, or does not fit
    what is here; Shredded, UnknownKey, MissingObject, StoreUnavailable, and DecryptionError
    or BrokenChain for content that does not open. Then nothing was changed.
    """
    lines = _read_through(source)
    thread_id, workspace_id = _identity(lines)
    thread = Thread.objects.unscoped(Reason.ARCHIVE).filter(pk=thread_id).first()
    is_new = thread is None
    if thread is not None:
        _require_restorable(thread, workspace_id)
        if thread.pruned_at is None:
            return Restored(thread_id, 0, is_new=False, was_here=True)
        lines.require_signed(hierarchy.thread_keys(thread_id).mac)
    else:
        thread = _bring_skeleton(source, lines, thread_id, workspace_id)
        failpoint("restore: skeleton")
    pass_ = gate.admit(
        SystemPrincipal(TASK, workspace_id), purpose="restore", threads=[thread]
    )
    verify(pass_, source)
    failpoint("restore: verified")
    steps = _bring_content(pass_, source, thread, by=by, via=via)
    return Restored(thread_id, steps or 0, is_new=is_new, was_here=steps is None)


def _read_through(source: Source) -> Reader:
    """An archive whose lines are complete and undamaged; who wrote them is not said."""
    reader = source.read()
    for _ in reader:
        pass
    return reader


def _identity(lines: Reader) -> tuple[UUID, UUID]:
    """Thread and workspace."""
    try:
        return UUID(lines.manifest["thread_id"]), UUID(lines.manifest["workspace"])
    except (KeyError, ValueError, TypeError, AttributeError):
        raise BadArchive("The archive's first line names no thread.") from None


def _require_restorable(thread: Thread, workspace_id: UUID) -> None:
    if thread.workspace_id != workspace_id:
        raise BadArchive(
            f"The archive is of workspace {workspace_id}; thread {short(thread.pk)} here"
            " belongs to another one."
        )
    gone = content.last_deletion(thread.pk)
    if gone is not None and gone.what == Deletion.What.SHREDDED:
        content.explain(thread.pk)


def _bring_skeleton(
    source: Source, lines: Reader, thread_id: UUID, workspace_id: UUID
) -> Thread:
    """Workspace, keys, and every row of the thread but its content: as if it was pruned.

    `lines` were read, and are believed once the keys are here.
    """
    try:
        with transaction.atomic():
            insert = Inserter()
            _bring_keys(source, insert, thread_id, workspace_id)
            mac_key = hierarchy.thread_keys(thread_id).mac
            lines.require_signed(mac_key)
            reader = source.read()
            for model, values, _ in load(reader):
                if model is Thread:
                    values["pruned_at"] = now()
                if model is Workspace:
                    made = values["approvals_made"]
                if model not in rows.CONTENT_ROWS:
                    insert.add(model, values)
            insert.flush()
            reader.require_signed(mac_key)
            Workspace.objects.filter(pk=workspace_id).update(
                approvals_made=Greatest(F("approvals_made"), made)
            )
            failpoint("restore: before skeleton")
    except (IntegrityError, DataError) as error:
        hierarchy.forget()
        raise BadArchive(
            f"Thread {short(thread_id)} does not fit what is here: {_constraint(error)}."
        ) from None
    except CheckpointsError:
        hierarchy.forget()  # of keys that are not in the database after all
        raise
    return Thread.objects.unscoped(Reason.ARCHIVE).get(pk=thread_id)


def _bring_keys(
    source: Source, insert: Inserter, thread_id: UUID, workspace_id: UUID
) -> None:
    """The wrapped keys that are not here yet. No MAC covers their file.

    So each has to be of this thread or its workspace, and to unwrap, or it would stand in
    the way of what others seal. Raises DecryptionError, UnknownKey and KeysUnavailable.
    """
    came: list[DataKey | WorkspaceKey] = []
    try:
        document = json.loads(source.keys())
        if document["format"] != KEYS_FORMAT or document["version"] != 1:
            raise BadArchive(
                f"The keys of {source.name} are not of version 1, which this release"
                " reads. Use the release that wrote them, or a newer one."
            )
        for model in (WorkspaceKey, DataKey):
            for row in document[model._meta.label_lower]:
                values = rows.from_json(model, row)
                if values["workspace_id"] != workspace_id or (
                    values.get("thread_id") not in (None, thread_id)
                ):
                    raise BadArchive(
                        f"The keys of {source.name} are not of the archive's thread and"
                        " workspace alone: somebody changed them."
                    )
                if not rows.everything(model).filter(pk=values["id"]).exists():
                    came.append(model(**values))
                insert.add(model, values)
    except (
        *(ValueError, KeyError, TypeError, AttributeError, RecursionError),
        ValidationError,
    ):
        raise BadArchive(f"The keys of {source.name} are malformed.") from None
    for key in came:
        if isinstance(key, WorkspaceKey) or key.destroyed_at is None:
            hierarchy.unwrapped(key)


def _bring_content(
    pass_: Pass, source: Source, thread: Thread, *, by: Principal | None, via: str
) -> int | None:
    """The number of steps; None when someone else has just brought it back."""
    with transaction.atomic():
        held = (
            Thread.objects.unscoped(Reason.ARCHIVE)
            .select_for_update(no_key=True)
            .get(pk=thread.pk)
        )
        _require_restorable(held, held.workspace_id)
        if held.pruned_at is None:
            return None
        steps = _insert_content(source, hierarchy.thread_keys(held.pk).mac)
        failpoint("restore: inserted")
        for branch in Branch.objects.unscoped(Reason.ARCHIVE).filter(thread=held):
            hydrate.read(pass_, branch)  # the steps' rows here, against the operations
        Thread.objects.unscoped(Reason.ARCHIVE).filter(pk=held.pk).update(
            pruned_at=None
        )
        Archive.objects.unscoped(Reason.ARCHIVE).filter(
            thread=held, status=Archive.Status.PRUNED
        ).update(status=Archive.Status.RESTORED, restored_at=ClockTimestamp())
        audit.record(by or pass_.principal, "restore", obj=held, via=via, count=steps)
        failpoint("restore: before commit")
    return steps


def _insert_content(source: Source, mac_key: bytes) -> int:
    insert, steps = Inserter(), 0
    store = stores.configured()
    lines = source.read()
    for model, values, carried in load(lines):
        if model is Blob:
            require_same(store)
            name = stores.new_name("blob")
            store.write(name, carried["object"])
            values |= {"store": store.kind, "object_name": name}
        if model in rows.CONTENT_ROWS:
            insert.add(model, values)
        elif columns := rows.content_columns(model):
            rows.everything(model).filter(pk=values["id"]).update(
                **{column: values[column] for column in columns}
            )
        steps += model is Checkpoint
    insert.flush()
    # It was verified, but read anew since: from where somebody else may write.
    lines.require_signed(mac_key)
    return steps


def _constraint(error: DatabaseError) -> str:
    """Which rule it broke; never the message, which quotes values."""
    name = getattr(getattr(error.__cause__, "diag", None), "constraint_name", None)
    return f"the database refused a row ({name or type(error.__cause__).__name__})"
