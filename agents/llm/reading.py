"""What comes back over the line: a stream of events, or one body where none is sent.

A server may answer a request for a stream with a plain body; it is known by how it
begins, as not every server says it in its headers.
"""

from __future__ import annotations

import json
import re
from typing import Any

from agents.pure.completion import Gathered

_EVENTS = re.compile(rb"\s*(data|event|id|retry)?:")
_END = "[DONE]"


class Answer:
    """The bytes of one answer, understood as they come."""

    def __init__(self) -> None:
        self.is_complete = False
        self._gathered = Gathered()
        self._body = bytearray()  # what is not understood yet
        self._is_stream: bool | None = None
        self._data: list[str] = []  # of the event that is being read

    @property
    def characters(self) -> int:
        """Of what the model has said so far."""
        return self._gathered.characters

    def feed(self, data: bytes) -> None:
        """Raises ValueError and RecursionError for what is no JSON, and as `Gathered.add`."""
        if self.is_complete:
            return
        self._body += data
        if self._is_stream is None:
            start = self._body.lstrip()
            if not start or (b":" not in start and start[:1].isalpha()):
                return  # too little to tell
            self._is_stream = _EVENTS.match(start) is not None
        if self._is_stream and b"\n" in data:
            *lines, rest = self._body.split(b"\n")
            self._body = bytearray(rest)
            for line in lines:
                self._line(line.rstrip(b"\r").decode(errors="replace"))

    def body(self) -> Any:
        """The whole completion. Raises as `feed`, and Broken where the end is missing."""
        if not self._is_stream:
            return json.loads(self._body)
        if self._body:
            self.feed(b"\n")
        self._dispatch()  # servers leave out the last empty line
        if not self.is_complete and not self._gathered.finish_reason:
            raise Broken
        return self._gathered.body()

    def _line(self, line: str) -> None:
        if not line:
            self._dispatch()
            return
        name, _, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))

    def _dispatch(self) -> None:
        if not self._data or self.is_complete:
            return
        data, self._data = "\n".join(self._data), []
        if data.strip() == _END:
            self.is_complete = True
        elif data.strip():
            self._gathered.add(json.loads(data))


class Broken(Exception):
    """The stream ended before the model had."""
