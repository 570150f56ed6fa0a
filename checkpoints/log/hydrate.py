"""Read a branch: its steps through every fork, verified, and the state at any of them.

One statement reads the whole line, so that packing under way is seen whole or not at
all. While reading, each step's MAC is computed again from its row, its opened operations
and its parent's MAC, and the steps have to be there without a gap, up to the head that
the branch names: a row that was altered, swapped, moved or removed is refused by name.
A branch put back to an earlier head with all that belongs to it, as a backup would, is
whole; only an anchor outside the database can tell.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field, fields
from datetime import datetime
from decimal import Decimal
from itertools import chain as chained
from typing import Any
from uuid import UUID

from django.db import connection

from checkpoints.errors import BrokenChain, DecryptionError, StepNotFound
from checkpoints.gate import Pass
from checkpoints.ids import short
from checkpoints.keys import hierarchy
from checkpoints.log.step import delta_context, metadata
from checkpoints.models import Branch, Checkpoint, CheckpointDelta, DataKey
from checkpoints.pure import chain, codec, envelope
from checkpoints.pure.codec import State
from checkpoints.pure.ops import Op, fold


@dataclass(frozen=True)
class StepRecord:
    """One step: its row, and what it did, opened."""

    id: UUID
    branch_id: UUID
    parent_id: UUID | None
    step: int
    kind: str
    status: str
    name: str
    run: UUID | None
    actor_id: int | None
    agent_version: UUID | None
    schema_version: int
    model_requested: str
    model_returned: str
    temperature: float | None
    top_p: float | None
    seed: int | None
    fingerprint: str
    tokens_in: int | None
    tokens_out: int | None
    tokens_cached: int | None
    cost: Decimal | None
    latency_ms: int | None
    error_class: str
    data_key: UUID
    state_mac: bytes = field(repr=False)
    created_at: datetime
    label: str = field(repr=False)
    ops: list[Op] = field(repr=False)
    context: dict[str, Any] | None = field(repr=False)


class History:
    """The steps of a branch from the thread's start, through forks, to a step."""

    def __init__(self, records: list[StepRecord]) -> None:
        """`records` in step order, without a gap, beginning with step 0."""
        self.records = records

    def __repr__(self) -> str:
        return f"History({len(self.records)} steps)"

    def record(self, step: int) -> StepRecord:
        """Raises StepNotFound."""
        if not 0 <= step < len(self.records):
            raise StepNotFound(f"There is no step {step} here.")
        return self.records[step]

    def state_at(self, step: int) -> State:
        """The state after this step; not to be changed. Raises StepNotFound."""
        return self.states(step)[0]

    def states(self, *steps: int) -> list[State]:
        """The states after these steps, in the order given, folding each step once.

        They share what stayed the same: change none of them. Raises StepNotFound.
        """
        found: dict[int, State] = {}
        state: State = {}
        reached = 0
        for step in sorted(set(steps)):
            self.record(step)
            passed = self.records[reached : step + 1]
            state = fold(state, chained.from_iterable(record.ops for record in passed))
            found[step] = state
            reached = step + 1
        return [found[step] for step in steps]


def read(pass_: Pass, branch: Branch, *, to_step: int | None = None) -> History:
    """The branch's history up to `to_step` (its head, when None), in one statement.

    Raises NotPermitted for a thread that the pass was not made for, StepNotFound when
    the branch has no such step, Shredded, DecryptionError when a step's operations do
    not open, and BrokenChain when a step does not follow from the one before it; the
    last two name the step.
    """
    pass_.require_thread(branch.thread_id)
    pass_.require_right()
    with connection.cursor() as cursor:
        cursor.execute(
            _READ, {"branch": branch.pk, "thread": branch.thread_id, "to_step": to_step}
        )
        rows = cursor.fetchall()
    if not rows:
        raise StepNotFound(f"Branch {short(branch.pk)} has no step.")
    head_step, head_mac = rows[0][:2]
    last = head_step if to_step is None else to_step
    if not 0 <= last <= head_step:
        raise StepNotFound(f"Branch {short(branch.pk)} has no step {to_step}.")
    records = _verified(branch, [row[2:] for row in rows])
    if len(records) != last + 1:
        raise BrokenChain(
            f"Step {len(records)} of branch {short(branch.pk)} is missing."
        )
    if last == head_step and not hmac.compare_digest(
        records[-1].state_mac, bytes(head_mac)
    ):
        raise BrokenChain(
            f"Step {last} of branch {short(branch.pk)} is not the head that it recorded."
        )
    return History(records)


