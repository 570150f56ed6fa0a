"""A conversation as the persona reads it: what was asked, what was tried, what came back."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agents.demo.model import resumed, wire

REJECTED = re.compile(
    r"\b(reject(s|ed)?|declined|denied|refused by|not approved)\b", re.IGNORECASE
)
# Before the result of a call whose arguments people edited (runs/effects.py).
CHANGED = "A person changed the arguments before this ran, to "
# A call that never ran, for no reason of its own: as if it had not been made.
VOID = re.compile(r"No result was recorded|the run it belongs to was cancelled")


@dataclass(frozen=True)
class Exchange:
    """One call and its result."""

    name: str
    arguments: dict[str, Any]
    text: str  # the result as it came
    data: (
        dict[str, Any] | None
    )  # the result, where it is a JSON object without an error

    @property
    def ok(self) -> bool:
        return self.data is not None

    @property
    def rejected(self) -> bool:
        """A person said no; the text has the reason."""
        return not self.ok and bool(REJECTED.search(self.text[:200]))


@dataclass(frozen=True)
class Talk:
    """One request, taken apart."""

    model: str
    system: str
    said: tuple[str, ...]  # by people, in order
    exchanges: tuple[Exchange, ...]
    marks: tuple[int, ...]  # how many exchanges came before each thing said
    last_role: str
    tools: dict[str, dict[str, Any]]  # name → its function object
    temperature: float
    mood: int  # decides between equal words; see `_mood`
    # What a text of facts tells of working memory (resumed.py).
    plan: list[dict[str, Any]]
    facts: dict[str, Any]

    def of(self, name: str) -> list[Exchange]:
        return [each for each in self.exchanges if each.name == name]

    def done(self, name: str, **arguments: Any) -> Exchange | None:
        """The newest successful call with at least these arguments."""
        for each in reversed(self.of(name)):
            given = arguments.items()
            if each.ok and all(each.arguments.get(key) == want for key, want in given):
                return each
        return None

    def failures(self, name: str) -> list[Exchange]:
        return [each for each in self.of(name) if not each.ok]

    def offers(self, name: str) -> bool:
        return name in self.tools


def read(body: Mapping[str, Any]) -> Talk:
    messages = body["messages"]
    system = [each for each in messages if each["role"] in ("system", "developer")]
    said: list[str] = []
    exchanges: list[Exchange] = []
    marks: list[int] = []
    plan: list[dict[str, Any]] = []
    facts: dict[str, Any] = {}
    calls: dict[str, wire.Message] = {}
    for message in messages:
        if message["role"] == "user":
            plan += resumed.plan(wire.text_of(message))
            facts |= resumed.remembered(wire.text_of(message))
            for told in resumed.told(wire.text_of(message)):
                if isinstance(told, str):
                    said.append(wire.squeeze(told))
                    marks.append(len(exchanges))
                else:
                    name, arguments, text = told
                    exchanges.append(Exchange(name, arguments, text, _success(text)))
        elif message["role"] == "assistant":
            calls = {call["id"]: call for call in message.get("tool_calls") or []}
        elif message["role"] == "tool":
            exchange = _exchange(calls[message["tool_call_id"]], message)
            if not VOID.search(exchange.text):
                exchanges.append(exchange)
    return Talk(
        model=body["model"],
        system=wire.squeeze(" ".join(wire.text_of(message) for message in system)),
        said=tuple(said),
        exchanges=tuple(exchanges),
        marks=tuple(marks),
        last_role=messages[-1]["role"],
        tools={
            tool["function"]["name"]: tool["function"]
            for tool in body.get("tools") or []
        },
        temperature=float(body.get("temperature") or 0),
        mood=_mood(body, system, said),
        plan=plan,
        facts=facts,
    )


def _mood(
    body: Mapping[str, Any], system: Iterable[wire.Message], said: Iterable[str]
) -> int:
    """A number from what people wrote, the model, and, above temperature 0, the sampling.

    What the persona says is decided by what it was asked; which of several ways to say
    it, by this.
    """
    parts: list[Any] = [
        body["model"],
        *(wire.squeeze(wire.text_of(message)) for message in system),
        *said,
    ]
    if body.get("temperature"):
        parts += [body["temperature"], body.get("top_p"), body.get("seed")]
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    return int(digest[:12], 16)


def _exchange(call: wire.Message, result: wire.Message) -> Exchange:
    arguments = _object(call["function"]["arguments"]) or {}
    text = wire.squeeze(wire.text_of(result))
    if text.startswith(CHANGED):  # what ran, then what came of it
        arguments, end = json.JSONDecoder().raw_decode(text, len(CHANGED))
        text = text[end:].strip()
    return Exchange(
        name=call["function"]["name"],
        arguments=arguments,
        text=text,
        data=_success(text),
    )


def _success(text: str) -> dict[str, Any] | None:
    data = _object(text)
    if data is None or "error" in data or data.get("status") in ("rejected", "failed"):
        return None
    return data


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
