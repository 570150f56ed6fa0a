"""The step panel: what one step added, and under which circumstances it was taken."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agents.pages.thread.cards import Card, card, messages
from agents.pure.visible import flat
from checkpoints.pure.ops import Op

VALUE = 200  # characters of a value beside its operation


@dataclass(frozen=True)
class Operation:
    """An operation that is not a message: what it did, where, and with what."""

    verb: str
    path: str
    value: str


@dataclass(frozen=True)
class Additions:
    cards: list[Card] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)


VERBS = {
    "append": "appended to",
    "put": "set",
    "delete": "deleted",
    "set": "set",
    "unset": "removed",
}


def additions(ops: Iterable[Op], *, step: int, who: str) -> Additions:
    """What these operations added: messages as cards, everything else by path."""
    found = Additions()
    for op in ops:
        match op:
            case ["append", "/messages", message]:
                found.cards.append(card(message, step=step, who=who, new=True))
            case ["reset", dict() as state]:
                found.cards.extend(
                    card(message, step=step, who=who, new=True)
                    for message in messages(state)
                )
                found.operations.extend(_channels(state))
            case ["put", path, key, value]:
                found.operations.append(
                    Operation(VERBS["put"], f"{path}/{key}", _value(value))
                )
            case ["delete", path, key]:
                found.operations.append(
                    Operation(VERBS["delete"], f"{path}/{key}", "")
                )
            case [verb, path, value]:
                found.operations.append(
                    Operation(VERBS.get(verb, str(verb)), str(path), _value(value))
                )
            case [verb, path]:
                found.operations.append(
                    Operation(VERBS.get(verb, str(verb)), str(path), "")
                )
    return found


def _channels(state: Mapping[str, Any]) -> Iterable[Operation]:
    """The channels that a thread began with, where they hold something."""
    for name, value in state.items():
        if name not in {"messages", "_schema"} and value not in ({}, [], "", None):
            yield Operation("began with", f"/{name}", _value(value))


def _value(value: Any) -> str:
    said = flat(json.dumps(value, ensure_ascii=False))
    return said if len(said) <= VALUE else said[: VALUE - 1] + "…"
