"""Records that do not open: one of them hides nothing else on a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import Model

from checkpoints.errors import (
    BrokenChain,
    DecryptionError,
    FutureSchema,
    MissingObject,
    Pruned,
    Shredded,
    StoreUnavailable,
    UnknownKey,
)
from checkpoints.gate import Pass

# What makes one thread, or one record of it, unreadable, and nothing else.
DAMAGE = (BrokenChain, DecryptionError, FutureSchema, Pruned, Shredded, UnknownKey)
# As well, what makes one blob unreadable, if only for now.
GONE = (*DAMAGE, MissingObject, StoreUnavailable)
NO_STORE = "Long texts cannot be stored now. Try again later, or shorten this one."


def open_each(opened: Pass, rows: Sequence[Model], column: str) -> list[Any]:
    """As `Pass.open_all`, with None for each record that does not open."""
    return open_columns(opened, [(row, column) for row in rows])


def open_columns(opened: Pass, wanted: Sequence[tuple[Model, str]]) -> list[Any]:
    """As `open_each`, of rows each with a column of its own: one query for all keys."""
    return [
        None if isinstance(value, DAMAGE) else value
        for value in opened.open_columns(wanted)
    ]
