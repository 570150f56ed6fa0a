"""The rows of a line: a branch from the thread's start, through every fork, to a step.

One statement finds them all, so that packing under way is seen whole or not at all:
each step's content is in its delta or in a segment, never in both and never in neither.
Nothing is opened and nothing believed here; `verified` does that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from checkpoints.db.prepared import Prepared
from checkpoints.errors import StepNotFound
from checkpoints.ids import short
from checkpoints.log.record import COLUMNS, StepRow, step_row
from checkpoints.models import Branch, Checkpoint, CheckpointDelta, DataKey, Segment


class Part(NamedTuple):
    """A branch of the line, as its row has it."""

    branch: UUID
    fork_step: int
    forked_from: UUID | None
    fork_mac: bytes | None  # of the checkpoint that it was forked from
    head: UUID | None
    head_step: int
    head_mac: bytes
    mac_key: UUID | None  # the thread's; None: destroyed


class SealedSegment(NamedTuple):
    branch: UUID
    first: int
    last: int
    id: UUID
    data_key: UUID
    alive: bool  # the key, when the statement ran
    record: bytes


class SealedStep(NamedTuple):
    row: StepRow
    alive: bool
    record: bytes | None  # None: in a segment, or nowhere


@dataclass(frozen=True)
class Line:
    """What the statement found, and `last`, the step that it was to reach."""

    workspace_id: UUID
    thread_id: UUID
    branch_id: UUID
    last: int
    parts: list[Part]  # from the thread's first branch on; the last was asked for
    segments: list[SealedSegment]
    steps: list[SealedStep]

    @property
    def has_content(self) -> bool:
        """False where all of it went: archived, or shredded."""
        return bool(self.segments) or any(
            step.record is not None for step in self.steps
        )


def fetch(
    branch: Branch,
    *,
    to_step: int | None,
    rows_from: int | None,
    rows_to: int | None = None,
) -> Line:
    """The line of the branch up to `to_step` (its head, when None).

    Every step that has a delta comes with its row; so do the packed ones from step
    `rows_from` on, up to `rows_to` (all, when None). Raises StepNotFound when the branch
    has no such step.
    """
    statement = _FETCH if rows_from is None else _FETCH_ROWS
    found = statement.rows(
        {
            "branch": branch.pk,
            "thread": branch.thread_id,
            "to_step": to_step,
            "rows_from": rows_from,
            "rows_to": rows_to,
        }
    )
    parts, segments, steps = [], [], []
    for what, until, alive, record, *columns in found:
        if what == _STEP:
            steps.append(SealedStep(step_row(columns), alive, record))
            continue
        row = dict(zip(COLUMNS, columns, strict=True))
        if what == _SEGMENT:
            segments.append(
                SealedSegment(
                    branch=row["branch_id"],
                    first=row["step"],
                    last=until,
                    id=row["id"],
                    data_key=row["data_key"],
                    alive=alive,
                    record=record,
                )
            )
        else:
            parts.append(
                Part(
                    branch=row["branch_id"],
                    fork_step=row["step"],
                    forked_from=row["parent_id"],
                    fork_mac=record,
                    head=row["id"],
                    head_step=until,
                    head_mac=row["state_mac"],
                    mac_key=row["data_key"],
                )
            )
    # A branch leaves its parent after the parent left its own.
    parts.sort(key=lambda part: part.fork_step)
    head_step = parts[-1].head_step if parts else -1
    if head_step < 0:
        raise StepNotFound(f"Branch {short(branch.pk)} has no step.")
    last = head_step if to_step is None else to_step
    if not 0 <= last <= head_step:
        raise StepNotFound(f"Branch {short(branch.pk)} has no step {to_step}.")
    return Line(
        workspace_id=branch.workspace_id,
        thread_id=branch.thread_id,
        branch_id=branch.pk,
        last=last,
        parts=parts,
        segments=segments,
        steps=steps,
    )


def rows(branch: Branch, *, first: int, last: int | None) -> list[StepRow]:
    """The rows of these steps of the branch's line, in step order; no content."""
    found = _ROWS.rows(
        {
            "branch": branch.pk,
            "thread": branch.thread_id,
            "to_step": last,
            "first": first,
        }
    )
    return [step_row(row) for row in found]


