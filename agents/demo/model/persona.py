"""Who answers: the travel desk when its tools are offered, else the plain assistant."""

from __future__ import annotations

from typing import Any

from agents.demo.model import chat, desk, transcript, wire
from agents.demo.model.choose import MINI, PRO

MODELS = ("scripted-1", MINI, PRO)
CREATED = 1_790_000_000  # seconds; a constant, since nothing was trained


def models() -> list[dict[str, Any]]:
    return [
        {"id": name, "object": "model", "created": CREATED, "owned_by": "holdpoint"}
        for name in MODELS
    ]


def answer(body: dict[str, Any]) -> wire.Message:
    talk = transcript.read(body)
    return desk.answer(talk) if set(talk.tools) >= desk.NEEDED else chat.answer(body)
