"""Append a step: one SQL statement, one transaction, one fsync.

The statement moves the branch's head if fence and head are what the holder knows, and
inserts the checkpoint and its sealed operations if that moved. All of it happens or
nothing does, in one round trip. It is the one hot write, and the one place that writes
the log; the ORM would take four statements for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, NamedTuple, Self
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, InterfaceError, transaction

from checkpoints import blobs
from checkpoints.access import Reason
from checkpoints.db.prepared import Answer, Prepared, Row
from checkpoints.errors import Fenced, NotStorable
from checkpoints.ids import short
from checkpoints.keys import hierarchy
from checkpoints.log.step import (
    META_COLUMNS,
    NewStep,
    StepMeta,
    delta_context,
    metadata,
)
from checkpoints.models import Branch, Checkpoint, CheckpointDelta, Thread
from checkpoints.pure import chain, envelope, refs
from checkpoints.pure.ops import Op

__all__ = [
    "Beside",
    "NewStep",
    "Sent",
    "Statement",
    "StepMeta",
    "Writer",
    "commit",
    "committed",
    "prepare",
    "writer",
]


@dataclass(frozen=True)
class Writer:
    """What the holder of a branch knows about it; `commit` gives the next one."""

    workspace_id: UUID
    thread_id: UUID
    branch_id: UUID
    fence: int
    head: UUID | None
    step: int  # the head's; -1: there is none
    mac: bytes = field(repr=False)  # the head's
    lease: timedelta | None = None  # how long a commit renews the lease for
    schema_version: int = 1  # of the state at the head
    # What the last commit stored: the step's operations, with references for what is
    # kept as blobs. Folding these, not those that were given, makes the state.
    stored: Sequence[Op] = field(default=(), repr=False)
    told: Row = ()  # what its statement told: see `Statement`


def writer(
    branch: Branch,
    *,
    lease: timedelta | None = None,
    schema_version: int | None = None,
) -> Writer:
    """A writer that goes on from this row of the branch, under the fence it shows.

    A run reads the row after it took the branch. Nobody else needs a lease: a commit
    refuses whoever lost the race for the head. `schema_version`: of the state at the head,
    where it is known.
    """
    return Writer(
        workspace_id=branch.workspace_id,
        thread_id=branch.thread_id,
        branch_id=branch.pk,
        fence=branch.fence,
        head=branch.head_id,
        step=branch.head_step,
        mac=bytes(branch.head_mac) or chain.START,
        lease=lease,
        schema_version=schema_version or _schema_version(branch.head_id),
    )


class Statement:
    """The one that appends a step; it may write and tell more in the same round trip.

    `beside` are further parts of its WITH, each with a comma before it. They have to
    write only where `moved` has its row: else another holder has the branch. `tells` are
    columns of text for `Writer.told`. Values are named, as in `Prepared`; the names of
    the step's own are in `_made`.
    """

    def __init__(self, beside: str = "", tells: Sequence[str] = ("'stored'",)) -> None:
        self._prepared = Prepared(
            f"{_COMMIT}{beside} SELECT {', '.join(tells)} FROM moved"  # noqa: S608  # as _COMMIT
        )

    def execute(self, values: Mapping[str, object]) -> Row | None:
        """None: the branch has another holder, or another head. Nothing was written."""
        return self._prepared.row(values)

    def send(self, values: Mapping[str, object]) -> Answer:
        """As `execute`; the answer is waited for where it is asked for (`Prepared.send`)."""
        return self._prepared.send(values)


class Beside(NamedTuple):
    """A statement that does more than to append, and the values that it needs for it."""

    statement: Statement
    values: Mapping[str, object]


class Sent:
    """A step that PostgreSQL is told of, by `go` or `arrived`, which says whether it is
    stored."""

    def __init__(
        self,
        writer: Writer,
        changed: Mapping[str, object],
        statement: Statement,
        values: Mapping[str, object],
    ) -> None:
        """`changed`: what the writer for the next step knows otherwise."""
        self._writer = writer
        self._changed = changed
        self._statement = statement
        self._values = values
        self._answer: Answer | None = None

    @property
    def after(self) -> Writer:
        """The writer for the next step, if this one is stored: to prepare that with."""
        return self._following(())

    def arrived(self) -> Writer:
        """Wait for the answer: the writer for the next step. Once more, where the answer
        was lost: send it anew. Raises Fenced, and the connection's errors."""
        try:
            if self._answer is None:
                told = self._statement.execute(self._values)
            else:
                told = self._answer.row()
        except (DatabaseError, InterfaceError):
            self._answer = None
            raise
        at = self._writer
        if told is None:
            raise Fenced(
                f"Branch {short(at.branch_id)} has another holder, or a head other"
                f" than step {at.step}: step {at.step + 1} was not stored."
            )
        return self._following(told)

    def _following(self, told: Row) -> Writer:
        # A frozen class's own way takes five times as long.
        after = Writer.__new__(Writer)
        vars(after).update(vars(self._writer), **self._changed, told=told)
        return after

    def go(self) -> Self:
        """Send it, without waiting."""
        self._answer = self._statement.send(self._values)
        return self


