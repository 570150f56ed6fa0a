"""A thread's branches, link by link: every step where it has to be, as it was written.

A branch is streamed in one statement, so that a step that is appended or packed
meanwhile is seen whole or not at all; in memory are one segment and a few deltas.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import Model

from checkpoints.access import Reason
from checkpoints.errors import BrokenChain, CheckpointsError, DecryptionError
from checkpoints.ids import made_at, short
from checkpoints.log.record import COLUMNS
from checkpoints.log.step import blobs_of, delta_context, link, segment_context
from checkpoints.models import Branch, Checkpoint, CheckpointDelta, Segment, Thread
from checkpoints.pure import chain, envelope, segment
from checkpoints.pure.segment import Packed

FETCH = 32  # rows at a time; each may bring a delta of up to 16 MB
# How far a step's time, which the database gives and no MAC covers, may be from the
# time in its id, which its writer gave and the MAC covers: clocks differ, models are slow.
LEEWAY = timedelta(days=1)


class Bad(CheckpointsError):
    """A row that is not as it was written; which one, and what is wrong with it."""

    code = "bad_row"

    def __init__(self, model: type[Model], row: UUID, problem: str) -> None:
        super().__init__(problem)
        self.model = model
        self.row = row


class Place(NamedTuple):
    """A step that was found good."""

    id: UUID | None
    step: int
    mac: bytes


@dataclass(frozen=True)
class Secrets:
    """A thread's keys, unwrapped: what seals by id, and what chains."""

    data: dict[UUID, envelope.DataKey] = field(repr=False)
    mac: bytes = field(repr=False)


@dataclass
class Seen:
    """What was looked at so far."""

    steps: int = 0
    segments: int = 0


def check(thread: Thread, secrets: Secrets, seen: Seen) -> dict[UUID, UUID]:
    """Every branch of the thread, each after the one that it leaves.

    Which blobs its steps cannot do without, each with a step. Raises Bad.
    """
    branches = list(
        Branch.objects.unscoped(Reason.COMMAND)
        .filter(thread=thread)
        .order_by("created_at", "pk")
    )
    _no_strays(thread, branches)
    blobs: dict[UUID, UUID] = {}
    wanted = {(branch.parent_id, branch.fork_step) for branch in branches}
    good: dict[tuple[UUID | None, int], Place] = {
        (None, -1): Place(None, -1, chain.START)
    }
    while branches:
        ready = [b for b in branches if (b.parent_id, b.fork_step) in good]
        if not ready:
            raise _does_not_attach(branches[0])
        for branch in ready:
            for place in _Branch(thread, branch, secrets, seen, blobs).places(
                good[branch.parent_id, branch.fork_step]
            ):
                if (branch.pk, place.step) in wanted:
                    good[branch.pk, place.step] = place
        branches = [b for b in branches if b not in ready]
    return blobs


def _no_strays(thread: Thread, branches: Iterable[Branch]) -> None:
    for branch in branches:
        if branch.workspace_id != thread.workspace_id:
            raise Bad(Branch, branch.pk, "It stands in another workspace.")
    stray = (
        Checkpoint.objects.unscoped(Reason.COMMAND)
        .filter(thread=thread)
        .exclude(branch__thread=thread)
        .first()
    )
    if stray is not None:
        raise Bad(Checkpoint, stray.pk, "Its branch belongs to another thread.")


def _does_not_attach(branch: Branch) -> Bad:
    return Bad(
        Branch,
        branch.pk,
        f"It says that it leaves branch {short(branch.parent_id)} at step "
        f"{branch.fork_step}; there is no such step that leads back to a first one."
        if branch.parent_id
        else f"It has no parent, and yet begins after step {branch.fork_step}.",
    )


@dataclass(frozen=True)
class _Open:
    """The segment that the walk is in."""

    id: UUID
    packed: Packed
    plains: list[bytes] = field(repr=False)


