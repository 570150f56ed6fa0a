"""The Context tab: what a model call was sent, from the manifest kept beside its step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from agents.pages.chips import NO_CHIPS, Chips
from agents.pages.thread.attempts import Attempt, attempts
from agents.pages.thread.cards import Card, card, message_id, messages
from agents.pure.context import SUMMARY, messages_of, request_of, resumed
from checkpoints.pure import refs
from checkpoints.pure.codec import State
from checkpoints.pure.refs import TEXT

FACTS = "Holdpoint: the facts"  # who said so
EARLIER = "Holdpoint: from earlier"
PROMPT = "the prompt in params.system"
PROMPTS = {SUMMARY: "Holdpoint's own, for a summary"}
NO_STEPS: Mapping[str, int] = MappingProxyType({})
CHARACTERS_PER_TOKEN = 4  # about; the share of each part is what matters


@dataclass(frozen=True)
class Part:
    """One part of what was sent, in characters and as a share of all of it."""

    name: str
    colour: str
    tokens: int
    x: float  # percent
    width: float
    said: str

    @property
    def shown_x(self) -> str:
        return f"{self.x:.2f}%"

    @property
    def shown_width(self) -> str:
        return f"{max(self.width - 0.3, 0.3):.2f}%"


@dataclass(frozen=True)
class ContextView:
    parts: list[Part]
    tokens: int
    counted: bool  # by the provider
    policy: str
    params: list[tuple[str, Any]]
    left_out: list[str]  # parameters that the model rejected
    attempts: list[Attempt]
    finish_reason: str
    tools: list[str]
    request: list[Card]  # the messages exactly as they were sent, in order
    omitted: int  # messages of the state that were not sent
    facts: str = ""  # what stands for them, and since when; empty: nothing does


def context_view(
    manifest: Any,
    before: State,
    chips: Chips = NO_CHIPS,
    *,
    counted: int | None,
    steps: Mapping[str, int] = NO_STEPS,
) -> ContextView | None:
    """The view of a model step's `context`; None when it records no request.

    `before` is the state that the model was shown: the one before its step. `counted`
    are the tokens that the provider counted; what its own parts do not explain is
    taken for the tools' schemas. `steps` says which step a message is of, by its id.
    """
    manifest = manifest if isinstance(manifest, dict) else {}
    sent = manifest.get("request")
    if not isinstance(sent, dict):
        return None
    request = request_of(sent, before)
    facts = request.manifest.get("facts")
    listed = [name for name in sent.get("tools", ()) if isinstance(name, str)]
    count = sent.get("messages")
    if isinstance(count, list):
        count = len(count)  # their ids: older steps recorded those
    count = count if isinstance(count, int) else 0
    system = sum(_size(m) for m in request.messages[:1] if m["role"] == "system")
    told = 0 if facts is None else _size(request.messages[facts])
    earlier = request.manifest.get("earlier")
    back = 0 if earlier is None else _size(request.messages[earlier])
    every = sum(_size(m) for m in request.messages) - system - told - back
    rest = (counted or 0) * CHARACTERS_PER_TOKEN - system - told - back - every
    who = {place: name for place, name in ((facts, FACTS), (earlier, EARLIER)) if place}
    who |= {0: FACTS} if facts == 0 else {}
    parts = _parts(
        [
            ("system", system, PROMPTS.get(str(sent.get("policy")), PROMPT)),
            *([("facts", told, "the state, instead of messages")] if told else ()),
            ("messages", every, f"{count} of {len(messages(before))}"),
            *([("earlier", back, "what fits, of messages not sent")] if back else ()),
            ("tools", max(0, rest), f"{len(listed)} schemas, and the frame"),
        ]
    )
    params = sent.get("params")
    return ContextView(
        parts=parts,
        tokens=counted or sum(part.tokens for part in parts),
        counted=counted is not None,
        policy=str(sent.get("policy", "")),
        params=[
            (name, value)
            for name, value in (params if isinstance(params, dict) else {}).items()
            if value is not None
        ],
        left_out=[str(name) for name in manifest.get("left_out", ())],
        attempts=attempts(manifest),
        finish_reason=str(manifest.get("finish_reason") or ""),
        tools=listed,
        request=[
            card(message, chips, who=who.get(place, ""))
            for place, message in enumerate(request.messages)
        ],
        omitted=max(0, len(messages(before)) - count),
        facts=_facts(before, steps, request.manifest["left_out"])
        if facts is not None
        else "",
    )


def _facts(before: State, steps: Mapping[str, int], left_out: int) -> str:
    """What the facts stand for, in words."""
    stands, sent = resumed(before), messages_of(before)
    assert stands is not None  # compose() told facts
    first = stands.start(sent)
    step = steps.get(message_id(sent[first]) or "") if first < len(sent) else None
    if not left_out:
        return "Nothing is left out: the facts stand before the whole conversation."
    said = f"{left_out} message{'' if left_out == 1 else 's'}"
    since = f" before step {step}" if step is not None else ""
    return f"{said}{since} stand{'s' if left_out == 1 else ''} as facts."


def _parts(sizes: list[tuple[str, int, str]]) -> list[Part]:
    total = sum(size for _, size, _ in sizes) or 1
    found: list[Part] = []
    x = 0.0
    for n, (name, size, said) in enumerate(sizes):
        width = size / total * 100
        found.append(Part(name, f"c{n}", size // CHARACTERS_PER_TOKEN, x, width, said))
        x += width
    return found


def _size(message: Mapping[str, Any]) -> int:
    """Characters of what a model reads of a message."""
    content = message.get("content")
    kept = sum(ref["size"] for ref in refs.refs(content) if ref["media_type"] == TEXT)
    size = kept or len(str(content or ""))
    for call in message.get("tool_calls", ()):
        size += len(call["function"]["name"]) + len(call["function"]["arguments"])
    return size
