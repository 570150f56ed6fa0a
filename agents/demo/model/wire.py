"""Replies on the wire: completions, stream chunks, usage, ids.

A reply is an assistant message as a dict. Every id is derived from the request, so that
the same request gets the same bytes (but for `created`).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

Message = dict[str, Any]

CONTEXT_LIMIT = 128_000  # tokens
CHARACTERS_PER_TOKEN = 4  # an estimate that is the same everywhere beats an exact one
REVISION = "1"  # of the persona; a new one is a new system fingerprint


def say(text: str) -> Message:
    return {"role": "assistant", "content": text}


def call(name: str, arguments: Mapping[str, Any] | str, id: str = "") -> Message:
    """One tool call; `arguments` as a string is sent as it is, valid or not."""
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return {
        "id": id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def use(calls: list[Message], text: str | None = None) -> Message:
    return {"role": "assistant", "content": text, "tool_calls": calls}


def text_of(message: Mapping[str, Any]) -> str:
    """The words of a message, whether a string or a list of parts."""
    content = message.get("content")
    if isinstance(content, list):
        return " ".join(str(part.get("text") or "") for part in content)
    return content if isinstance(content, str) else ""


def squeeze(text: str) -> str:
    """White space carries no meaning for the persona."""
    return " ".join(text.split())


def request_hash(body: Mapping[str, Any]) -> str:
    """Names a request by what may change its reply; white space may not."""
    settings = {
        name: body.get(name) for name in ("model", "temperature", "top_p", "seed")
    }
    if not settings["temperature"]:
        settings["seed"] = settings["top_p"] = None
    messages = [
        {**message, "content": squeeze(text_of(message))}
        for message in body["messages"]
    ]
    tools = [tool["function"]["name"] for tool in body.get("tools") or []]
    canonical = json.dumps([settings, messages, tools], sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def answering(model: str) -> str:
    """Whatever is asked for, a scripted model answers, and says so."""
    return model if model.startswith("scripted") else "scripted-1"


def fingerprint(model: str) -> str:
    digest = hashlib.sha256(f"{model}/{REVISION}".encode()).hexdigest()
    return f"fp_{digest[:10]}"


def tokens(value: Any) -> int:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def prompt_tokens(body: Mapping[str, Any]) -> int:
    return tokens(body["messages"]) + tokens(body.get("tools") or "")


def finish_reason(message: Mapping[str, Any]) -> str:
    return "tool_calls" if message.get("tool_calls") else "stop"


def completion(body: Mapping[str, Any], reply: Message) -> dict[str, Any]:
    """The answer to `body`; `reply` may carry a `finish_reason` of its own."""
    name = request_hash(body)
    message = {"role": "assistant", "content": None, "refusal": None, **reply}
    reason = message.pop("finish_reason", None) or finish_reason(message)
    if not message.get("tool_calls"):
        message.pop("tool_calls", None)
    else:
        message["tool_calls"] = [
            {**made, "id": made["id"] or f"call_{name[:16]}{number}"}
            for number, made in enumerate(message["tool_calls"])
        ]
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    if limit and message["content"] and tokens(message["content"]) > limit:
        message["content"] = message["content"][: limit * CHARACTERS_PER_TOKEN]
        reason = "length"
    spent = tokens(message["content"] or "") + tokens(message.get("tool_calls") or "")
    asked = prompt_tokens(body)
    return {
        "id": f"chatcmpl-{name[:24]}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": answering(body["model"]),
        "system_fingerprint": fingerprint(body["model"]),
        "service_tier": "default",
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": reason,
            }
        ],
        "usage": {
            "prompt_tokens": asked,
            "completion_tokens": spent,
            "total_tokens": asked + spent,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
        },
    }


def chunks(answer: Mapping[str, Any], *, usage: bool) -> Iterator[dict[str, Any]]:
    """The same completion as a stream: role, text by the word, calls in pieces, end."""
    choice = answer["choices"][0]
    message = choice["message"]
    yield _chunk(answer, {"role": "assistant", "content": ""})
    for kind in ("content", "refusal"):
        for piece in _pieces(message.get(kind) or ""):
            yield _chunk(answer, {kind: piece})
    for index, made in enumerate(message.get("tool_calls") or []):
        head = {**made, "index": index, "function": {**made["function"]}}
        head["function"]["arguments"] = ""
        yield _chunk(answer, {"tool_calls": [head]})
        for piece in _pieces(made["function"]["arguments"]):
            part = {"index": index, "function": {"arguments": piece}}
            yield _chunk(answer, {"tool_calls": [part]})
    yield _chunk(answer, {}, choice["finish_reason"])
    if usage:
        yield {**_chunk(answer, {}), "choices": [], "usage": answer["usage"]}


def _chunk(
    answer: Mapping[str, Any], delta: dict[str, Any], reason: str | None = None
) -> dict[str, Any]:
    kept = ("id", "created", "model", "system_fingerprint", "service_tier")
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    return {
        **{name: answer[name] for name in kept},
        "object": "chat.completion.chunk",
        "choices": [choice],
    }


def _pieces(text: str, size: int = 12) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]