class _Branch:
    """One branch's own steps, from where it leaves its parent to its head."""

    def __init__(
        self,
        thread: Thread,
        branch: Branch,
        secrets: Secrets,
        seen: Seen,
        blobs: dict[UUID, UUID],
    ) -> None:
        self._thread = thread
        self._branch = branch
        self._secrets = secrets
        self._seen = seen
        self._blobs = blobs

    def places(self, start: Place) -> Iterator[Place]:
        """Each step that is good, in order. Raises Bad at the first that is not."""
        if self._branch.forked_from_id != start.id:
            raise Bad(
                Branch,
                self._branch.pk,
                f"It names another checkpoint than step {start.step}, which it leaves.",
            )
        here, row, segments = start, None, 0
        opened: _Open | None = None
        for row in self._rows():
            if row.id is None:
                break  # no step of its own yet
            if row.segment is not None:
                segments += 1
                opened = self._segment(row, opened, here)
            here = self._step(row, opened, here)
            if opened is not None and here.step == opened.packed.last:
                if not hmac.compare_digest(opened.packed.after, here.mac):
                    raise Bad(Segment, opened.id, "It ends with another MAC.")
                opened = None
            self._seen.steps += 1
            yield here
        assert row is not None  # the branch's row is there, with steps or without
        self._head(row, here)
        if opened is not None:
            raise Bad(Segment, opened.id, f"Its step {opened.packed.last} has no row.")
        if segments != row.segments:
            raise Bad(
                Branch,
                self._branch.pk,
                f"It has {row.segments} segments, of which {segments} begin at a step.",
            )

    def _rows(self) -> Iterator[SimpleNamespace]:
        wanted = {"branch": self._branch.pk, "thread": self._thread.pk}
        with closing(connection.chunked_cursor()) as cursor:
            cursor.execute(_STEPS, wanted)
            while rows := cursor.fetchmany(FETCH):
                for row in rows:
                    yield SimpleNamespace(**dict(zip(_NAMES, row, strict=True)))

    def _step(self, row: Any, opened: _Open | None, before: Place) -> Place:
        number = before.step + 1
        if row.step != number:
            raise Bad(
                Branch,
                self._branch.pk,
                f"Step {number} is missing; step {row.step} comes next.",
            )
        if row.workspace_id != self._thread.workspace_id:
            raise Bad(Checkpoint, row.id, f"Step {number} stands in another workspace.")
        if row.parent_id != before.id:
            raise Bad(
                Checkpoint, row.id, f"Step {number} names another step before it."
            )
        plain = self._plain(row, opened)
        expected = link(
            self._secrets.mac, before.mac, row, parent=before.id, plain=plain
        )
        if not hmac.compare_digest(bytes(row.state_mac), expected):
            raise Bad(
                Checkpoint,
                row.id,
                f"Step {number} is not as it was written: its MAC does not follow "
                "from its row, its operations and the step before it.",
            )
        _require_time(row.id, row.created_at, number)
        self._blobs.update(dict.fromkeys(blobs_of(plain), row.id))
        return Place(row.id, number, expected)

    def _plain(self, row: Any, opened: _Open | None) -> bytes:
        if opened is not None:
            if row.record is not None:
                raise Bad(
                    CheckpointDelta, row.id, f"Step {row.step} is in a segment, too."
                )
            if opened.packed.id_at(row.step) != row.id:
                raise Bad(
                    Segment, opened.id, f"It has another checkpoint as step {row.step}."
                )
            at: int = row.step - opened.packed.first
            return opened.plains[at]
        if row.record is None:
            raise Bad(
                Checkpoint,
                row.id,
                f"The operations of step {row.step} are missing: they are in no delta "
                "and in no segment.",
            )
        if not row.delta_in_place:
            raise Bad(
                CheckpointDelta,
                row.id,
                f"The delta of step {row.step} stands elsewhere than its step.",
            )
        place = delta_context(
            self._thread.workspace_id, self._thread.pk, row.id, row.step
        )
        return self._open(CheckpointDelta, row.id, row.data_key, row.record, place)

    def _segment(self, row: Any, before: _Open | None, here: Place) -> _Open:
        """The segment that begins with this row's step, opened."""

        def bad(problem: str) -> Bad:
            return Bad(Segment, row.segment, problem)

        if before is not None:
            raise bad(f"It begins at step {row.step}, which another one holds.")
        if row.segment_workspace != self._thread.workspace_id:
            raise bad("It stands in another workspace.")
        place = segment_context(
            self._thread.workspace_id, self._thread.pk, row.segment, row.step
        )
        plain = self._open(
            Segment, row.segment, row.segment_key, row.segment_record, place
        )
        try:
            packed = segment.unpack(plain)
            packed.texts(packed.last)
        except BrokenChain as error:
            raise bad(str(error)) from None
        if (packed.branch, packed.first, packed.last) != (
            self._branch.pk,
            row.step,
            row.last_step,
        ):
            raise bad("It holds other steps than its row says.")
        if packed.parent != here.id or not hmac.compare_digest(packed.before, here.mac):
            raise bad(f"It does not go on from step {here.step}.")
        self._seen.segments += 1
        return _Open(row.segment, packed, packed.plains)

    def _open(
        self,
        model: type[Model],
        pk: UUID,
        data_key: UUID,
        record: bytes,
        place: envelope.Context,
    ) -> bytes:
        key = self._secrets.data.get(data_key)
        if key is None:
            raise Bad(model, pk, f"It names key {data_key}, which this thread has not.")
        try:
            plain = envelope.open_sealed(bytes(record), key=key, context=place)
        except DecryptionError as error:
            raise Bad(model, pk, str(error)) from None
        return plain

    def _head(self, row: Any, tip: Place) -> None:
        found = Place(row.head_id, row.head_step, bytes(row.head_mac) or chain.START)
        if found != tip:
            raise Bad(
                Branch,
                self._branch.pk,
                f"Its head is step {found.step}, {found.id}; its last step is "
                f"{tip.step}, {tip.id}."
                if found[:2] != tip[:2]
                else f"Its head has another MAC than step {tip.step}.",
            )


