"""The persona among strangers: any agent whose tools are not the travel desk's.

It does what the last message asks where that names a tool that is offered, as in
`refund(cents=500)`, reports what tools returned, and otherwise answers in a sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from agents.demo.model import wire

NAMED = re.compile(r"\b([A-Za-z_][A-Za-z0-9_]*)\(([^()]*)\)")
ARGUMENT = re.compile(r"([A-Za-z_]\w*)\s*=\s*(\"[^\"]*\"|'[^']*'|[^,]+)")
QUOTE_LIMIT = 300  # characters of a tool's result that are worth repeating


def answer(body: Mapping[str, Any]) -> wire.Message:
    messages = body["messages"]
    offered = {
        tool["function"]["name"]: tool["function"] for tool in body.get("tools") or []
    }
    last = messages[-1]
    if last["role"] == "tool":
        return wire.say(_report(messages))
    asked = wire.squeeze(_last_user(messages))
    calls = [
        wire.call(name, _arguments(given, offered[name], asked))
        for name, given in NAMED.findall(asked)
        if name in offered
    ]
    if calls:
        return wire.use(calls, f"I will use {calls[0]['function']['name']}.")
    if not asked:
        return wire.say("What can I do for you?")
    tools = ", ".join(sorted(offered)) if offered else "no tools"
    opening = _opening(body)
    return wire.say(f"{opening} “{asked[:120]}”. I have {tools} to work with.")


def _opening(body: Mapping[str, Any]) -> str:
    """The prompt and the sampling parameters decide the words."""
    openings = ("You wrote", "I read", "Your message says", "I understood", "Noted")
    system = [message for message in body["messages"] if message["role"] == "system"]
    named = wire.request_hash({**body, "messages": system, "tools": None})
    return openings[int(named[:8], 16) % len(openings)]


def _last_user(messages: list[wire.Message]) -> str:
    for message in reversed(messages):
        if message["role"] == "user":
            return wire.text_of(message)
    return ""


def _report(messages: list[wire.Message]) -> str:
    results = []
    for message in reversed(messages):
        if message["role"] != "tool":
            break
        results.append(wire.squeeze(wire.text_of(message))[:QUOTE_LIMIT])
    return "Done. " + " ".join(
        f"Result {number}: {text}" if len(results) > 1 else f"The result: {text}"
        for number, text in enumerate(reversed(results), 1)
    )


def _arguments(given: str, function: Mapping[str, Any], why: str) -> dict[str, Any]:
    schema = function.get("parameters") or {}
    properties = schema.get("properties") or {}
    arguments = {
        name: _value(text.strip(), properties.get(name) or {})
        for name, text in ARGUMENT.findall(given)
    }
    if "reason" in properties and "reason" not in arguments:
        arguments["reason"] = f"The message asks for it: {why[:200]}"
    return arguments


def _value(text: str, schema: Mapping[str, Any]) -> Any:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    elif schema.get("type") != "string":
        try:
            return json.loads(text)
        except ValueError:
            pass  # a bare word is a string
    return text
