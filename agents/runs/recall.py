"""What a run's references to blobs stand for, where it needs that again."""

from __future__ import annotations

from dataclasses import replace

from agents.pure.context import Request
from agents.pure.engine import Model, Reply
from checkpoints.blobs import Contents


class Recalled:
    """A model that is sent messages in full: a long text, an image, not a reference."""

    def __init__(self, model: Model, contents: Contents) -> None:
        self._model = model
        self._contents = contents

    def reply(self, request: Request) -> Reply:
        """Raises ModelFailed, and what reading a blob raises (checkpoints.errors)."""
        messages = self._contents.restore(request.messages)
        return self._model.reply(replace(request, messages=messages))
