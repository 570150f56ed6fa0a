"""A web server and a mail server that take what is delivered, as others would."""

from __future__ import annotations

import base64
import email
import email.policy
import hashlib
import hmac
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller


@dataclass(frozen=True)
class Came:
    """One request that a webhook made."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def said(self) -> Any:
        return json.loads(self.body)

    def is_signed_with(self, secret: str) -> bool:
        """As Standard Webhooks says it; not with the code that signs."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        stamp = self.headers["webhook-timestamp"]
        signed = b".".join([self.id.encode(), stamp.encode(), self.body])
        mac = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
        return f"v1,{mac}" in self.headers["webhook-signature"].split()


@dataclass
class Hooks:
    """What came, and what is answered: `answers` first, then 204."""

    address: str = ""
    came: list[Came] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)


@contextmanager
def hooks() -> Iterator[Hooks]:
    found = Hooks()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            found.came.append(Came(self.path, headers, body))
            status = found.answers.pop(0) if found.answers else 204
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", f"{found.address}/elsewhere")
            self.end_headers()

        do_GET = do_POST  # noqa: N815  # http.server's names

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def raw(answer: bytes, *, hold: bool = False) -> Iterator[str]:
    """A server that sends these bytes to whoever comes, then closes or says nothing more."""
    over = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.1)

    def serve() -> None:
        while not over.is_set():
            try:
                peer, _ = listener.accept()
            except TimeoutError:
                continue
            with peer:
                peer.sendall(answer)
                if hold:
                    over.wait()
                else:
                    peer.recv(65536)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        over.set()
        thread.join()
        listener.close()


@dataclass
class Post:
    """Mail that came, and what the server says to the next ones: `answers` first."""

    port: int = 0
    came: list[EmailMessage] = field(default_factory=list)
    to: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)


@contextmanager
def post_office() -> Iterator[Post]:
    found = Post()

    class Handler:
        async def handle_RCPT(  # noqa: N802  # aiosmtpd's name
            self, server: Any, session: Any, envelope: Any, address: str, options: Any
        ) -> str:
            if found.answers:
                return found.answers.pop(0)
            envelope.rcpt_tos.append(address)
            return "250 OK"

        async def handle_DATA(  # noqa: N802
            self, server: Any, session: Any, envelope: Any
        ) -> str:
            parsed = email.message_from_bytes(
                envelope.content, policy=email.policy.default
            )
            assert isinstance(parsed, EmailMessage)
            found.came.append(parsed)
            found.to.extend(envelope.rcpt_tos)
            return "250 OK"

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found.port = free.getsockname()[1]
    controller = Controller(Handler(), hostname="127.0.0.1", port=found.port)
    controller.start()
    try:
        yield found
    finally:
        controller.stop()
