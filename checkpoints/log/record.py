"""A step as it is read: its row, and what was sealed beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from checkpoints.pure.ops import Op


@dataclass(frozen=True)
class StepRow:
    """A step without its content: the columns that are stored in clear."""

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
    data_key: UUID  # of its delta; a segment names its own
    state_mac: bytes = field(repr=False)
    created_at: datetime


@dataclass(frozen=True)
class StepRecord(StepRow):
    """One step: its row, and what it did, opened."""

    label: str = field(repr=False)
    ops: list[Op] = field(repr=False)
    context: dict[str, Any] | None = field(repr=False)


COLUMNS = tuple(column.name for column in fields(StepRow))


def step_row(columns: Sequence[Any]) -> StepRow:
    """The row with these values of COLUMNS.

    Thousands are made at once, and a frozen class's own way takes five times as long.
    """
    row = StepRow.__new__(StepRow)
    vars(row).update(zip(COLUMNS, columns, strict=True))
    return row


def step_record(row: StepRow, text: dict[str, Any]) -> StepRecord:
    """The row with what its sealed text says."""
    record = StepRecord.__new__(StepRecord)
    vars(record).update(
        vars(row), label=text["label"], ops=text["ops"], context=text["context"]
    )
    return record
