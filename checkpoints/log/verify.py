"""Everything that is sealed or chained, looked at: is it all as it was written?

Per thread: its keys unwrap and are its own; every step of every branch follows from the
one before it, up to the head, and each fork from the step that it names; every sealed
column opens; every blob is in its store, and the archive of what went (`verify_objects`);
the deletion journal says which keys were destroyed.
What is named is the first bad row of a thread; the next thread is looked at all the same.
Nothing that was opened leaves here.

A database that was put back whole to an earlier time is all right by this. Only an
anchor that is kept outside tells (docs/integrity.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any
from uuid import UUID

from django.apps import apps
from django.db import transaction
from django.db.models import Model, QuerySet

from checkpoints import gate
from checkpoints.access import Reason, SystemPrincipal, unscoped
from checkpoints.errors import CheckpointsError, KeysUnavailable
from checkpoints.gate import Pass
from checkpoints.keys import hierarchy
from checkpoints.log import links
from checkpoints.log.links import Bad, Secrets, Seen
from checkpoints.log.verify_objects import Objects, check_archive, check_blobs
from checkpoints.models import (
    CheckpointDelta,
    DataKey,
    Deletion,
    Segment,
    Thread,
    Workspace,
    WorkspaceKey,
)
from checkpoints.models.fields import SealedField
from checkpoints.pure import envelope

BATCH = 50  # threads under one access row
CHUNK = 25  # rows whose sealed columns are opened together

_OF_THE_CHAIN = (CheckpointDelta, Segment)  # opened link by link


@dataclass(frozen=True)
class Finding:
    """A row that is not as it was written."""

    workspace_id: UUID
    thread_id: UUID | None  # None: it belongs to the workspace itself
    table: str  # "checkpoints.checkpoint"
    row: UUID
    problem: str

    def __str__(self) -> str:
        where = f"thread {self.thread_id}" if self.thread_id else "of no thread"
        return (
            f"Workspace {self.workspace_id}, {where}: {self.table} {self.row}: "
            f"{self.problem}"
        )


@dataclass
class Tally(Objects, Seen):
    """How much was looked at; it grows while `verify` goes on."""

    threads: int = 0
    keys: int = 0
    records: int = 0  # sealed columns, beside deltas and segments
    shredded: int = 0  # threads whose keys were destroyed: nothing of them opens
    pruned: int = 0  # threads whose content went, by the deletion journal
    bad: int = 0

    def add(self, more: Tally) -> None:
        for column in fields(self):
            name = column.name
            if name != "away":  # shared
                setattr(self, name, getattr(self, name) + getattr(more, name))


def verify(
    workspace_id: UUID | None = None,
    thread_id: UUID | None = None,
    *,
    tally: Tally | None = None,
    progress: Callable[[Tally], object] = lambda tally: None,
) -> Iterator[Finding]:
    """The first bad row of each thread, and of what each workspace has itself.

    Of everything, of one workspace, or of one thread; as they are found. `progress` is
    called with the tally after every few threads. What lies in a store that is away is
    not looked at (`tally.away`). Raises KeysUnavailable.
    """
    tally = tally if tally is not None else Tally()
    for workspace in _workspaces(workspace_id, thread_id):
        reader = SystemPrincipal("verify", workspace.pk)
        if thread_id is None:
            opened = gate.admit(reader, purpose="verify")
            yield from _look(_workspace, opened, workspace, tally)
        after: UUID | None = None
        while batch := _threads(workspace, thread_id, after):
            after = batch[-1].pk
            opened = gate.admit(reader, purpose="verify", threads=batch)
            for thread in batch:
                yield from _look(_thread, opened, thread, tally)
            progress(tally)


def _workspaces(workspace_id: UUID | None, thread_id: UUID | None) -> list[Workspace]:
    workspaces = Workspace.objects.order_by("pk")
    if workspace_id is not None:
        workspaces = workspaces.filter(pk=workspace_id)
    if thread_id is not None:
        workspaces = workspaces.filter(threads=thread_id)
    return list(workspaces)


def _threads(
    workspace: Workspace, thread_id: UUID | None, after: UUID | None
) -> list[Thread]:
    threads = Thread.objects.unscoped(Reason.COMMAND).filter(workspace=workspace)
    if thread_id is not None:
        threads = threads.filter(pk=thread_id)
    if after is not None:
        threads = threads.filter(pk__gt=after)
    return list(threads.order_by("pk")[:BATCH])


def _look(
    check: Callable[[Pass, Any, Tally], None],
    opened: Pass,
    what: Workspace | Thread,
    tally: Tally,
) -> list[Finding]:
    """What is bad, if it still is on a second look: a key or a thread may just change."""
    for last_look in (False, True):
        try:
            with unscoped(Reason.COMMAND), transaction.atomic():
                what = type(what)._default_manager.get(pk=what.pk)
                found = Tally(away=tally.away)
                check(opened, what, found)
                tally.add(found)
        except Bad as bad:
            if not last_look:
                continue
            thread = isinstance(what, Thread)
            tally.add(Tally(threads=int(thread), bad=1))
            return [
                Finding(
                    workspace_id=opened.principal.workspace_id,
                    thread_id=what.pk if thread else None,
                    table=bad.model._meta.label_lower,
                    row=bad.row,
                    problem=str(bad),
                )
            ]
        break
    return []


def _thread(opened: Pass, thread: Thread, tally: Tally) -> None:
    tally.threads = 1
    secrets = _thread_keys(thread, tally)
    journal = Deletion.objects.filter(thread=thread)
    _in_the_journal(thread, secrets, journal.filter(what=Deletion.What.SHREDDED))
    if secrets is None:
        tally.shredded = 1
        for model, columns in _sealed(of_thread=True, outliving=True):
            _columns(opened, model, columns, {"thread_id": thread.pk}, tally)
        return
    if thread.pruned_at is None:
        check_blobs(opened, thread, links.check(thread, secrets, tally), tally)
    elif journal.exists():
        tally.pruned = 1
        check_archive(opened, thread, tally)
    else:
        raise Bad(
            Thread,
            thread.pk,
            "It says that its content was removed; the deletion journal does not."
            " All is well if it is being restored just now.",
        )
    for model, columns in _sealed(of_thread=True):
        where = "pk" if model is Thread else "thread_id"
        _columns(opened, model, columns, {where: thread.pk}, tally)


def _in_the_journal(
    thread: Thread, secrets: Secrets | None, shredded: QuerySet[Deletion]
) -> None:
    """Keys are destroyed together with a row of the journal, and never come back."""
    if (secrets is None) == shredded.exists():
        return
    key = DataKey.objects.filter(thread=thread).earliest("created_at")
    raise Bad(
        DataKey,
        key.pk,
        "It was destroyed, and the deletion journal does not say by whom."
        if secrets is None
        else "By the deletion journal it was destroyed; it is here. If a backup was"
        " restored, destroy the thread's keys again.",
    )


def _workspace(opened: Pass, workspace: Workspace, tally: Tally) -> None:
    for row in WorkspaceKey.objects.filter(workspace=workspace).order_by("version"):
        _unwrapped(row, tally)
    keys = DataKey.objects.filter(workspace=workspace, thread=None)
    for key in keys.select_related("workspace_key").order_by("purpose", "version"):
        if not _is_destroyed(key):
            _unwrapped(key, tally)
    for model, columns in _sealed(of_thread=False):
        _columns(opened, model, columns, {"workspace_id": workspace.pk}, tally)


def _thread_keys(thread: Thread, tally: Tally) -> Secrets | None:
    """The thread's keys, unwrapped from their rows. None: they were destroyed."""
    rows = list(
        DataKey.objects.filter(thread=thread)
        .select_related("workspace_key")
        .order_by("purpose", "version")
    )
    for purpose in (DataKey.Purpose.DATA, DataKey.Purpose.MAC):
        if not any(row.purpose == purpose for row in rows):
            raise Bad(Thread, thread.pk, f"It has no {purpose.label}.")
    gone = [row for row in rows if _is_destroyed(row)]
    if len(gone) == len(rows):
        return None
    if gone:
        raise Bad(DataKey, gone[0].pk, "It was destroyed, and not all of its thread's.")
    keys = [_unwrapped(row, tally) for row in rows]
    return Secrets(
        data={key.id: key for key in keys},
        # MAC keys are not rotated: there is one.
        mac=next(
            key.secret
            for row, key in zip(rows, keys, strict=True)
            if row.purpose == DataKey.Purpose.MAC
        ),
    )


