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
    return [
        None if isinstance(value, DAMAGE) else value
        for value in opened.open_each(rows, column)
    ]