_STEP, _SEGMENT, _PART = range(3)
_LINE = f"""
WITH RECURSIVE line AS (
    SELECT id, parent_id, forked_from_id, fork_step, head_id, head_step, head_mac,
           coalesce(%(to_step)s::int, head_step) AS last
    FROM {Branch._meta.db_table}
    WHERE id = %(branch)s AND thread_id = %(thread)s
  UNION
    SELECT up.id, up.parent_id, up.forked_from_id, up.fork_step,
           up.head_id, up.head_step, up.head_mac, least(line.last, line.fork_step)
    FROM line JOIN {Branch._meta.db_table} up
      ON up.id = line.parent_id AND up.thread_id = %(thread)s
)
"""  # noqa: S608  # our own names; values are parameters
# Evaluated once, as it depends on no row.
_ALIVE = f"""= ANY (ARRAY(
    SELECT id FROM {DataKey._meta.db_table}
    WHERE thread_id = %(thread)s AND destroyed_at IS NULL
))"""  # noqa: S608  # our own names; values are parameters
_MAC_KEY = f"""(
    SELECT id FROM {DataKey._meta.db_table}
    WHERE thread_id = %(thread)s AND purpose = '{DataKey.Purpose.MAC}'
      AND destroyed_at IS NULL
    ORDER BY version DESC LIMIT 1
)"""  # noqa: S608  # our own names; values are parameters
# Each branch of the line gives its steps up to where the next one left it.
_OWN_STEPS = """ON c.thread_id = %(thread)s AND c.branch_id = line.id
 AND c.step > line.fork_step AND c.step <= line.last"""


def _select(
    what: int, *, until: str = "NULL", alive: str, record: str, **columns: str
) -> str:
    """The columns that all parts of the union have, in one order."""
    rest = ", ".join(columns.get(name, "NULL") for name in COLUMNS)
    return f"SELECT {what}, {until}::int, {alive}, {record}, {rest}"


_STEP_COLUMNS = {name: f"c.{name}" for name in COLUMNS}
_UNPACKED = f"""
{_select(_STEP, alive=f"c.data_key {_ALIVE}", record="d.record", **_STEP_COLUMNS)}
FROM line
JOIN {CheckpointDelta._meta.db_table} d {_OWN_STEPS.replace("c.", "d.")}
JOIN {Checkpoint._meta.db_table} c ON c.id = d.checkpoint_id
"""
_PACKED_ROWS = f"""
{_select(_STEP, alive="true", record="NULL", **_STEP_COLUMNS)}
FROM line JOIN {Checkpoint._meta.db_table} c {_OWN_STEPS}
WHERE c.step >= %(rows_from)s AND c.step <= coalesce(%(rows_to)s::int, c.step)
  AND NOT EXISTS (
    SELECT FROM {CheckpointDelta._meta.db_table} d WHERE d.checkpoint_id = c.id
  )
"""
_SEGMENTS = f"""
{
    _select(
        _SEGMENT,
        until="s.last_step",
        alive=f"s.data_key {_ALIVE}",
        record="s.record",
        branch_id="s.branch_id",
        step="s.first_step",
        id="s.id",
        data_key="s.data_key",
    )
}
FROM line JOIN {Segment._meta.db_table} s
  ON s.thread_id = %(thread)s AND s.branch_id = line.id AND s.first_step <= line.last
"""
_PARTS = f"""
{
    _select(
        _PART,
        until="line.head_step",
        alive="true",
        record="f.state_mac",
        branch_id="line.id",
        step="line.fork_step",
        parent_id="line.forked_from_id",
        id="line.head_id",
        state_mac="line.head_mac",
        data_key=_MAC_KEY,
    )
}
FROM line LEFT JOIN {Checkpoint._meta.db_table} f ON f.id = line.forked_from_id
"""
_ALL = " UNION ALL "
_FETCH = Prepared(_LINE + _ALL.join((_UNPACKED, _SEGMENTS, _PARTS)), binary=True)
_FETCH_ROWS = Prepared(
    _LINE + _ALL.join((_UNPACKED, _PACKED_ROWS, _SEGMENTS, _PARTS)), binary=True
)
_ROWS = Prepared(
    f"""{_LINE}
    SELECT {", ".join(_STEP_COLUMNS.values())}
    FROM line JOIN {Checkpoint._meta.db_table} c {_OWN_STEPS}
    WHERE c.step >= %(first)s
    ORDER BY c.step
    """,  # noqa: S608  # our own names; values are parameters
    binary=True,
)
