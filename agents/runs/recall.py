"""What a run's references to blobs stand for, where it needs that again."""

from __future__ import annotations

from dataclasses import replace
from types import NoneType
from typing import Any

from agents.pure.context import Request
from agents.pure.step import Model, Reply
from checkpoints.blobs import Contents


class Recalled:
    """A model that is sent messages in full: a long text, an image, not a reference."""

    def __init__(self, model: Model, contents: Contents) -> None:
        self._model = model
        self._contents = contents
        self._plain: list[dict[str, Any]] = []  # how the last request began

    def reply(self, request: Request) -> Reply:
        """Raises ModelFailed, and what reading a blob raises (checkpoints.errors)."""
        asked = request.messages
        # Most messages are texts, and a request begins as the one before it.
        known = len(self._plain)
        if asked[:known] != self._plain:
            known = 0
        while known < len(asked) and _is_plain(asked[known]):
            known += 1
        self._plain = asked[:known]
        rest = [self._contents.restore(message) for message in asked[known:]]
        return self._model.reply(replace(request, messages=[*self._plain, *rest]))


def _is_plain(message: dict[str, Any]) -> bool:
    """Whether there is no reference in it. A call's arguments are sent as texts."""
    return all(
        type(message.get(name)) in (str, NoneType)
        for name in ("content", "name", "refusal")
    )
