"""Write a segment: deltas, or an old segment, become one sealed record, and go.

Each in one transaction: the steps' links are verified, the segment is inserted, read
back, opened and verified, and what it replaces is deleted. Killed anywhere, nothing has
happened; whoever reads the branch meanwhile sees all of it or nothing. No lock is taken
that a holder's commit waits for; of two who pack one branch, one does; and content does
not expire in the middle.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from uuid import UUID

from django.db import connection, transaction
from django.db.models import QuerySet

from checkpoints import gate
from checkpoints.access import Reason
from checkpoints.db import locks
from checkpoints.errors import BrokenChain, DecryptionError
from checkpoints.failpoints import failpoint
from checkpoints.gate import Pass
from checkpoints.ids import short
from checkpoints.keys import hierarchy
from checkpoints.log.record import COLUMNS, StepRow, step_row
from checkpoints.log.step import delta_context, link
from checkpoints.models import Branch, Checkpoint, CheckpointDelta, Segment
from checkpoints.pure import chain, envelope, segment
from checkpoints.pure.envelope import Context
from checkpoints.pure.segment import Packed

MOST_TEXT = 8 * 1024 * 1024  # bytes; a segment is opened whole, even for one step of it

# The key of the branch's row: holders, who change no key, do not wait for it.
_LOCK = f"""
SELECT pg_try_advisory_xact_lock(%s, hashtext(%s))
FROM {Branch._meta.db_table} WHERE id = %s FOR KEY SHARE
"""  # noqa: S608  # our own name; the values are parameters


@dataclass(frozen=True)
class Run:
    """Steps to pack: those that have deltas, or a segment to seal anew."""

    first: int
    last: int
    old: UUID | None = None  # the segment


@dataclass(frozen=True)
class _Steps:
    """Steps of one segment, verified: each follows from the one before it."""

    rows: list[StepRow]
    plains: list[bytes] = field(repr=False)
    before: bytes = field(repr=False)

    def packed(self) -> bytes:
        return segment.pack(
            [
                (row.id, plain)
                for row, plain in zip(self.rows, self.plains, strict=True)
            ],
            branch=self.rows[0].branch_id,
            first=self.rows[0].step,
            parent=self.rows[0].parent_id,
            before=self.before,
            after=self.rows[-1].state_mac,
        )


class SegmentWriter:
    """Writes segments of one branch, under one access row."""

    def __init__(self, pass_: Pass, branch: Branch, key: envelope.DataKey) -> None:
        pass_.require_thread(branch.thread_id)
        pass_.require_right()
        self._branch = branch
        # The thread leads the indexes.
        self._place = {"thread_id": branch.thread_id, "branch_id": branch.pk}
        self._key = key
        self._mac_key = hierarchy.thread_keys(branch.thread_id).mac

    def write(self, run: Run) -> int:
        """Write the run; how many segments: two and more where its text is very long."""
        written = 0
        first: int | None = run.first
        while first is not None and first <= run.last:
            failpoint("before pack")
            with transaction.atomic():
                first = self._write_one(first, run) if self._locked() else None
            if first is not None:
                failpoint("after pack")
                written += 1
        return written

    def _locked(self) -> bool:
        """Whether nobody else packs this branch; they cannot until the transaction ends.

        Nor can anybody remove its content meanwhile: they wait for us, or we for them,
        and then there is nothing left to pack.
        """
        with connection.cursor() as cursor:
            cursor.execute(_LOCK, [locks.PACK, str(self._branch.pk), self._branch.pk])
            [granted] = cursor.fetchone()
            return bool(granted)

    def _write_one(self, first: int, run: Run) -> int | None:
        """Write one segment; the step after it. None: somebody else has, meanwhile."""
        steps = self._read(first, run)
        if steps is None:
            return None
        made = Segment(
            workspace_id=self._branch.workspace_id,
            thread_id=self._branch.thread_id,
            branch=self._branch,
            first_step=first,
            last_step=steps.rows[-1].step,
            data_key=self._key.id,
        )
        plain = steps.packed()
        made.record = envelope.seal(
            plain,
            key=self._key,
            context=gate.context(made, "record"),
            thorough=True,
        )
        if run.old is not None:  # it stands where the new one goes
            self._segments().filter(pk=run.old).delete()
        made.save(force_insert=True)
        failpoint("after segment")
        self._read_back(made, steps)
        if run.old is None:
            deltas = self._deltas().filter(step__range=(first, made.last_step))
            if deltas.delete()[0] != len(steps.rows):
                transaction.set_rollback(True)  # the thread's content went meanwhile
                return None
        failpoint("after deltas")
        return made.last_step + 1

    def _read(self, first: int, run: Run) -> _Steps | None:
        """The steps as they are, verified. None: another packer has replaced them."""
        rows = [
            step_row(row)
            for row in self._steps()
            .filter(step__range=(first, run.last))
            .order_by("step")
            .values_list(*COLUMNS)
        ]
        plains = (
            self._from_deltas(rows) if run.old is None else self._from_segment(run.old)
        )
        if plains is None:
            return None
        rows = rows[: len(plains)]
        for step in range(first, first + len(plains)):
            if step - first >= len(rows) or rows[step - first].step != step:
                raise self._broken(f"Step {step}", "is missing")
        before = self._mac_before(rows[0])
        self._verify(rows, plains, before)
        return _Steps(rows, plains, before)

    def _from_deltas(self, rows: list[StepRow]) -> list[bytes] | None:
        """The first steps' texts: of all that are given, unless these are very long."""
        records = dict(
            self._deltas()
            .filter(step__in=[row.step for row in rows])
            .values_list("step", "record")
        )
        if not records:
            return None
        keys = hierarchy.data_keys(row.data_key for row in rows)
        plains: list[bytes] = []
        length = 0
        for row in rows:
            record = records.get(row.step)
            if record is None:
                raise self._broken(f"The operations of step {row.step}", "are missing")
            place = delta_context(
                self._branch.workspace_id, self._branch.thread_id, row.id, row.step
            )
            plain = self._open(
                bytes(record), keys[row.data_key], place, f"Step {row.step}"
            )
            length += len(plain)
            if plains and length > MOST_TEXT:
                break
            plains.append(plain)
        return plains

    def _from_segment(self, pk: UUID) -> list[bytes] | None:
        old = self._segments().filter(pk=pk).first()
        return None if old is None else self._unpack(old).plains

    def _unpack(self, row: Segment) -> Packed:
        where = f"Steps {row.first_step}-{row.last_step}"
        key = hierarchy.data_keys([row.data_key])[row.data_key]
        plain = self._open(bytes(row.record), key, gate.context(row, "record"), where)
        packed = segment.unpack(plain)
        if (packed.branch, packed.first, packed.last) != (
            row.branch_id,
            row.first_step,
            row.last_step,
        ):
            raise self._broken(where, "are not as they were written")
        return packed

    def _read_back(self, made: Segment, steps: _Steps) -> None:
        """Raises BrokenChain, and nothing has happened, unless it reads as it should."""
        stored = self._segments().get(pk=made.pk)
        packed = self._unpack(stored)
        packed.texts(packed.last)
        self._verify(steps.rows, packed.plains, packed.before)
        if [row.id for row in steps.rows] != packed.ids or not hmac.compare_digest(
            packed.after, steps.rows[-1].state_mac
        ):
            raise self._broken(str(made).capitalize(), "read back otherwise")

    def _verify(self, rows: list[StepRow], plains: list[bytes], before: bytes) -> None:
        """Raises BrokenChain where a step does not follow from the one before it."""
        step, parent, mac = rows[0].step, rows[0].parent_id, before
        for row, plain in zip(rows, plains, strict=True):
            expected = link(self._mac_key, mac, row, parent=parent, plain=plain)
            if (row.step, row.parent_id) != (step, parent) or not hmac.compare_digest(
                row.state_mac, expected
            ):
                raise self._broken(f"Step {step}", "is not as it was written")
            step, parent, mac = step + 1, row.id, row.state_mac

    def _mac_before(self, row: StepRow) -> bytes:
        """Of the step that this one follows, which may be another branch's."""
        if row.parent_id is None:
            return chain.START
        followed = (
            Checkpoint.objects.unscoped(Reason.PACK).filter(pk=row.parent_id).first()
        )
        if followed is None:
            raise self._broken(f"The step before step {row.step}", "is missing")
        return bytes(followed.state_mac)

    def _broken(self, what: str, how: str) -> BrokenChain:
        return BrokenChain(f"{what} of branch {short(self._branch.pk)} {how}.")

    def _open(
        self, record: bytes, key: envelope.DataKey, place: Context, where: str
    ) -> bytes:
        try:
            return envelope.open_sealed(record, key=key, context=place)
        except DecryptionError as error:
            raise DecryptionError(
                f"{where} of branch {short(self._branch.pk)}: {error}"
            ) from None

    def _steps(self) -> QuerySet[Checkpoint]:
        return Checkpoint.objects.unscoped(Reason.PACK).filter(**self._place)

    def _deltas(self) -> QuerySet[CheckpointDelta]:
        return CheckpointDelta.objects.unscoped(Reason.PACK).filter(**self._place)

    def _segments(self) -> QuerySet[Segment]:
        return Segment.objects.unscoped(Reason.PACK).filter(**self._place)
