"""What the record of a step says of how its content came about, for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.pages.text import duration


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
    match context.get("cached"):
        case {"step": int(step), "saved_ms": int(saved)}:
            text = f"From the cache: what the same call gave at step {step}."
            text += f" That saved {duration(saved)}." if saved else ""
            found.append(Note("cached", "undo", "slate", text))
    match context.get("folded"):
        case [*others] if others:
            text = f"One checkpoint at the end: {len(others)} more "
            text += "steps are" if len(others) > 1 else "step is"
            text += " stored in this one, as the agent is declared."
            found.append(Note("folded", "pin", "slate", text))
    if context.get("simulated"):
        text = "Simulated: the call was not made. The agent was told to go on as if."
        found.append(Note("simulated", "fork", "violet", text))
    if isinstance(names := context.get("secrets"), list) and names:
        text = "Secrets were taken out before this was stored: "
        text += ", ".join(f"[secret {name}]" for name in names) + "."
        found.append(Note("secrets", "lock", "amber", text))
    return found
