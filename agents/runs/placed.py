"""A state with a person's own values at places of it; and what an agent could not go on from.

An edit names places by their paths (JSON Pointers). What such an edit may not do is said
here once, for pages and programs: change what the engine keeps for itself, make another
message of one that was said, or leave a channel as something that nobody can read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from checkpoints.pure import ops
from checkpoints.pure.changes import ABSENT
from checkpoints.pure.codec import State, same, text
from checkpoints.pure.ops import fold
from checkpoints.pure.pointer import pointer
from checkpoints.pure.refs import is_ref

OWN = "_"  # begins the names of channels that only the engine writes

_CHANNELS: dict[str, type] = {
    "messages": list,
    "params": dict,
    "goal": str,
    "plan": list,
    "facts": dict,
    "decisions": list,
    "todos": list,
    "vars": dict,
}
_CALLED: dict[type, str] = {list: "a list", dict: "an object", str: "text"}
_ROLES = ("user", "assistant", "tool", "system", "developer")
# What makes a message the one that it is: who said it, and which call it answers.
_FIXED = ("role", "tool_call_id", "ordinal")


def placed(state: State, values: Mapping[str, Any]) -> State:
    """The state with each value at its path; "" is all of it but the engine's channels.

    `state` is left as it was. Raises BadOperation where the state has no such place.
    """
    for path, value in values.items():
        if path == "":
            own = {name: kept for name, kept in state.items() if name.startswith(OWN)}
            state = fold(state, [ops.reset(value)])  # refuses what is no object
            state = {**own, **state}
        else:
            state = fold(state, [ops.set_(path, value)])
    return state


def misfit(before: State, after: State) -> str:
    """Why an agent could not go on from what an edit made of a state; empty: it can.

    Says nothing of what was so before.
    """
    return next(_misfits(before, after), "")


def _misfits(before: State, after: State) -> Iterator[str]:
    for name in {*before, *after}:
        if name.startswith(OWN) and not _same_at(name, before, after):
            yield f"{pointer(name)} is the engine's own: leave it as it is."
    for name, kind in _CHANNELS.items():
        was = before.get(name, ABSENT)
        if type(was) is kind and type(after.get(name, ABSENT)) is not kind:
            yield f"{pointer(name)} has to stay {_CALLED[kind]}."
    known = {text(value) for value in _refs(before)}
    if any(text(value) not in known for value in _refs(after)):
        yield "A value that is kept apart ($blob) can be moved, not made."
    if not _same_at("messages", before, after):
        yield from _messages(before.get("messages"), after.get("messages"))


def _messages(before: Any, after: Any) -> Iterator[str]:
    if not isinstance(after, list):
        return
    was = before if isinstance(before, list) else []
    known = {
        message["id"]: message
        for message in was
        if isinstance(message, dict) and isinstance(message.get("id"), str)
    }
    met: set[str] = set()
    for place, message in enumerate(after):
        at = pointer("messages", place)
        given = message.get("id") if isinstance(message, dict) else None
        if isinstance(given, str):
            if given in met:
                yield f"{at}/id is another message's, too."
            met.add(given)
        if place < len(was) and same(was[place], message):
            continue
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            yield f"{at} has to be an object with a role: {', '.join(_ROLES)}."
            continue
        content = message.get("content")
        if not (content is None or isinstance(content, str | list) or is_ref(content)):
            yield f"{at}/content has to be text, a list of parts, or null."
        old = known.get(given, message) if isinstance(given, str) else message
        for name in _FIXED:
            if not _same_at(name, old, message):
                yield (
                    f"{at}/{name} says which message it is: leave it, or give the"
                    " message another id."
                )


def _same_at(name: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return same(one.get(name, ABSENT), other.get(name, ABSENT))


def _refs(value: Any) -> Iterator[Any]:
    """What stands for values that are kept apart, anywhere within."""
    todo = [value]
    while todo:
        found = todo.pop()
        if is_ref(found):
            yield found
        elif isinstance(found, dict):
            todo += found.values()
        elif isinstance(found, list):
            todo += found
