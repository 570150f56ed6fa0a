"""What differs between any two branches without meaning anything: ids made at each step.

A message's id is its checkpoint's, and providers make up an id for each call: both are
others in every branch, however much alike two branches are. People who compare want to
see the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from checkpoints.pure.codec import State
from checkpoints.pure.ops import Op
from checkpoints.pure.pointer import pointer

MESSAGES = "/messages"
_IDS = frozenset({"id", "tool_call_id"})


def quiet(state: State) -> State:
    """The state with messages without ids; those keep the rest of what they hold."""
    messages = state.get("messages")
    if type(messages) is not list:
        return state
    return {**state, "messages": [quiet_message(message) for message in messages]}


def quiet_message(message: Any) -> Any:
    if type(message) is not dict:
        return message
    kept = {key: value for key, value in message.items() if key not in _IDS}
    calls = kept.get("tool_calls")
    if type(calls) is list:
        kept["tool_calls"] = [
            {key: value for key, value in call.items() if key != "id"}
            if type(call) is dict
            else call
            for call in calls
        ]
    return kept


def told(ops: Iterable[Op]) -> dict[str, Any]:
    """What a step did, by path and without ids: path → the value that is there now.

    What was appended to a list is at its "/-", which is how RFC 6901 calls the place
    after its last item; several items are a list of them. What was removed is None.
    """
    found: dict[str, Any] = {}
    appended: dict[str, list[Any]] = {}
    for op in ops:
        match op:
            case ["append", str() as path, value]:
                value = quiet_message(value) if path == MESSAGES else value
                appended.setdefault(path, []).append(value)
            case ["put", str() as path, str() as key, value]:
                found[path + pointer(key)] = value
            case ["delete", str() as path, str() as key]:
                found[path + pointer(key)] = None
            case ["set", str() as path, value]:
                found[path] = quiet_message(value) if _is_message(path) else value
            case ["unset", str() as path]:
                found[path] = None
            case ["reset", dict() as state]:
                found.update((pointer(k), v) for k, v in quiet(state).items())
    for path, values in appended.items():
        found[f"{path}/-"] = values[0] if len(values) == 1 else values
    return found


def _is_message(path: str) -> bool:
    return path.startswith(f"{MESSAGES}/") and path.count("/") == 2
