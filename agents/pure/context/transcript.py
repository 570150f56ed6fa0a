"""The transcript, and its messages as providers take them.

In the transcript's order, but for what providers insist on: the results of a reply's
calls follow it at once, in the order of the calls, and every call has one.

A result that is kept as a blob is sent as one line that says so. Other references stay
as they are: whoever sends the request puts in what they stand for, in full.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Sequence
from typing import Any

from checkpoints.pure import refs
from checkpoints.pure.codec import State

NO_RESULT = "No result was recorded for this call."

_NO_NAME = re.compile("[^a-zA-Z0-9_-]")
_NAME_CHARACTERS = 64
_SENT = ("content", "name", "refusal")  # of a message, beside role and calls


def messages_of(state: State) -> list[dict[str, Any]]:
    """The transcript's messages that are objects with a known role."""
    return list(filter(_is_message, transcript(state)))


def backwards(state: State) -> Iterator[dict[str, Any]]:
    """As `messages_of`, the last first, for who needs a few: there may be thousands."""
    return filter(_is_message, reversed(transcript(state)))


def transcript(state: State) -> list[Any]:
    """The channel as it is; empty where it is no list."""
    found = state.get("messages")
    return found if isinstance(found, list) else []


def _is_message(message: Any) -> bool:
    if not isinstance(message, dict):
        return False
    role = message.get("role")
    return isinstance(role, str) and role in _ROLES


_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})


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


def as_sent(
    messages: Sequence[dict[str, Any]],
) -> tuple[list[dict[str, Any]], int]:
    """These messages as they are sent, in their order, and how many of them were."""
    sent: list[dict[str, Any]] = []
    count = 0

    def add(message: dict[str, Any]) -> dict[str, Any]:
        """Made for each message before each call of a model: with as little as can be."""
        made = {"role": message["role"]}
        for key in _SENT:
            if (value := message.get(key)) is not None:
                made[key] = value
        sent.append(made)
        nonlocal count
        count += 1
        return made

    for place, message in enumerate(messages):
        if message["role"] == "tool":
            continue  # goes with its reply
        calls = calls_of(message)
        if not calls:
            made = add(message)
            if message["role"] == "assistant" and not message.get("content"):
                made["content"] = ""  # providers refuse a reply without either
            continue
        names = _distinct(calls)
        add(message)["tool_calls"] = [
            {
                "id": name,
                "type": "function",
                "function": {
                    "name": _name(call["function"].get("name")),
                    "arguments": _text(call["function"].get("arguments")),
                },
            }
            for name, call in zip(names, calls, strict=True)
        ]
        results = answers(calls, messages[place + 1 : next_reply(messages, place)])
        for ordinal, name in enumerate(names):
            result = results.get(ordinal)
            if result is None:
                sent.append(
                    {"role": "tool", "tool_call_id": name, "content": NO_RESULT}
                )
            else:
                made = add(result)
                made.pop("name", None)
                made["tool_call_id"] = name
                made["content"] = _result(result.get("content"))
    return sent, count


class AsSent:
    """`as_sent`, of states that follow one another: it makes only what is new of them.

    What comes before a transcript's last reply is sent the same for ever, as a message
    never changes. Where the next transcript begins with the same messages, it is kept.
    """

    def __init__(self) -> None:
        self._seen: list[Any] = []  # the transcript's beginning
        self._sent: list[dict[str, Any]] = []  # what it is sent as
        self._count = 0

    def __call__(self, transcript: Sequence[Any]) -> tuple[list[dict[str, Any]], int]:
        """As `as_sent`, of all that stands in a transcript."""
        known, end = len(self._seen), _last_reply(transcript)
        # It has to end where it did, at a reply: else what follows may answer calls in it.
        if known and not (
            known <= end
            and _is_reply(transcript[known])
            and all(map(operator.is_, self._seen, transcript))
        ):
            self._seen, self._sent, self._count, known = [], [], 0, 0
        if end > known:
            self._seen += transcript[known:end]
            sent, count = as_sent(list(filter(_is_message, transcript[known:end])))
            self._sent += sent
            self._count += count
        # The results of the last reply's calls may be on their way.
        rest, more = as_sent(list(filter(_is_message, transcript[len(self._seen) :])))
        return [*self._sent, *rest], self._count + more


def _last_reply(transcript: Sequence[Any]) -> int:
    """Its place; 0, if there is none."""
    for place in range(len(transcript) - 1, 0, -1):
        if _is_reply(transcript[place]):
            return place
    return 0


def _is_reply(message: Any) -> bool:
    return _is_message(message) and message["role"] == "assistant"


def next_reply(messages: Sequence[dict[str, Any]], after: int) -> int:
    """The place of the first reply after this place; the end, if there is none."""
    for place in range(after + 1, len(messages)):
        if messages[place]["role"] == "assistant":
            return place
    return len(messages)


def _distinct(calls: Sequence[dict[str, Any]]) -> list[str]:
    """The provider's ids; ours, where it gave one twice in this reply, or none."""
    given = [call.get("id") for call in calls]
    return [
        name
        if isinstance(name, str) and name and given.count(name) == 1
        else f"call_{ordinal}"
        for ordinal, name in enumerate(given)
    ]


def _name(value: object) -> str:
    """A tool's name as providers take it: they refuse a conversation with another, such
    as a model makes up (`functions.look`)."""
    return _NO_NAME.sub("_", _text(value))[:_NAME_CHARACTERS] or "unnamed"


def kept_apart(ref: refs.Ref) -> str:
    """What the model is told of a result that is too large to be sent."""
    begins = f" It begins: {ref['digest']}" if ref["digest"] else ""
    return (
        f"[The result has {ref['size']:,} bytes ({ref['media_type']}) and is kept apart"
        f" from this conversation, as {ref['$blob']}.{begins}]"
    )


def _result(content: object) -> str:
    if refs.is_ref(content):
        return kept_apart(content)  # type: ignore[arg-type]  # a dict
    return _text(content)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