def _require_time(id: UUID, stored: datetime, step: int) -> None:
    made = made_at(id)
    if made is not None and abs(stored - made) > LEEWAY:
        raise Bad(
            Checkpoint,
            id,
            f"Step {step} says that it was stored at {stored:%Y-%m-%d %H:%M:%S} UTC; "
            f"by its id it was made at {made:%Y-%m-%d %H:%M:%S} UTC.",
        )


_OF_STEP = ("workspace_id", *COLUMNS)
_NAMES = (
    *("head_id", "head_step", "head_mac", "segments", *_OF_STEP),
    *("record", "delta_in_place"),
    *("segment", "segment_workspace", "last_step", "segment_key", "segment_record"),
)
_STEPS = f"""
SELECT b.head_id, b.head_step, b.head_mac,
       (SELECT count(*) FROM {Segment._meta.db_table}
        WHERE thread_id = %(thread)s AND branch_id = %(branch)s),
       {", ".join(f"c.{name}" for name in _OF_STEP)},
       d.record,
       (d.workspace_id, d.thread_id, d.branch_id, d.step)
           = (c.workspace_id, c.thread_id, c.branch_id, c.step),
       s.id, s.workspace_id, s.last_step, s.data_key, s.record
FROM {Branch._meta.db_table} b
LEFT JOIN {Checkpoint._meta.db_table} c
  ON c.thread_id = %(thread)s AND c.branch_id = b.id
LEFT JOIN {CheckpointDelta._meta.db_table} d ON d.checkpoint_id = c.id
LEFT JOIN {Segment._meta.db_table} s
  ON s.thread_id = %(thread)s AND s.branch_id = b.id AND s.first_step = c.step
WHERE b.id = %(branch)s
ORDER BY c.step
"""  # noqa: S608  # our own names; values are parameters