def head_state(pass_: Pass, branch: Branch) -> State:
    """The state at the branch's head; not to be changed. Raises as `read` does."""
    history = read(pass_, branch)
    return history.state_at(len(history.records) - 1)


def _verified(branch: Branch, rows: list[tuple[Any, ...]]) -> list[StepRecord]:
    """The rows as records, each opened and shown to follow from the one before it."""
    keys = _keys(branch, rows)
    mac_key = hierarchy.thread_keys(branch.thread_id).mac
    records: list[StepRecord] = []
    parent_id, previous = None, chain.START
    for number, (_, sealed, *columns) in enumerate(rows):
        values: dict[str, Any] = dict(zip(_COLUMNS, columns, strict=True))
        values["state_mac"] = bytes(values["state_mac"])
        step = values["step"]
        if step != number:
            raise BrokenChain(f"Step {number} of branch {short(branch.pk)} is missing.")
        plain = _open(branch, values, sealed, keys)
        text = codec.parse(plain)
        record = StepRecord(
            **values, label=text["label"], ops=text["ops"], context=text["context"]
        )
        expected = chain.link(
            mac_key,
            previous,
            branch=record.branch_id,
            step=step,
            parent=parent_id,
            metadata=metadata(record.id, record.kind, record.schema_version, record),
            operations=plain,
        )
        if record.parent_id != parent_id or not hmac.compare_digest(
            record.state_mac, expected
        ):
            raise BrokenChain(
                f"Step {step} of branch {short(branch.pk)} is not as it was written."
            )
        records.append(record)
        parent_id, previous = record.id, record.state_mac
    return records


def _keys(branch: Branch, rows: list[tuple[Any, ...]]) -> dict[UUID, envelope.DataKey]:
    """The keys of these rows. The statement has asked for each whether it still lives."""
    position = 2 + _COLUMNS.index("data_key")
    for step, row in enumerate(rows):
        if not row[0]:
            hierarchy.data_keys([row[position]])  # destroyed, or unknown: says so
            raise DecryptionError(
                f"Step {step} of branch {short(branch.pk)} names a key of another thread."
            )
    return hierarchy.data_keys_seen_alive(row[position] for row in rows)


def _open(
    branch: Branch,
    values: dict[str, Any],
    sealed: bytes | None,
    keys: dict[UUID, envelope.DataKey],
) -> bytes:
    step = values["step"]
    if sealed is None:
        raise BrokenChain(
            f"The operations of step {step} of branch {short(branch.pk)} are missing."
        )
    place = delta_context(branch.workspace_id, branch.thread_id, values["id"], step)
    try:
        return envelope.open_sealed(
            bytes(sealed),
            key=keys[values["data_key"]],
            context=place,
        )
    except DecryptionError as error:
        raise DecryptionError(
            f"Step {step} of branch {short(branch.pk)}: {error}"
        ) from None


_OPENED = {"label", "ops", "context"}
_COLUMNS = [column.name for column in fields(StepRecord) if column.name not in _OPENED]

# Each branch of the line gives the steps after it left its parent, up to where the next
# one left it. Uncorrelated parts (the live keys) are evaluated once.
_READ = f"""
WITH RECURSIVE line AS (
    SELECT id, parent_id, fork_step, head_step, head_mac,
           coalesce(%(to_step)s::int, head_step) AS last
    FROM {Branch._meta.db_table}
    WHERE id = %(branch)s AND thread_id = %(thread)s
  UNION
    SELECT up.id, up.parent_id, up.fork_step, line.head_step, line.head_mac,
           least(line.last, line.fork_step)
    FROM line JOIN {Branch._meta.db_table} up
      ON up.id = line.parent_id AND up.thread_id = %(thread)s
)
SELECT line.head_step, line.head_mac,
       c.data_key = ANY (ARRAY(
           SELECT id FROM {DataKey._meta.db_table}
           WHERE thread_id = %(thread)s AND destroyed_at IS NULL
       )),
       d.record,
       {", ".join(f"c.{name}" for name in _COLUMNS)}
FROM line
JOIN {Checkpoint._meta.db_table} c
  ON c.thread_id = %(thread)s AND c.branch_id = line.id
 AND c.step > line.fork_step AND c.step <= line.last
LEFT JOIN {CheckpointDelta._meta.db_table} d ON d.checkpoint_id = c.id
ORDER BY c.step
"""  # noqa: S608