def _is_destroyed(row: DataKey) -> bool:
    if row.destroyed_at is not None and row.wrapped is not None:
        raise Bad(DataKey, row.pk, "It says that it was destroyed, and is still there.")
    return row.destroyed_at is not None


def _unwrapped(row: DataKey | WorkspaceKey, tally: Tally) -> envelope.DataKey:
    try:
        key = hierarchy.unwrapped(row)
    except KeysUnavailable:
        raise  # nothing is wrong with the row
    except CheckpointsError as error:
        raise Bad(type(row), row.pk, f"The key does not unwrap. {error}") from None
    tally.keys += 1
    return key


def _sealed(
    *, of_thread: bool, outliving: bool = False
) -> Iterator[tuple[type[Model], list[str]]]:
    """Every model with sealed columns that belongs to a thread, or to none.

    `outliving`: only columns that can be opened when the thread's keys are gone.
    """
    for model in apps.get_models():
        named = {column.name for column in model._meta.concrete_fields}
        columns = [
            column.name
            for column in model._meta.concrete_fields
            if isinstance(column, SealedField) and (column.outlives or not outliving)
        ]
        if (
            columns
            and model not in _OF_THE_CHAIN
            and of_thread == (model is Thread or "thread" in named)
        ):
            yield model, columns


def _columns(
    opened: Pass,
    model: type[Model],
    columns: Sequence[str],
    where: dict[str, UUID],
    tally: Tally,
) -> None:
    """Open these columns of these rows. Raises Bad for the first that does not."""
    place = {"workspace", "thread", "step"} & {
        column.name for column in model._meta.concrete_fields
    }
    rows = (
        model._default_manager.filter(**where)
        .order_by("pk")
        .only("pk", *place, *columns)
        .iterator(chunk_size=CHUNK)
    )
    while some := list(islice(rows, CHUNK)):
        for column in columns:
            there = [row for row in some if getattr(row, column) is not None]
            try:
                opened.open_all(there, column)
            except (CheckpointsError, ValueError):
                for row in there:
                    _open(opened, row, column)
            tally.records += len(there)


def _open(opened: Pass, row: Model, column: str) -> None:
    try:
        opened.open(row, column)
    except KeysUnavailable:
        raise
    except CheckpointsError as error:
        raise Bad(type(row), row.pk, f"Its {column}: {error}") from None
    except ValueError:
        raise Bad(type(row), row.pk, f"Its {column} is sealed, and no JSON.") from None
