"""What a person may change of a state before a run goes on from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agents.errors import InvalidEdit
from agents.pure.context import messages_of
from checkpoints.pure import ops
from checkpoints.pure.codec import State, same
from checkpoints.pure.ops import Op
from checkpoints.pure.pointer import pointer

MODEL_CHARACTERS = 100
MAX_SEED = 2**63 - 1  # what a column holds

_NAMES = {
    "system": "system prompt",
    "model": "model",
    "temperature": "temperature",
    "top_p": "top p",
    "seed": "seed",
}


@dataclass(frozen=True)
class ForkEdits:
    """What changes at the start of a fork; None leaves it as it is."""

    system: str | None = field(default=None, repr=False)
    model: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    message: str | None = field(default=None, repr=False)  # the last user message

    def params(self) -> dict[str, Any]:
        return {
            name: value for name in _NAMES if (value := getattr(self, name)) is not None
        }


def edit_ops(state: State, edits: ForkEdits) -> tuple[list[Op], str]:
    """The operations, and a label that says what they change; none for no change.

    Raises InvalidEdit, which names each field that does not fit.
    """
    wrong = problems(edits.params())
    if edits.message is not None:
        if not edits.message.strip():
            wrong["message"] = "The message is empty."
        elif _last_user_message(state) is None:
            wrong["message"] = "There is no message of a person here to change."
    if wrong:
        raise InvalidEdit(wrong)
    made: list[Op] = []
    changed: list[str] = []
    params = state.get("params")
    known = params if isinstance(params, dict) else {}
    for name, value in edits.params().items():
        if name not in known or not same(known[name], value):
            made.append(ops.put("/params", name, value))
            changed.append(_NAMES[name])
    place = _last_user_message(state)
    if edits.message is not None and place is not None:
        content = pointer("messages", place, "content")
        if not same(state["messages"][place].get("content"), edits.message):
            made.append(ops.set_(content, edits.message))
            changed.append("last message")
    return made, f"Changed {_listed(changed)}" if changed else ""


def problems(params: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with which parameter."""
    found: dict[str, str] = {}
    for name, value in params.items():
        if problem := _problem(name, value):
            found[name] = problem
    return found


def _problem(name: str, value: Any) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match name:
        case "system":
            return "" if isinstance(value, str) else "This should be text."
        case "model":
            if not isinstance(value, str) or not value.strip():
                return "Name a model."
            if len(value) > MODEL_CHARACTERS:
                return f"A model's name has {MODEL_CHARACTERS} characters at most."
            return ""
        case "temperature":
            return "" if number and 0 <= value <= 2 else "This should be from 0 to 2."
        case "top_p":
            if number and 0 < value <= 1:
                return ""
            return "This should be above 0, and 1 at most."
        case "seed":
            if type(value) is int and abs(value) <= MAX_SEED:
                return ""
            return "This should be a whole number."
    return f"There is no such parameter; there are: {', '.join(_NAMES)}."


def _last_user_message(state: State) -> int | None:
    """Its place in `messages`."""
    known = {id(message) for message in messages_of(state)}
    messages = state.get("messages")
    for place in reversed(range(len(messages if isinstance(messages, list) else ()))):
        message = state["messages"][place]
        if id(message) in known and message["role"] == "user":
            return place
    return None


def _listed(names: list[str]) -> str:
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
