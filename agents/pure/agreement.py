"""How far answers to one request agree: on what is to be done, not on how it was put.

An answer that makes calls decides by them: which tools, in which order, with which
arguments. Why the model says it makes a call is no part of that. An answer without calls
decides by its text.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.pure.calls import parse_arguments
from agents.pure.context import calls_of
from checkpoints.pure import codec

Message = dict[str, Any]


@dataclass(frozen=True)
class Decision:
    """Equal where two answers decide the same."""

    calls: tuple[tuple[str, str], ...] = field(repr=False)  # name, arguments
    text: str = field(repr=False)  # of an answer without calls


@dataclass(frozen=True)
class Group:
    """Answers that decide the same, by their places, in order."""

    decision: Decision
    places: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.places)


def decision(
    message: Message, *, reason: str = "", reasoned: Container[str] = ()
) -> Decision:
    """What the model's message decides.

    Calls of the tools in `reasoned` have an argument `reason` that is not the tool's.
    """
    calls = calls_of(message)
    if not calls:
        return Decision((), _text(message.get("content")))
    return Decision(
        tuple(_call(call["function"], reason, reasoned) for call in calls), ""
    )


def groups(decisions: Sequence[Decision]) -> list[Group]:
    """Those that decide the same together; the largest first, then the earliest."""
    found: dict[Decision, list[int]] = {}
    for place, each in enumerate(decisions):
        found.setdefault(each, []).append(place)
    made = [Group(each, tuple(places)) for each, places in found.items()]
    return sorted(made, key=lambda group: (-group.count, group.places[0]))


def _call(
    function: dict[str, Any], reason: str, reasoned: Container[str]
) -> tuple[str, str]:
    name, written = str(function.get("name") or ""), function.get("arguments")
    arguments, _, _ = parse_arguments(written)
    if arguments is None:  # as the model wrote what is no JSON object
        return name, str(written)
    if name in reasoned:
        arguments.pop(reason, None)
    return name, codec.canonical(arguments).decode()


def _text(content: object) -> str:
    """Without the blanks around it; of one in parts, or kept as a blob, what it is."""
    if isinstance(content, str):
        return content.strip()
    return codec.canonical(content).decode() if content else ""
