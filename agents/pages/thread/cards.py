"""Messages as cards: who said what at which step, and which calls it made.

Messages come from models, tools and imported logs: nothing about their shape is
taken for granted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.pages.chips import NO_CHIPS, Chip, Chips
from checkpoints.pure.codec import State, same

PEOPLE = {"user": "Person", "system": "System", "developer": "System"}
LONG = 1_200  # characters, and
TALL = 20  # lines: what has more of either is folded
START = 8  # lines of a folded text that are shown
INLINE = 72  # characters of JSON that fit into one line


@dataclass(frozen=True)
class CallCard:
    name: str
    arguments: str  # JSON, indented where it is JSON


@dataclass(frozen=True)
class Card:
    role: str
    who: str
    name: str  # of the tool, for a result
    step: int | None
    text: str
    code: bool  # shown in the fixed-width face
    calls: list[CallCard]
    new: bool = False
    chips: list[Chip] = field(default_factory=list)  # of what it holds as blobs

    @property
    def lines(self) -> int:
        return self.text.count("\n") + 1

    @property
    def long(self) -> bool:
        return len(self.text) > LONG or self.lines > TALL

    @property
    def start(self) -> str:
        """What is shown of a folded text."""
        return "\n".join(self.text[: LONG // 2].split("\n")[:START])


def card(
    message: Any,
    chips: Chips = NO_CHIPS,
    *,
    step: int | None = None,
    who: str = "",
    new: bool = False,
) -> Card:
    """The card of one message; `who` names the person behind a user's."""
    if not isinstance(message, dict):
        return Card("", "Message", "", step, pretty(message), True, [], new)
    role = str(message.get("role", ""))
    content = message.get("content")
    text = _content(content, chips)
    name = str(message.get("name") or "") if role == "tool" else ""
    is_code = role == "tool"
    if is_code:
        text = pretty_json(text)
    calls = message.get("tool_calls")
    return Card(
        role=role,
        who=_who(role, who),
        name=name,
        step=step,
        text=text,
        code=is_code,
        calls=[_call(call) for call in calls] if isinstance(calls, list) else [],
        new=new,
        chips=chips.within(content),
    )


def messages(state: State) -> list[Any]:
    found = state.get("messages")
    return found if isinstance(found, list) else []


def message_id(message: Any) -> str | None:
    found = message.get("id") if isinstance(message, dict) else None
    return found if isinstance(found, str) else None


def unchanged(before: Sequence[Any], after: Sequence[Any]) -> int:
    """How many messages at the start are the same in both."""
    count = 0
    for one, other in zip(before, after, strict=False):
        if not same(one, other):
            break
        count += 1
    return count


def summary(message: Any, length: int = 120, chips: Chips = NO_CHIPS) -> str:
    """One line of a message, for a diff: who, and the first words or the calls."""
    shown = card(message, chips)
    names = ", ".join(call.name for call in shown.calls)
    words = " ".join(shown.text.split())
    if len(words) > length:
        words = words[: length - 1] + "…"
    parts = [shown.name or shown.who.lower()]
    if words:
        parts.append(f"“{words}”")
    if names:
        parts.append(f"calls {names}")
    return " ".join(parts)


def pretty(value: Any) -> str:
    """JSON in one line where it fits, else indented."""
    short = json.dumps(value, ensure_ascii=False)
    if len(short) <= INLINE:
        return short
    return json.dumps(value, indent=2, ensure_ascii=False)


def pretty_json(text: str) -> str:
    """Text as it is, or indented when it is a JSON object or list."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return pretty(json.loads(text))
    except ValueError:
        return text


def _who(role: str, person: str) -> str:
    if role == "user" and person:
        return person
    if role == "assistant":
        return "Assistant"
    if role == "tool":
        return "Tool"
    return PEOPLE.get(role, role or "Message")


def _content(content: Any, chips: Chips) -> str:
    """The text of it; what is kept as a blob has a chip instead."""
    if content is None or chips.of(content):
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        said = [_part(part) for part in content if not chips.within(part)]
        return "\n".join(said)
    return pretty(content)


def _part(part: Any) -> str:
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return str(part["text"])
    if isinstance(part, dict) and isinstance(part.get("type"), str):
        return f"[{part['type']}]"
    return pretty(part)


def _call(call: Any) -> CallCard:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return CallCard("call", pretty(call))
    arguments = function.get("arguments")
    shown = pretty_json(arguments) if isinstance(arguments, str) else pretty(arguments)
    return CallCard(str(function.get("name", "")), shown)