def commit(
    writer: Writer,
    step: NewStep,
    *,
    beside: Callable[[Sequence[Op]], Beside] | None = None,
) -> Writer:
    """Append the step, renew the lease, and return the writer for the next one.

    Once this returns outside a transaction, the step is on disk. Inside one, the other
    rows of the step commit with it. `beside` is given the operations as they are stored,
    and says what is written with them in the same statement.

    Raises Fenced when another holder took the branch or its head moved: stop, and cause
    no further effect. Raises NotStorable, Shredded, and StoreUnavailable when a large
    value cannot be put away: nothing was written.
    """
    plain = _plain(step)
    if plain is not None and not refs.may_hold_large(plain, settings.BLOB_BYTES):
        return _made(writer, step, plain, beside).arrived()
    thread = Thread(pk=writer.thread_id, workspace_id=writer.workspace_id)
    with transaction.atomic():  # blobs' rows go with the step, or not at all
        ops, put_away = blobs.offload(thread, step.ops)
        step = replace(step, ops=ops, blobs=put_away)
        return _made(writer, step, step.plain(), beside).arrived()


def prepare(
    writer: Writer,
    step: NewStep,
    *,
    beside: Callable[[Sequence[Op]], Beside] | None = None,
) -> Sent | None:
    """The step, chained and sealed, and not sent: `Sent.go` does, and its answer can wait.

    Until the answer is there, nothing that cannot be undone may follow from the step.
    `writer` may be that of a step that is itself on its way (`Sent.after`): if that one
    is not stored, neither can this one be. None, and nothing was done, where a large value
    has to be put away: that takes a transaction, which `commit` makes.
    """
    plain = _plain(step)
    if plain is None or refs.may_hold_large(plain, settings.BLOB_BYTES):
        return None
    return _made(writer, step, plain, beside)


def _plain(step: NewStep) -> bytes | None:
    """The step's text; None where it is too large as it is, or no JSON at all."""
    try:
        return step.plain()
    except NotStorable:
        return None


def _made(
    writer: Writer,
    step: NewStep,
    plain: bytes,
    beside: Callable[[Sequence[Op]], Beside] | None,
) -> Sent:
    """The step, chained and sealed, not sent yet."""
    keys = hierarchy.thread_keys(writer.thread_id)
    number = writer.step + 1
    schema_version = step.schema_version or writer.schema_version
    mac = chain.link(
        keys.mac,
        writer.mac,
        branch=writer.branch_id,
        step=number,
        parent=writer.head,
        metadata=metadata(step.id, step.kind, schema_version, step.meta),
        operations=plain,
    )
    place = delta_context(writer.workspace_id, writer.thread_id, step.id, number)
    record = envelope.seal(plain, key=keys.data, context=place)
    values: dict[str, Any] = {
        "branch": writer.branch_id,
        "thread": writer.thread_id,
        "fence": writer.fence,
        "head": writer.head,
        "lease": writer.lease and writer.lease.total_seconds(),
        "id": step.id,
        "step": number,
        "kind": step.kind,
        "schema_version": schema_version,
        "data_key": keys.data.id,
        "state_mac": mac,
        "record": record,
        **vars(step.meta),
    }
    statement = _ALONE
    if beside is not None:
        statement, more = beside(step.ops)
        values.update(more)
    changed = {
        "head": step.id,
        "step": number,
        "mac": mac,
        "schema_version": schema_version,
        "stored": step.ops,
    }
    return Sent(writer, changed, statement, values)


def committed(writer: Writer, checkpoint_id: UUID) -> bool:
    """Whether the commit that this writer sent got through, when the answer was lost.

    Waits, by the lock on the branch, for an own commit that is still on its way: without
    the lock it would be taken for absent. False: send it again. Raises Fenced when it is
    absent and another holder took the branch.
    """
    with transaction.atomic():
        branch = (
            Branch.objects.unscoped(Reason.WORKER)
            .select_for_update(no_key=True)
            .get(pk=writer.branch_id)
        )
        # A second statement, with a snapshot taken after the lock was granted.
        if (
            Checkpoint.objects.unscoped(Reason.WORKER)
            .filter(pk=checkpoint_id, branch=branch)
            .exists()
        ):
            return True
    if branch.fence != writer.fence or branch.head_id != writer.head:
        raise Fenced(f"Branch {short(writer.branch_id)} was taken by another holder.")
    return False


def _schema_version(head: UUID | None) -> int:
    if head is None:
        return 1
    checkpoints = Checkpoint.objects.unscoped(Reason.WORKER).filter(pk=head)
    return checkpoints.values_list("schema_version", flat=True).first() or 1


# Copied into the checkpoint as they are given; the rest comes from the branch's row.
_GIVEN = ("id", "kind", "schema_version", "data_key", "state_mac", *META_COLUMNS)

# Tables and columns are named by the models; every value is a parameter.
_COMMIT = f"""
WITH moved AS (
    UPDATE {Branch._meta.db_table}
    SET head_id = %(id)s,
        head_step = %(step)s,
        head_mac = %(state_mac)s,
        updated_at = clock_timestamp(),
        lease_until = coalesce(clock_timestamp() + make_interval(secs => %(lease)s), lease_until)
    WHERE id = %(branch)s
      AND thread_id = %(thread)s
      AND fence = %(fence)s
      AND head_id IS NOT DISTINCT FROM %(head)s::uuid
      AND head_step = %(step)s - 1
    RETURNING id, workspace_id, thread_id
), written AS (
    INSERT INTO {Checkpoint._meta.db_table}
        (workspace_id, thread_id, branch_id, parent_id, step, {", ".join(_GIVEN)})
    SELECT workspace_id, thread_id, id, %(head)s::uuid, %(step)s,
           {", ".join(f"%({name})s" for name in _GIVEN)}
    FROM moved
), sealed AS (
    INSERT INTO {CheckpointDelta._meta.db_table}
        (checkpoint_id, workspace_id, thread_id, branch_id, step, record)
    SELECT %(id)s, workspace_id, thread_id, id, %(step)s, %(record)s
    FROM moved
)
"""  # noqa: S608  # our own names; values are parameters
_ALONE = Statement()
