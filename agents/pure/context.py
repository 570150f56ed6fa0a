"""What a model call is sent: a function of the state, and the record of it.

For now everything: the system prompt from `params`, then all messages. Kept in the
transcript's order, but for what providers insist on: the results of a reply's
calls follow it at once, in the order of the calls, and every call has one.

A result that is kept as a blob is sent as one line that says so. Other references stay
as they are: whoever sends the request puts in what they stand for, in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from checkpoints.pure import refs
from checkpoints.pure.codec import State

NO_RESULT = "No result was recorded for this call."

_SENT = ("content", "name", "refusal")  # of a message, beside role and calls


@dataclass(frozen=True)
class Request:
    """One model call. `manifest` is what the step keeps, to rebuild and show it."""

    model: str
    messages: list[dict[str, Any]] = field(repr=False)
    tools: list[dict[str, Any]] = field(repr=False)
    temperature: float | None
    top_p: float | None
    seed: int | None
    manifest: dict[str, Any] = field(repr=False)


def compose(state: State, tools: Sequence[dict[str, Any]]) -> Request:
    """The request for the next reply, from any state, however it came about."""
    params = state.get("params")
    params = params if isinstance(params, dict) else {}
    system = params.get("system")
    system = system if isinstance(system, str) else ""
    sent, ids = _messages(state)
    if system:
        sent.insert(0, {"role": "system", "content": system})
    temperature, top_p = _number(params, "temperature"), _number(params, "top_p")
    seed = params.get("seed")
    seed = seed if isinstance(seed, int) and not isinstance(seed, bool) else None
    model = params.get("model")
    model = model if isinstance(model, str) else ""
    return Request(
        model=model,
        messages=sent,
        tools=list(tools),
        temperature=temperature,
        top_p=top_p,
        seed=seed,
        manifest={
            "policy": "everything",
            "system": bool(system),
            "messages": ids,
            "tools": [tool["function"]["name"] for tool in tools],
            "params": {
                "model": model,
                "temperature": temperature,
                "top_p": top_p,
                "seed": seed,
            },
        },
    )


def messages_of(state: State) -> list[dict[str, Any]]:
    """The transcript's messages that are objects with a known role."""
    found = state.get("messages")
    if not isinstance(found, list):
        return []
    return [
        message
        for message in found
        if isinstance(message, dict)
        and message.get("role") in ("system", "developer", "user", "assistant", "tool")
    ]


def calls_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """A reply's tool calls, as the provider wrote them. Without those of other kinds."""
    calls = message.get("tool_calls")
    if message.get("role") != "assistant" or not isinstance(calls, list):
        return []
    return [
        call
        for call in calls
        if isinstance(call, dict) and isinstance(call.get("function"), dict)
    ]


def answers(
    calls: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]
) -> dict[int, dict[str, Any]]:
    """Which message among those after a reply answers which of its calls, by ordinal.

    Our own messages say so (`ordinal`). Others name the provider's id, which may
    repeat: then the first call with that id that has no answer yet.
    """
    found: dict[int, dict[str, Any]] = {}
    for message in after:
        if message["role"] == "assistant":
            break
        if message["role"] != "tool":
            continue
        ordinal = message.get("ordinal")
        if type(ordinal) is int and 0 <= ordinal < len(calls):
            found.setdefault(ordinal, message)
            continue
        for number, call in enumerate(calls):
            if number not in found and call.get("id") == message.get("tool_call_id"):
                found[number] = message
                break
    return found


def _messages(state: State) -> tuple[list[dict[str, Any]], list[str]]:
    """The messages as sent, and the ids of those that were, in that order."""
    messages = messages_of(state)
    sent: list[dict[str, Any]] = []
    ids: list[str] = []

    def add(message: dict[str, Any], **extra: Any) -> None:
        sent.append(
            {"role": message["role"]}
            | {key: message[key] for key in _SENT if message.get(key) is not None}
            | extra
        )
        if isinstance(message.get("id"), str):
            ids.append(message["id"])

    for place, message in enumerate(messages):
        if message["role"] == "tool":
            continue  # goes with its reply
        calls = calls_of(message)
        if not calls:
            if message["role"] == "assistant" and not message.get("content"):
                add(message, content="")  # providers refuse a reply without either
            else:
                add(message)
            continue
        names = _distinct(calls)
        add(
            message,
            tool_calls=[
                {
                    "id": name,
                    "type": "function",
                    "function": {
                        "name": str(call["function"].get("name") or "unnamed"),
                        "arguments": _text(call["function"].get("arguments")),
                    },
                }
                for name, call in zip(names, calls, strict=True)
            ],
        )
        results = answers(calls, messages[place + 1 :])
        for ordinal, name in enumerate(names):
            result = results.get(ordinal)
            if result is None:
                sent.append(
                    {"role": "tool", "tool_call_id": name, "content": NO_RESULT}
                )
            else:
                add(
                    {**result, "name": None},
                    tool_call_id=name,
                    content=_result(result.get("content")),
                )
    return sent, ids


def _distinct(calls: Sequence[dict[str, Any]]) -> list[str]:
    """The provider's ids; ours, where it gave one twice in this reply, or none."""
    given = [call.get("id") for call in calls]
    return [
        name
        if isinstance(name, str) and name and given.count(name) == 1
        else f"call_{ordinal}"
        for ordinal, name in enumerate(given)
    ]


def kept_apart(ref: refs.Ref) -> str:
    """What the model is told of a result that is too large to be sent."""
    begins = f" It begins: {ref['digest']}" if ref["digest"] else ""
    return (
        f"[The result has {ref['size']:,} bytes ({ref['media_type']}) and is kept apart"
        f" from this conversation.{begins}]"
    )


def _result(content: object) -> str:
    if refs.is_ref(content):
        return kept_apart(content)  # type: ignore[arg-type]  # a dict
    return _text(content)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(params: dict[str, Any], name: str) -> float | None:
    value = params.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value
