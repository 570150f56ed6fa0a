"""Where the model is, and the connections to it that a process keeps."""

from __future__ import annotations

import socket
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import httpx2  # the client's own transport: its errors come through while reading
import openai
from django.conf import settings

from agents.errors import ModelFailed

_OPENED = ("connection.connect_tcp.complete", "connection.start_tls.complete")


@dataclass(frozen=True)
class Server:
    """Where the model is, and how long a step may try."""

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    attempts: int = 4
    seconds: float = 120.0

    @classmethod
    def from_settings(cls) -> Server:
        return cls(
            settings.OPENAI_BASE_URL,
            settings.OPENAI_API_KEY,
            settings.MODEL_ATTEMPTS,
            settings.MODEL_DEADLINE_SECONDS,
        )

    @property
    def name(self) -> str:
        return urlsplit(self.base_url or "https://api.openai.com").netloc


class Sockets:
    """Those of a client's pool, so that what is read from them can be ended.

    Closing a response does not wake whoever reads from it, nor does it tell the server
    before that; shutting the socket down does both.
    """

    def __init__(self) -> None:
        self._open: list[socket.socket] = []
        self._changing = threading.Lock()

    def follow(self, request: httpx2.Request) -> None:
        request.extensions["trace"] = self._trace

    def shut_down(self) -> None:
        with self._changing:
            sockets, self._open = self._open, []
        for each in sockets:
            with suppress(OSError):  # it ended by itself
                each.shutdown(socket.SHUT_RDWR)

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        if event in _OPENED:
            opened = info["return_value"].get_extra_info("socket")
            with self._changing:
                open_still = [each for each in self._open if each.fileno() >= 0]
                self._open = [*open_still, opened]


class Line:
    """A client, whose calls can be ended from outside."""

    def __init__(self, base_url: str | None, api_key: str | None) -> None:
        self._sockets = Sockets()
        hooks = {"request": [self._sockets.follow]}
        self.client = openai.OpenAI(
            # Servers of one's own often need no key; the client insists on one.
            api_key=api_key or "none",
            base_url=base_url,
            max_retries=0,
            http_client=openai.DefaultHttpxClient(event_hooks=hooks),
        )
        weakref.finalize(self, self.client.close)

    def hang_up(self) -> None:
        """Whoever reads an answer meets a connection that was cut."""
        self._sockets.shut_down()


@lru_cache(maxsize=8)
def line(base_url: str | None, api_key: str | None) -> Line:
    """One a server and process. Raises ModelFailed where there is no server."""
    if not api_key and not base_url:
        raise ModelFailed(
            "model_unreachable",
            "No model server is configured: set OPENAI_API_KEY, or OPENAI_BASE_URL for "
            "a server of your own.",
        )
    return Line(base_url, api_key)
