"""What a person may change of a state before a run goes on from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agents.errors import InvalidEdit
from agents.pure.context import messages_of, whole_again
from agents.runs.placed import misfit, placed
from checkpoints.errors import BadOperation, NotStorable
from checkpoints.pure import codec, ops
from checkpoints.pure.changes import look
from checkpoints.pure.codec import State, same
from checkpoints.pure.ops import Op, fold
from checkpoints.pure.pointer import pointer, split

MODEL_CHARACTERS = 100
MAX_SEED = 2**63 - 1  # what a column holds
TWICE = "This is changed here and above: change it in one place."

_NAMES = {
    "system": "system prompt",
    "model": "model",
    "temperature": "temperature",
    "top_p": "top p",
    "seed": "seed",
}


@dataclass(frozen=True)
class ForkEdits:
    """What changes at the start of a fork; None, or nothing, leaves it as it is."""

    system: str | None = field(default=None, repr=False)
    model: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    message: str | None = field(default=None, repr=False)  # the last user message
    # By path: the text of messages and tool results; and whatever JSON is there.
    said: Mapping[str, str] = field(default_factory=dict, repr=False)
    value: Mapping[str, Any] = field(default_factory=dict, repr=False)

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
    after, changed = _at_places(state, edits, wrong)
    if wrong:
        raise InvalidEdit(wrong)
    made, named = _of_fields(state, edits)
    if changed:
        _require_once(state, after, made)
        made = ops.diff(state, fold(after, made))
    changed = named + changed
    return made, f"Changed {_listed(changed)}" if changed else ""


def _of_fields(state: State, edits: ForkEdits) -> tuple[list[Op], list[str]]:
    """What parameters and the last message change, and how that is called."""
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
    return made, changed


def _at_places(
    state: State, edits: ForkEdits, wrong: dict[str, str]
) -> tuple[State, list[str]]:
    """The state with what is written at places of it, and those that it changes.

    Adds to `wrong` what does not fit.
    """
    after, changed = state, []
    for name, values in (("said", edits.said), ("value", edits.value)):
        if not values:
            continue  # a long state takes its time to be gone through
        try:
            now = placed(after, values)
            codec.check(now)
        except (BadOperation, NotStorable) as problem:
            found = getattr(problem, "problem", str(problem))
            wrong.setdefault(name, f"{found[0].upper()}{found[1:].removesuffix('.')}.")
            continue
        if same(now, after):
            continue
        found = misfit(after, now) or _of_params(after, now)
        if found:
            wrong.setdefault(name, found)
            continue
        after = whole_again(after, now)
        changed += [path or "the state" for path in values]
    return after, changed


def _of_params(before: State, after: State) -> str:
    """What is wrong with parameters that were changed where they stand in the state."""
    was, now = (
        found if isinstance(found := state.get("params"), dict) else {}
        for state in (before, after)
    )
    for name, value in now.items():
        if (name in was and same(was[name], value)) or value is None:
            continue
        if problem := _problem(name, value):
            return f"{pointer('params', name)}: {problem}"
    return ""


def _require_once(before: State, after: State, made: list[Op]) -> None:
    """Raises InvalidEdit where a field changes what was changed in the state as well."""
    for op in made:
        parts = split(op[1]) + ((op[2],) if op[0] == "put" else ())
        if not same(look(before, parts), look(after, parts)):
            field_name = parts[-1] if parts[0] == "params" else "message"
            raise InvalidEdit({str(field_name): TWICE})


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
