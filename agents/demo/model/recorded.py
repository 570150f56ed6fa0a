"""Recorded mode: answer with what a recorded assistant said at that position.

A recording is a file `{"id", "messages": […]}` in OpenAI's chat format. A request is first
looked up by all its messages; then, since a replay may run other tools than the
recording did, by what the people said and how often the assistant has spoken.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agents.demo.model import wire
from agents.demo.model.errors import ApiError


class Recordings:
    def __init__(self, conversations: Iterable[list[wire.Message]]) -> None:
        self._exact: dict[str, wire.Message] = {}
        self._spoken: dict[str, wire.Message] = {}
        for messages in conversations:
            for at, message in enumerate(messages):
                if message["role"] == "assistant":
                    self._exact.setdefault(_exact(messages[:at]), message)
                    self._spoken.setdefault(_spoken(messages[:at]), message)

    @classmethod
    def load(cls, folder: Path) -> Recordings:
        """Raises ValueError, naming the file, for one that is not a recording."""
        conversations = []
        for path in sorted(folder.glob("*.json")):
            try:
                conversations.append(json.loads(path.read_text("utf-8"))["messages"])
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{path} is not a recorded conversation") from error
        if not conversations:
            raise ValueError(f"{folder} has no recorded conversation (*.json)")
        return cls(conversations)

    def reply(self, body: Mapping[str, Any]) -> wire.Message:
        messages = body["messages"]
        found = self._exact.get(_exact(messages)) or self._spoken.get(_spoken(messages))
        if found is None:
            raise ApiError(
                404, "No recorded conversation continues here.", code="no_recording"
            )
        reply = {"role": "assistant", "content": found.get("content")}
        if found.get("tool_calls"):
            reply["tool_calls"] = found["tool_calls"]
        return reply


def _exact(messages: Iterable[wire.Message]) -> str:
    return json.dumps(
        [
            [
                message["role"],
                wire.squeeze(wire.text_of(message)),
                [
                    [made["function"]["name"], made["function"]["arguments"]]
                    for made in message.get("tool_calls") or []
                ],
            ]
            for message in messages
            if message["role"] not in ("system", "developer")
        ]
    )


def _spoken(messages: Iterable[wire.Message]) -> str:
    """What the people said, and how many replies came before, between and after."""
    line: list[str | int] = [0]
    for message in messages:
        if message["role"] == "user":
            line += [wire.squeeze(wire.text_of(message)), 0]
        elif message["role"] == "assistant":
            line[-1] = int(line[-1]) + 1
    return json.dumps(line)
