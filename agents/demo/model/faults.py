"""What can go wrong on demand, and what a client then meets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.demo.model import wire
from agents.demo.model.errors import (
    ApiError,
    context_overflow,
    invalid,
    no_model,
    rate_limited,
)

FAULTS = frozenset(
    {
        "bad_arguments",  # a call whose arguments do not fit any sensible schema
        "changed",  # another model answers, with another fingerprint
        "cut",  # the connection ends in the middle of the answer
        "drop",  # the connection ends before the answer
        "empty",  # an answer without text and without calls
        "filter",  # finish_reason content_filter
        "garbage",  # 200 with a body that is not JSON
        "hang",  # no answer for `seconds`, then the connection ends
        "huge",  # a stream with an event of 17 MB
        "length",  # the answer is cut by the token limit
        "linger",  # a stream that is complete, and ends `seconds` later
        "malformed",  # a call whose arguments are not JSON
        "no_done",  # a stream without its last event
        "no_stream",  # 400: streams are not supported
        "no_stream_options",  # 400: the parameter is unknown
        "no_usage",  # a stream that does not say what was used
        "overflow",  # 400 context_length_exceeded
        "plain",  # one body, although a stream was asked for
        "refusal",  # the model declines
        "slow",  # the answer comes after `seconds`
        "stall",  # a stream that says nothing more for `seconds`, then is cut
        "stream_error",  # an error in the middle of a stream
        "trickle",  # a stream with `seconds` between two events
        "unknown_tool",  # a call to a tool that was not offered
    }
)  # and any status from 400 to 599, as "429"


@dataclass
class Fault:
    kind: str
    times: int | None = 1  # None: until reset
    match: str = ""  # in the last user message
    turn: int | None = None  # only with this many assistant messages before
    target: str = "model"  # or "ledger", "embeddings"
    seconds: float = 60.0
    retry_after: str = "1"  # seconds, as the header carries it

    def __post_init__(self) -> None:
        known = self.kind in FAULTS or self.kind == "drop_after"
        status = self.kind.isdigit() and 400 <= int(self.kind) <= 599
        if not known and not status:
            raise invalid(f"Unknown fault '{self.kind}'.", "faults")


def model_fault(model: str) -> Fault | None:
    """`scripted-500` and its like always fail that way: faults without a control call."""
    _, _, kind = model.partition("scripted-")
    kind = kind.replace("-", "_")
    if kind in FAULTS or (kind.isdigit() and 400 <= int(kind) <= 599):
        return Fault(kind, times=None)
    return None


def refuse(fault: Fault, body: Mapping[str, Any]) -> None:
    """Raise ApiError for the faults that are refusals; else return."""
    match fault.kind:
        case "no_stream" if body.get("stream"):
            raise invalid("Streaming is not supported by this server.", None)
        case "no_stream_options" if "stream_options" in body:
            raise invalid("Unrecognized request argument: stream_options", None)
        case "429":
            raise rate_limited(fault.retry_after)
        case "overflow":
            asked = wire.prompt_tokens(body) + wire.CONTEXT_LIMIT
            raise context_overflow(wire.CONTEXT_LIMIT, asked)
        case "404":
            raise no_model(str(body["model"]))
        case "401":
            raise ApiError(401, "Incorrect API key provided.", code="invalid_api_key")
        case "400":
            raise invalid("The request was not accepted.", None)
        case kind if kind.isdigit():
            raise ApiError(
                int(kind),
                "The server had an error while processing your request. Sorry!",
                kind="server_error",
            )


def odd_reply(fault: Fault, body: Mapping[str, Any]) -> wire.Message | None:
    """The reply of the faults that are strange replies; None for the others."""
    offered = [tool["function"]["name"] for tool in body.get("tools") or []]
    name = offered[0] if offered else "search_flights"
    match fault.kind:
        case "refusal":
            refusal = "I'm sorry, but I can't help with that."
            return {"role": "assistant", "content": None, "refusal": refusal}
        case "malformed":
            return wire.use([wire.call(name, '{"destination": "New Yo')])
        case "bad_arguments":
            return wire.use([wire.call(name, {"colour": 7})])
        case "unknown_tool":
            return wire.use([wire.call("teleport", {"to": "New York"})])
        case "empty":
            return wire.say("")
        case "filter":
            return {**wire.say(""), "finish_reason": "content_filter"}
    return None


def cut_short(reply: wire.Message) -> wire.Message:
    """As far as the token limit let it come."""
    return {**wire.say(wire.text_of(reply)[:40] or "I will"), "finish_reason": "length"}
