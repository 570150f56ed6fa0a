"""An answer as a stream of events, and what can go wrong in the middle of one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agents.demo.model import wire
from agents.demo.model.errors import Dropped
from agents.demo.model.faults import Fault

DONE = b"data: [DONE]\n\n"
HUGE = 17 * 1024 * 1024  # bytes; more than a client should take


def events(
    answer: Mapping[str, Any], *, usage: bool, fault: Fault | None
) -> Iterator[bytes | float]:
    """What to send, and the seconds to wait in between. Raises Dropped."""
    kind = fault.kind if fault else ""
    seconds = fault.seconds if fault else 0.0
    chunks = list(wire.chunks(answer, usage=usage and kind != "no_usage"))
    for number, chunk in enumerate(chunks):
        half = number == len(chunks) // 2
        match kind:
            case "cut" if half:
                raise Dropped
            case "stall" if half:
                yield seconds
                raise Dropped
            case "stream_error" if half:
                error = {"message": "The engine is overloaded.", "code": 503}
                yield _event({"error": error})
                return
            case "garbage":
                yield b'data: {"id": "chatcmpl-\n\n'
                continue
            case "huge":
                yield _event({"object": "chat.completion.chunk", "pad": "x" * HUGE})
            case "trickle" if number:
                yield seconds
        yield _event(chunk)
    if kind != "no_done":
        yield DONE
    if kind == "linger":
        yield seconds


def _event(body: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(body)}\n\n".encode()
