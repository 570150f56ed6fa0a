"""A wire between this process and PostgreSQL that can be cut, at a commit."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from django.db import connection

from checkpoints.pure.envelope import MAGIC

PORT = "5432"
# Of the protocol: what was executed takes effect. It may come in a piece of its own.
_SYNC = b"S\0\0\0\4"


class Wire:
    """Forwards what comes, both ways. `cut` is asked at each commit, until it cuts."""

    def __init__(self, server: str, folder: Path) -> None:
        self.cut: Callable[[], bool] = lambda: False
        self.then: Callable[[], object] = lambda: None  # once it is cut
        self.delivered = True  # whether the COMMIT that is cut still gets through
        self.cuts = 0
        self.said = b""  # in the transaction that is about to be committed
        self._server = server
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / f".s.PGSQL.{PORT}"))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                pair = _Pair(self, client, server)
                for act in (pair.ask, pair.answer):
                    threading.Thread(target=act, daemon=True).start()


class _Pair:
    def __init__(
        self, wire: Wire, client: socket.socket, server: socket.socket
    ) -> None:
        self._wire, self._client, self._server = wire, client, server
        self._begun = False
        self._said = b""
        self._muted, self._answered = threading.Event(), threading.Event()

    def ask(self) -> None:
        with suppress(OSError):
            while sent := self._client.recv(65536):
                if self._commits(sent) and self._wire.cut():
                    self._cut(sent)
                    break
                self._server.sendall(sent)
        self._server.close()

    def _commits(self, sent: bytes) -> bool:
        """At the end of a transaction, and at a step that is one by itself."""
        if b"BEGIN" in sent or not self._begun:
            self._said = b""
        self._said += sent
        self._wire.said = self._said
        ends = b"COMMIT\0" in sent
        alone = MAGIC in sent and not self._begun
        if b"BEGIN" in sent:
            self._begun = True
        if ends or b"ROLLBACK\0" in sent:
            self._begun = False
        return ends or alone

    def answer(self) -> None:
        with suppress(OSError):
            while said := self._server.recv(65536):
                if self._muted.is_set():
                    self._answered.set()
                else:
                    self._client.sendall(said)
        if not self._muted.is_set():
            self._client.close()

    def _cut(self, sent: bytes) -> None:
        wire = self._wire
        wire.cut = lambda: False
        wire.cuts += 1
        self._muted.set()
        if wire.delivered:
            self._server.sendall(sent if sent.endswith(_SYNC) else sent + _SYNC)
            assert self._answered.wait(30), "PostgreSQL did not answer the commit"
        self._server.shutdown(socket.SHUT_RDWR)
        wire.then()
        self._client.shutdown(socket.SHUT_RDWR)
        self._client.close()


@contextmanager
def wired(folder: Path) -> Iterator[Wire]:
    """This process's queries go through the wire."""
    settings = connection.settings_dict
    was = settings["HOST"], settings["PORT"]
    wire = Wire(f"{was[0]}/.s.PGSQL.{was[1] or PORT}", folder)
    connection.close()
    settings["HOST"], settings["PORT"] = str(folder), PORT
    try:
        yield wire
    finally:
        connection.close()
        settings["HOST"], settings["PORT"] = was
        wire.close()
