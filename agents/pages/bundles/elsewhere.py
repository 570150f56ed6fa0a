"""Calls that were made elsewhere: what a bundle says of them, for the Effects tab."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from agents.pure.bundles.shape import IMPORTED
from checkpoints.log.hydrate import StepRecord


@dataclass(frozen=True)
class Elsewhere:
    """One call, with the request and the decisions that the file names."""

    step: int  # of the reply that made it
    checkpoint: UUID
    call: Mapping[str, Any]


def calls_elsewhere(records: Iterable[StepRecord]) -> list[Elsewhere]:
    """Of an imported thread's steps; empty for every other thread's."""
    return [
        Elsewhere(record.step, record.id, call)
        for record in records
        for call in (record.context or {}).get(IMPORTED, {}).get("calls", ())
    ]
