"""Who answers: the travel desk, the writer or the clerk when their tools are offered, else
the plain assistant."""

from __future__ import annotations

from typing import Any

from agents.demo.model import chat, clerk, desk, transcript, wire, writer
from agents.demo.model.choose import MINI, PRO
from agents.demo.model.errors import no_model

MODELS = ("scripted-1", MINI, PRO)
CREATED = 1_790_000_000  # seconds; a constant, since nothing was trained


def models() -> list[dict[str, Any]]:
    return [
        {"id": name, "object": "model", "created": CREATED, "owned_by": "holdpoint"}
        for name in MODELS
    ]


def model(name: str) -> dict[str, Any]:
    """Raises ApiError for one that is not listed; it would answer all the same."""
    for known in models():
        if known["id"] == name:
            return known
    raise no_model(name)


def answer(body: dict[str, Any]) -> wire.Message:
    talk = transcript.read(body)
    if set(talk.tools) >= desk.NEEDED:
        return desk.answer(talk)
    if set(talk.tools) >= writer.NEEDED:
        return writer.answer(body)
    if set(talk.tools) >= clerk.NEEDED:
        return clerk.answer(talk)
    return chat.answer(body)
