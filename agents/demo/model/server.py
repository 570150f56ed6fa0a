"""The HTTP side: routes, faults, streams.

POST /v1/chat/completions   GET /v1/models             the OpenAI API
POST /v1/embeddings
POST /ledger/<kind>         GET /ledger[/<kind>/<key>] the external ledger
POST /fares                 GET /fares                 what the airline charges
POST /_control              GET, DELETE /_requests     for tests, only with `control`
GET  /health
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from agents.demo.model import embeddings, faults, persona, streams, wire
from agents.demo.model.errors import ApiError, Dropped, context_overflow, invalid
from agents.demo.model.fares import FareBoard
from agents.demo.model.faults import Fault
from agents.demo.model.ledger import Ledger
from agents.demo.model.script import Script
from agents.demo.model.validate import check_key, check_request

BODY_LIMIT = 32 * 1024 * 1024  # bytes
Answerer = Callable[[dict[str, Any]], wire.Message]


@dataclass
class Services:
    """What a request can reach."""

    answer: Answerer = persona.answer
    ledger: Ledger = field(default_factory=Ledger)
    fares: FareBoard = field(default_factory=FareBoard)
    script: Script = field(default_factory=Script)
    control: bool = False
    log: Path | None = None
    latency: float = 0.0  # seconds before each answer, so that a demo looks alive


class ScriptedServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a hanging request must not hold up the end
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], services: Services) -> None:
        self.services = services
        self.stopping = threading.Event()
        super().__init__(address, Handler)

    @property
    def origin(self) -> str:
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"

    @property
    def base_url(self) -> str:
        return f"{self.origin}/v1"

    def server_close(self) -> None:
        self.stopping.set()
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no event; anything else is a bug to see."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "scripted-model"
    disable_nagle_algorithm = (
        True  # small answers in several writes wait 40 ms otherwise
    )
    wbufsize = 64 * 1024
    server: ScriptedServer

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: paths and counts would be harmless, but silence is simpler to prove."""

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_DELETE(self) -> None:
        self._serve("DELETE")

    def _serve(self, method: str) -> None:
        path = urlsplit(self.path).path.rstrip("/") or "/"
        try:
            try:
                self._route(method, path)
            except ApiError as error:
                self._json(error.status, error.body(), error.headers)
        except (Dropped, ConnectionError):
            self.close_connection = True

    def _route(self, method: str, path: str) -> None:
        services = self.server.services
        parts = [unquote(part) for part in path.strip("/").split("/")]
        match method, parts:
            case "GET", ["health"]:
                self._json(200, {"ok": True})
            case "GET", ["v1", "models"]:
                check_key(self.headers.get("Authorization"))
                self._json(200, {"object": "list", "data": persona.models()})
            case "GET", ["v1", "models", name]:
                check_key(self.headers.get("Authorization"))
                self._json(200, persona.model(name))
            case "POST", ["v1", "chat", "completions"]:
                self._complete()
            case "POST", ["v1", "embeddings"]:
                self._embed()
            case "POST", ["ledger", kind]:
                self._record(kind)
            case "GET", ["ledger"]:
                self._json(200, {"effects": services.ledger.effects()})
            case "GET", ["ledger", kind, key]:
                effect = services.ledger.find(kind, key)
                self._json(200 if effect else 404, {"effect": effect})
            case "POST", ["fares"]:
                services.fares.write(self._body())
                self._json(200, {})
            case "GET", ["fares"]:
                self._json(200, services.fares.read())
            case "DELETE", ["ledger"] if services.control:
                services.ledger.clear()
                self._json(200, {})
            case "POST", ["_control"] if services.control:
                services.script.load(self._body())
                self._json(200, {"pending": services.script.pending()})
            case "GET", ["_requests"] if services.control:
                self._json(200, {"requests": services.script.log()})
            case "DELETE", ["_requests"] if services.control:
                services.script.forget_log()
                self._json(200, {})
            case _:
                self._raw_body()
                raise ApiError(404, f"Invalid URL ({method} {path})")

    # Chat completions

    def _complete(self) -> None:
        services = self.server.services
        raw = self._raw_body()
        check_key(self.headers.get("Authorization"))
        body = _parse(raw)
        entry = {"at": time.time(), "body": body, "status": 200, "fault": None}
        self._log(entry)  # now: an answer may take as long as a fault says
        try:
            check_request(body)
            fault = services.script.fault(body)
            entry["fault"] = fault.kind if fault else None
            reply = self._reply(body, fault)
        except ApiError as error:
            entry["status"] = error.status
            raise
        answer = wire.completion(body, reply)
        if fault and fault.kind == "changed":
            answer |= {
                "model": f"{answer['model']}-next",
                "system_fingerprint": "fp_next",
            }
        if services.latency and not fault:
            self._wait(services.latency)
        if body.get("stream") and not (fault and fault.kind == "plain"):
            usage = (body.get("stream_options") or {}).get("include_usage", False)
            self._stream(answer, usage=usage, fault=fault)
        elif fault and fault.kind == "garbage":
            self._send(200, b'{"id": "chatcmpl-', {"Content-Type": "application/json"})
        elif fault and fault.kind == "cut":
            data = json.dumps(answer).encode()
            self._send(200, data[: len(data) // 2], claimed=len(data))
            raise Dropped
        else:
            self._json(200, answer)

    def _reply(self, body: dict[str, Any], fault: Fault | None) -> wire.Message:
        if fault:
            if fault.kind in ("hang", "slow"):
                self._wait(fault.seconds)
            if fault.kind in ("hang", "drop"):
                raise Dropped
            faults.refuse(fault, body)
        asked = wire.prompt_tokens(body)
        if asked > wire.CONTEXT_LIMIT:
            raise context_overflow(wire.CONTEXT_LIMIT, asked)
        if fault and (odd := faults.odd_reply(fault, body)):
            return odd
        services = self.server.services
        reply = services.script.reply(body) or services.answer(body)
        if fault and fault.kind == "length":
            return faults.cut_short(reply)
        return reply

    def _stream(
        self, answer: dict[str, Any], *, usage: bool, fault: Fault | None
    ) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in streams.events(answer, usage=usage, fault=fault):
            if isinstance(event, float):
                self._wait(event)
            else:
                self._chunk(event)
        self._chunk(b"")

    # Embeddings

    def _embed(self) -> None:
        services = self.server.services
        body = self._body()
        check_key(self.headers.get("Authorization"))
        if services.control:
            services.script.note_embedded(body)
        fault = services.script.embedding_fault(json.dumps(body, ensure_ascii=False))
        if fault:
            if fault.kind in ("hang", "slow"):
                self._wait(fault.seconds)
            if fault.kind in ("hang", "drop"):
                raise Dropped
            faults.refuse(fault, body)
        answer = embeddings.answer(body)
        if fault and fault.kind == "garbage":
            answer["data"][0]["embedding"] = ["no", None]
        elif fault and fault.kind == "cut":
            answer["data"].pop()
        self._json(200, answer)

    # The ledger

    def _record(self, kind: str) -> None:
        services = self.server.services
        body = self._body()
        fault = services.script.ledger_fault(kind + " " + json.dumps(body))
        if fault and fault.kind == "slow":
            self._wait(fault.seconds)
        elif fault and fault.kind == "drop":
            raise Dropped
        elif fault and fault.kind.isdigit():
            raise ApiError(int(fault.kind), "The airline's system is down.")
        key = self.headers.get("Idempotency-Key")
        status, answer = services.ledger.receive(kind, key, body)
        if fault and fault.kind == "hang":  # the effect happened; nobody is told
            self._wait(fault.seconds)
        if fault and fault.kind in ("hang", "drop_after"):
            raise Dropped
        self._json(status, answer)

    # Plumbing

    def _wait(self, seconds: float) -> None:
        if self.server.stopping.wait(seconds):
            raise Dropped

    def _log(self, entry: dict[str, Any]) -> None:
        services = self.server.services
        if services.control:
            services.script.note(entry)
        if services.log:
            with services.log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry, ensure_ascii=False) + "\n")

    def _raw_body(self) -> bytes:
        length = int(self.headers.get("Content-Length") or 0)
        if length > BODY_LIMIT:
            self.close_connection = True
            raise ApiError(413, "The request is too large.")
        return self.rfile.read(length)

    def _body(self) -> Any:
        body = _parse(self._raw_body())
        if not isinstance(body, dict):
            raise invalid("The JSON body of your request must be an object.", None)
        return body

    def _json(
        self, status: int, body: Any, headers: dict[str, str] | None = None
    ) -> None:
        data = json.dumps(body).encode()
        self._send(status, data, {"Content-Type": "application/json"} | (headers or {}))

    def _send(
        self,
        status: int,
        data: bytes,
        headers: dict[str, str] | None = None,
        claimed: int | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header(
            "Content-Length", str(len(data) if claimed is None else claimed)
        )
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


def _parse(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        raise invalid(
            "We could not parse the JSON body of your request.", None
        ) from None
