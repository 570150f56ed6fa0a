"""Open a line's records, and show that they are what was written, in its order.

A step that has a delta: its MAC is computed again from its row, its opened text and the
MAC before it. A packed step: its segment is authentic, of this branch, and goes on from
the step before; packing has verified its links, and where the step's row was fetched,
they are verified again. Steps have to be there without a gap, up to the head that the
branch names, so that a row that was altered, swapped, moved or removed is refused by
name. A branch put back to an earlier head with all that belongs to it, as a backup
would, is whole; only an anchor outside the database can tell.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from checkpoints.errors import BrokenChain, DecryptionError, UnknownKey
from checkpoints.ids import short
from checkpoints.keys import hierarchy
from checkpoints.log.line import Line, Part, SealedSegment, SealedStep
from checkpoints.log.record import StepRow
from checkpoints.log.remembered import End, Found, Place, Remembered, weight
from checkpoints.log.step import delta_context, link, segment_context
from checkpoints.pure import chain, codec, envelope, segment
from checkpoints.pure.envelope import NIL
from checkpoints.pure.segment import Packed

Text = dict[str, Any]  # what a step's sealed text says: context, label, ops


@dataclass
class Contents:
    """Every step's text, from step 0 on, and what else is known of the steps."""

    texts: list[Text] = field(repr=False)
    rows: dict[int, StepRow]  # those that were fetched, by step
    packed: list[tuple[Packed, int]]  # each up to where the line leaves it
    ends: list[End]  # of remembered segments, in step order

    def checkpoints(self) -> Iterator[tuple[UUID, UUID]]:
        """(branch, checkpoint) of every step, in no order."""
        bare = dict.fromkeys(range(len(self.texts)))
        for run, last in self.packed:
            for step in range(run.first, last + 1):
                del bare[step]
                yield run.branch, run.id_at(step)
        for step in bare:
            yield self.rows[step].branch_id, self.rows[step].id

    def checkpoint(self, step: int) -> UUID:
        """The checkpoint of one step."""
        for run, last in self.packed:
            if run.first <= step <= last:
                return run.id_at(step)
        return self.rows[step].id

    def branch(self, step: int) -> UUID:
        """The branch that took one step."""
        for run, last in self.packed:
            if run.first <= step <= last:
                return run.branch
        return self.rows[step].branch_id


def contents(
    line: Line,
    *,
    rows_from: int | None,
    rows_to: int | None = None,
    remembered: Remembered | None = None,
) -> Contents:
    """What the line holds; `rows_from` and `rows_to` as it was fetched with.

    `remembered`: where segments may be that were opened a moment ago, and are kept for the
    next time. Those whose rows were fetched are opened anew.

    Raises Shredded, DecryptionError when a record does not open, and BrokenChain when
    a step does not follow from the one before it; the last two name the step.
    """
    return _Walk(line, rows_from, rows_to, remembered).go()


