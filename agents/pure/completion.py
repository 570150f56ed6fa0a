"""A chat completion, as servers send it, made into the message that state keeps.

Read by hand, because servers that speak the format differ in what they leave out,
and what is not understood must not be mistaken for an answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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


def read(body: Any) -> Completion:
    """Raises NotACompletion, which says what is missing."""
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
    return value if type(value) is int and value >= 0 else None
