"""What the record of a step says of how its content came about, for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Note:
    id: str
    icon: str
    colour: str
    text: str


def notes(context: Mapping[str, Any] | None) -> list[Note]:
    """Of a step's context; empty for most steps."""
    found = []
    context = context or {}
    if context.get("reconciled"):
        found.append(
            Note(
                "reconciled",
                "retry",
                "slate",
                "The worker stopped, or the call broke, before its result was stored: "
                "the tool found out what came of it.",
            )
        )
    return found
