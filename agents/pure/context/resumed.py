"""From where on messages are sent, where not all are: a small channel says so.

    "_context": {"policy": "factual", "from": 31, "rested": 10800, "version": 3, …}

A step of kind "resume" sets it ("factual", "everything"), or one of kind "summary"
("window"). `from` is a place in `messages`: what stands before it is told as facts. Without the
channel, or with one that is none, everything is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.pure.context.transcript import (
    answers,
    calls_of,
    messages_of,
    next_reply,
    transcript,
)
from checkpoints.pure import ops
from checkpoints.pure.codec import State
from checkpoints.pure.ops import Op

CHANNEL = "_context"
FACTUAL, WHOLE, WINDOW = "factual", "everything", "window"
_POLICIES = (FACTUAL, WHOLE, WINDOW)
MOST_RECALLED = 20  # entries
RECENT = 15  # messages that are sent whole where there is no plan to go on from


@dataclass(frozen=True)
class Resumed:
    """What the channel says."""

    policy: str
    first: int  # a place in `messages`
    rested: int | None = None  # seconds, where that was why
    version: int | None = None  # of the agent that goes on, where that was why
    run: str = ""  # which run it was
    summed: int = 0  # a place in `messages`: `summary` covers what stands before it
    tried: int | None = None  # how many there were when a summary was tried in vain
    recall: int = 0  # entries of older messages that come back at most (`earlier.py`)

    @property
    def tells(self) -> bool:
        """Whether facts stand for what comes before."""
        return self.policy != WHOLE

    def start(self, messages: Sequence[dict[str, Any]]) -> int:
        """From which of the transcript's messages on they are sent whole."""
        return whole_from(messages, min(self.first, len(messages)))

    def op(self) -> Op:
        values = {
            "policy": self.policy,
            "from": self.first,
            "rested": self.rested,
            "version": self.version,
            "run": self.run,
            "summed": self.summed or None,
            "tried": self.tried,
            "recall": self.recall or None,
        }
        kept = {name: value for name, value in values.items() if value is not None}
        return ops.put("", CHANNEL, kept)


def resumed(state: State) -> Resumed | None:
    """How the last resume was; None where there was none."""
    told = state.get(CHANNEL)
    if not isinstance(told, dict) or told.get("policy") not in _POLICIES:
        return None
    if (_number(told, "from") or 0) > len(transcript(state)):
        return None  # of a longer conversation: it says nothing of this one
    return Resumed(
        told["policy"],
        max(0, _number(told, "from") or 0),
        _number(told, "rested"),
        _number(told, "version"),
        str(told.get("run", "")),
        max(0, _number(told, "summed") or 0),
        _number(told, "tried"),
        min(max(0, _number(told, "recall") or 0), MOST_RECALLED),
    )


def whole_again(before: State, after: State) -> State:
    """The state after an edit, without the channel where the messages that it is about are
    not the same ones any more: a place among them would be another."""
    stands = resumed(before)
    if stands is None or CHANNEL not in after:
        return after
    upto = max(stands.first, stands.summed)
    if _ids(before, upto) == _ids(after, upto):
        return after
    return {name: value for name, value in after.items() if name != CHANNEL}


def _ids(state: State, upto: int) -> list[Any]:
    return [
        message.get("id") if isinstance(message, dict) else None
        for message in transcript(state)[:upto]
    ]


def has_plan(state: State) -> bool:
    """Whether there is a plan to go on from."""
    plan = state.get("plan")
    return isinstance(plan, list) and bool(plan)


def facts_until(state: State) -> int:
    """Where the facts of this state end: the place that a resume gives to `from`.

    With a plan, the last reply and what came of it are left to be sent; else the last
    messages.
    """
    messages = messages_of(state)
    wanted = len(messages) - RECENT
    if has_plan(state):
        replies = (n for n in reversed(range(len(messages))) if _is_reply(messages[n]))
        wanted = next(replies, 0)
    return whole_from(messages, max(0, wanted))


def whole_from(messages: Sequence[dict[str, Any]], wanted: int) -> int:
    """The place at or before `wanted` from which no call is without its results.

    Nor are calls that have none yet left behind: their reply is sent, too.
    """
    replies = (n for n in reversed(range(wanted)) if _is_reply(messages[n]))
    reply = next(replies, None)
    if reply is None:
        return wanted
    upto = next_reply(messages, wanted - 1)
    results = any(messages[n]["role"] == "tool" for n in range(wanted, upto))
    is_last = upto == len(messages)
    if results or (is_last and not _is_answered(messages, reply)):
        return reply
    return wanted


def _is_reply(message: dict[str, Any]) -> bool:
    return bool(message["role"] == "assistant")


def _is_answered(messages: Sequence[dict[str, Any]], reply: int) -> bool:
    """Whether each call of this reply has a result."""
    calls = calls_of(messages[reply])
    return len(answers(calls, messages[reply + 1 :])) == len(calls)


def _number(told: Mapping[str, Any], name: str) -> int | None:
    value = told.get(name)
    return value if type(value) is int else None
