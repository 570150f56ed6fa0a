"""A chat completion, as servers send it, made into the message that state keeps.

Whole or as a stream of chunks: those are gathered to the same body, which is read in
one place. Read by hand, because servers that speak the format differ in what they leave
out, and what is not understood must not be mistaken for an answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

MOST_TOKENS = 2**31 - 1  # of one kind, in one reply: what a column holds

_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Completion:
    """What was understood of it."""

    message: dict[str, Any]
    refusal: str
    finish_reason: str
    model: str
    fingerprint: str
    tokens_in: int | None
    tokens_out: int | None
    tokens_cached: int | None


class NotACompletion(Exception):
    """The body is JSON, but no chat completion with something in it."""


class ServerError(Exception):
    """The server sent an error where an answer was due, after it had said 200."""

    def __init__(self, said: str, code: str) -> None:
        super().__init__(said)
        self.code = code


def read(body: Any) -> Completion:
    """Raises NotACompletion, which says what is missing, and ServerError."""
    _raise_error(body)
    choices = _get(body, "choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = _get(choice, "message")
    if not isinstance(message, dict):
        raise NotACompletion("it holds no message")
    finish_reason = _text(_get(choice, "finish_reason"))
    refusal = _text(message.get("refusal"))
    if finish_reason == "content_filter" and not refusal:
        refusal = "its content filter held the answer back"
    content = _content(message.get("content"))
    calls = _calls(message.get("tool_calls"))
    if not content.strip() and not calls and not refusal:
        cut = " before the token limit cut it" if finish_reason == "length" else ""
        raise NotACompletion(f"it says nothing and calls nothing{cut}")
    usage = _get(body, "usage")
    return Completion(
        message={"role": "assistant", "content": content or None}
        | ({"tool_calls": calls} if calls else {}),
        refusal=refusal,
        finish_reason=finish_reason,
        model=_text(_get(body, "model")),
        fingerprint=_text(_get(body, "system_fingerprint")),
        tokens_in=_count(_get(usage, "prompt_tokens")),
        tokens_out=_count(_get(usage, "completion_tokens")),
        tokens_cached=_count(
            _get(_get(usage, "prompt_tokens_details"), "cached_tokens")
        ),
    )


@dataclass
class _CallPieces:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class Gathered:
    """The chunks of a streamed completion, put together as they come."""

    def __init__(self) -> None:
        self.characters = 0  # of what was said and asked for, so far
        self.finish_reason = ""
        self._content: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[_CallPieces] = []
        self._places: dict[int, _CallPieces] = {}  # by the index that chunks give
        self._model = ""
        self._fingerprint = ""
        self._usage: Any = None

    def add(self, chunk: Any) -> None:
        """Raises ServerError, and NotACompletion for what is no chunk at all."""
        if not isinstance(chunk, dict):
            raise NotACompletion("a part of it is no JSON object")
        _raise_error(chunk)
        self._model = _text(chunk.get("model")) or self._model
        self._fingerprint = _text(chunk.get("system_fingerprint")) or self._fingerprint
        self._usage = chunk.get("usage") or self._usage
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if _get(choice, "index") in (0, None):
                self._add(choice)

    def body(self) -> dict[str, Any]:
        """The completion as a server sends it that does not stream."""
        calls = [
            {
                "id": call.id,
                "function": {"name": call.name, "arguments": _joined(call.arguments)},
            }
            for call in self._calls
        ]
        message = {
            "content": _joined(self._content),
            "refusal": _joined(self._refusal),
            "tool_calls": calls,
        }
        return {
            "model": self._model,
            "system_fingerprint": self._fingerprint,
            "usage": self._usage,
            "choices": [{"message": message, "finish_reason": self.finish_reason}],
        }

    def _add(self, choice: Any) -> None:
        self.finish_reason = _text(_get(choice, "finish_reason")) or self.finish_reason
        delta = _get(choice, "delta") or _get(choice, "message")
        content = _content(_get(delta, "content"))
        refusal = _text(_get(delta, "refusal"))
        self._content.append(content)
        self._refusal.append(refusal)
        self.characters += len(content) + len(refusal)
        calls = _get(delta, "tool_calls")
        for piece in calls if isinstance(calls, list) else ():
            function = _get(piece, "function")
            if not isinstance(function, dict):
                continue
            call = self._call(piece, _text(function.get("name")))
            arguments = _text(function.get("arguments"))
            call.arguments.append(arguments)
            self.characters += len(arguments)

    def _call(self, piece: Any, name: str) -> _CallPieces:
        """The call that a piece belongs to: the one at its index, or a new one.

        Some servers leave the index out, or give every call the same: there, a new id
        beside a name begins a call.
        """
        id, index = _text(_get(piece, "id")), _get(piece, "index")
        last = self._calls[-1] if self._calls else None
        found = self._places.get(index) if type(index) is int else last
        if found is None or (name and id and found.id and id != found.id):
            found = _CallPieces()
            self._calls.append(found)
        if type(index) is int:
            self._places[index] = found
        found.id = found.id or id
        if name != found.name:  # else it is repeated with each piece
            found.name += name
        return found


def _joined(pieces: list[str]) -> str:
    """Servers that count in UTF-16 cut characters in two: the halves are one again."""
    text = "".join(pieces)
    if not _HALF.search(text):
        return text
    pairs = text.encode("utf-16-le", "surrogatepass")
    return pairs.decode("utf-16-le", "surrogatepass")


def _raise_error(body: Any) -> None:
    """Raise ServerError where the body is one."""
    error = _get(body, "error")
    if not error:
        return
    said = _text(error) or _text(_get(error, "message")) or "it did not say what"
    code = _get(error, "code") or _get(error, "type")
    raise ServerError(said, str(code) if isinstance(code, str | int) else "")


def _calls(found: Any) -> list[dict[str, Any]]:
    """The function calls. What they say is the engine's to judge."""
    return [
        {
            "id": _text(_get(call, "id")),
            "type": "function",
            "function": {
                "name": _text(_get(function, "name")),
                "arguments": _text(_get(function, "arguments")),
            },
        }
        for call in (found if isinstance(found, list) else [])
        if isinstance(function := _get(call, "function"), dict)
    ]


def _content(found: Any) -> str:
    """Text, or the text of parts."""
    if isinstance(found, list):
        return "".join(_text(_get(part, "text")) for part in found)
    return _text(found)


def _get(holder: Any, key: str) -> Any:
    return holder.get(key) if isinstance(holder, dict) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int | None:
    """None, which is "unknown", for what nobody can have counted."""
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None