class _Walk:
    """From step to step along the line. What the next one has to follow: `id`, `mac`."""

    def __init__(
        self,
        line: Line,
        rows_from: int | None,
        rows_to: int | None,
        remembered: Remembered | None,
    ) -> None:
        self.line = line
        self.remembered = remembered
        self.rows_from = line.last + 1 if rows_from is None else rows_from
        self.rows_to = line.last if rows_to is None else rows_to
        self.keys = _keys(line)
        self.mac_key = self.keys[_mac_key(line)].secret
        of = (line.workspace_id, line.thread_id)
        self.delta_place = delta_context(*of, NIL, 0).beside()
        self.segment_place = segment_context(*of, NIL, 0).beside()
        self.place = Place(*of)
        self.rows = {sealed.row.step: sealed.row for sealed in line.steps}
        self.parts = iter(line.parts)
        self.part = next(self.parts)
        self.next_part = next(self.parts, None)
        self.id: UUID | None = None
        # None: not known, as the line left a segment in its middle.
        self.mac: bytes | None = chain.START
        self.texts: list[Text] = []
        self.packed: list[tuple[Packed, int]] = []
        self.ends: list[End] = []

    def go(self) -> Contents:
        found: list[tuple[int, SealedSegment | SealedStep]] = [
            *((each.first, each) for each in self.line.segments),
            *(
                (each.row.step, each)
                for each in self.line.steps
                if each.record is not None
            ),
        ]
        found.sort(key=lambda pair: pair[0])
        for first, sealed in found:
            if first != len(self.texts):
                raise self._gap(first)
            self._move_to_part(first)
            if isinstance(sealed, SealedSegment):
                self._segment(sealed)
            else:
                self._step(sealed)
        if len(self.texts) != self.line.last + 1:
            raise self._gap(self.line.last + 1)
        if self.line.last == self.line.parts[-1].head_step:
            self._require_head()
        return Contents(self.texts, self.rows, self.packed, self.ends)

    def _move_to_part(self, step: int) -> None:
        """Onto the branch that holds this step."""
        while self.next_part is not None and step > self.next_part.fork_step:
            self.part, self.next_part = self.next_part, next(self.parts, None)
            if self.part.forked_from != self.id:
                raise BrokenChain(
                    f"Branch {short(self.part.branch)} does not go on from the step"
                    " that it was forked at."
                )
            if self.mac is None:
                self.mac = self.part.fork_mac

    @property
    def last(self) -> int:
        """The last step that the line has from the branch it is on."""
        if self.next_part is None:
            return self.line.last
        return min(self.line.last, self.next_part.fork_step)

    def _segment(self, sealed: SealedSegment) -> None:
        last = min(self.last, sealed.last)
        near = last >= self.rows_from and sealed.first <= self.rows_to
        packed, texts = self._found(sealed, anew=near or self.remembered is None)
        if (
            (packed.branch, packed.first, packed.last)
            != (sealed.branch, sealed.first, sealed.last)
            or packed.branch != self.part.branch
            or packed.parent != self.id
            or (self.mac is not None and self.mac != packed.before)
        ):
            raise self._not_as_written(packed.first, packed.last)
        self.mac = self._verify_rows(packed, last) if near else None
        if last == packed.last:
            if self.mac not in (None, packed.after):
                raise self._not_as_written(packed.first, packed.last)
            self.mac = packed.after
        if texts is None:
            self.texts += packed.texts(last)
            packed = packed.without_texts()
        else:
            self.texts += (
                texts if last == packed.last else texts[: last + 1 - packed.first]
            )
            if last == packed.last:
                self.ends.append(End(last, sealed.id, packed.after))
        self.packed.append((packed, last))
        self.id = packed.id_at(last)

    def _found(
        self, sealed: SealedSegment, *, anew: bool
    ) -> tuple[Packed, list[Text] | None]:
        """The segment; and its texts, where it need not be opened `anew`."""
        key = self.keys[sealed.data_key]
        if anew or self.remembered is None:
            return segment.unpack(self._open(sealed, key)), None
        found = self.remembered.get(sealed, key.secret, self.place)
        if found is None:
            plain = self._open(sealed, key)
            packed = segment.unpack(plain)
            found = Found(packed.without_texts(), packed.texts(packed.last))
            size = weight(sealed, plain)
            self.remembered.put(sealed, key.secret, self.place, size, found)
        return found.packed, found.texts

    def _open(self, sealed: SealedSegment, key: envelope.DataKey) -> bytes:
        place = self.segment_place(sealed.id, sealed.first)
        try:
            return envelope.open_sealed(sealed.record, key=key, context=place)
        except DecryptionError as error:
            where = f"Steps {sealed.first}-{sealed.last}"
            raise self._does_not_open(where, error) from None

    def _verify_rows(self, packed: Packed, last: int) -> bytes | None:
        """The links of packed steps whose rows were fetched; the MAC after `last`."""
        mac: bytes | None = packed.before
        parent = packed.parent
        for step, plain in enumerate(packed.plains, packed.first):
            if step > last:
                break
            if step > self.rows_to:
                return None
            if step < self.rows_from:
                mac = None  # the first row is believed; the next ones have to follow
                continue
            row = self.rows.get(step)
            if row is None:
                raise self._missing(step)
            if row.branch_id != packed.branch or not packed.is_at(step, row.id):
                raise self._not_as_written(step)
            if mac is not None:
                self._verify_link(row, mac, parent, plain)
            parent, mac = row.id, row.state_mac
        return mac

    def _step(self, sealed: SealedStep) -> None:
        row = sealed.row
        place = self.delta_place(row.id, row.step)
        assert sealed.record is not None  # go() passes no others
        try:
            plain = envelope.open_sealed(
                sealed.record, key=self.keys[row.data_key], context=place
            )
        except DecryptionError as error:
            raise self._does_not_open(f"Step {row.step}", error) from None
        if row.branch_id != self.part.branch or self.mac is None:
            raise self._not_as_written(row.step)
        self._verify_link(row, self.mac, self.id, plain)
        self.texts.append(codec.parse(plain))
        self.id, self.mac = row.id, row.state_mac

    def _verify_link(
        self, row: StepRow, previous: bytes, parent: UUID | None, plain: bytes
    ) -> None:
        expected = link(self.mac_key, previous, row, parent=parent, plain=plain)
        if row.parent_id != parent or not hmac.compare_digest(row.state_mac, expected):
            raise self._not_as_written(row.step)

    def _does_not_open(self, where: str, error: DecryptionError) -> DecryptionError:
        return DecryptionError(
            f"{where} of branch {short(self.line.branch_id)}: {error}"
        )

    def _require_head(self) -> None:
        own: Part = self.line.parts[-1]
        while self.next_part is not None:  # branches without a step of their own
            self._move_to_part(self.next_part.fork_step + 1)
        if self.id != own.head or self.mac is None or self.mac != own.head_mac:
            raise BrokenChain(
                f"Step {self.line.last} of branch {short(own.branch)} is not the head"
                " that it recorded."
            )

    def _gap(self, found: int) -> BrokenChain:
        """The step that should come next is not there; `found` is the next that is."""
        step = len(self.texts)
        if found < step:
            return BrokenChain(
                f"Step {found} of branch {short(self.line.branch_id)} is there twice."
            )
        if step in self.rows:
            return BrokenChain(
                f"The operations of step {step} of branch"
                f" {short(self.line.branch_id)} are missing."
            )
        return self._missing(step)

    def _missing(self, step: int) -> BrokenChain:
        return BrokenChain(
            f"Step {step} of branch {short(self.line.branch_id)} is missing."
        )

    def _not_as_written(self, step: int, last: int | None = None) -> BrokenChain:
        what = f"Step {step}" if last is None else f"Steps {step}-{last}"
        verb = "is not as it was" if last is None else "are not as they were"
        return BrokenChain(
            f"{what} of branch {short(self.line.branch_id)} {verb} written."
        )


def _keys(line: Line) -> dict[UUID, envelope.DataKey]:
    """The keys of these records. The statement has asked for each whether it lives."""
    wanted = set()
    sealed = [
        *((each.first, each.alive, each.data_key) for each in line.segments),
        *(
            (each.row.step, each.alive, each.row.data_key)
            for each in line.steps
            if each.record is not None
        ),
    ]
    for step, alive, key in sealed:
        if not alive:
            hierarchy.data_keys([key])  # destroyed, or unknown: says so
            raise DecryptionError(
                f"Step {step} of branch {short(line.branch_id)} names a key of another"
                " thread."
            )
        wanted.add(key)
    return hierarchy.data_keys_seen_alive(wanted | {_mac_key(line)})


def _mac_key(line: Line) -> UUID:
    key = line.parts[-1].mac_key
    if key is None:
        hierarchy.sealing_key(line.thread_id)  # destroyed with it: says so
        raise UnknownKey(f"Thread {short(line.thread_id)} has no MAC key.")
    return key
