"""A provider for a service elsewhere, and the service: enough of Vault's transit engine.

Not shipped. It shows that the interface fits: HTTP, a version that the service chooses,
batches, ciphertext as text, associated data that may be bound or not.
"""

from __future__ import annotations

import base64
import json
import secrets
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

from checkpoints.errors import DecryptionError, KeysUnavailable, UnknownKey
from checkpoints.keys.providers import Plain, Wrapped

TOKEN = "s.test"
KEY = "holdpoint"
PATIENCE = 30.0  # seconds


class Transit:
    """`POST /v1/transit/{encrypt,decrypt}/<key>` with `batch_input`, and a key that rotates."""

    def __init__(self, *, binds: bool = True) -> None:
        self.binds = binds
        self.versions = {1: secrets.token_bytes(32)}
        self.requests: list[str] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def rotate(self) -> None:
        self.versions[max(self.versions) + 1] = secrets.token_bytes(32)

    def trim(self, version: int) -> None:
        """Vault's min_decryption_version: older ones open nothing any more."""
        self.versions = {v: key for v, key in self.versions.items() if v >= version}

    def answer(self, path: str, item: dict[str, str]) -> dict[str, str]:
        data = item.get("associated_data", "").encode() if self.binds else b""
        if path == "encrypt":
            version, nonce = max(self.versions), secrets.token_bytes(12)
            plain = base64.b64decode(item["plaintext"])
            sealed = nonce + AESGCM(self.versions[version]).encrypt(nonce, plain, data)
            return {"ciphertext": f"vault:v{version}:{_text(sealed)}"}
        try:
            _, name, text = item["ciphertext"].split(":")
            version, sealed = int(name[1:]), base64.b64decode(text, validate=True)
        except ValueError:
            return {"error": "invalid ciphertext"}
        if version not in self.versions:
            return {"error": "ciphertext or signature version is disallowed by policy"}
        try:
            plain = AESGCM(self.versions[version]).decrypt(
                sealed[:12], sealed[12:], data
            )
        except (InvalidTag, ValueError):
            return {"error": "cipher: message authentication failed"}
        return {"plaintext": _text(plain)}

    def _handler(transit: Any) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                body = json.loads(self.rfile.read(length))
                path, _, key = self.path.removeprefix("/v1/transit/").partition("/")
                transit.requests.append(path)
                if self.headers["X-Vault-Token"] != TOKEN or key != KEY:
                    self._send(403, {"errors": ["permission denied"]})
                    return
                results = [transit.answer(path, item) for item in body["batch_input"]]
                bad = any("error" in result for result in results)
                self._send(400 if bad else 200, {"data": {"batch_results": results}})

            def do_GET(self) -> None:
                self._send(200, {"data": {"latest_version": max(transit.versions)}})

            def _send(self, status: int, body: dict[str, Any]) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None:
                """Nothing on standard error."""

        return Handler


@contextmanager
def serving(transit: Transit) -> Iterator[Transit]:
    thread = threading.Thread(target=transit.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield transit
    finally:
        transit.server.shutdown()
        transit.server.server_close()
        thread.join()


class Vault:
    """The provider: what an installation with a Vault would write."""

    name = "vault"
    batch = 100

    def __repr__(self) -> str:
        return f"Vault({KEY})"

    def current(self) -> str:
        return f"kek:vault:{KEY}:{self._ask('keys', None)['latest_version']}"

    def wrap(self, items: Sequence[Plain]) -> list[Wrapped]:
        results = self._each(
            "encrypt",
            [
                {"plaintext": _text(item.key), **_bound(item.context.encode())}
                for item in items
            ],
        )
        return [
            Wrapped(
                # The version is the service's to choose; it says which it took.
                f"kek:vault:{KEY}:{result['ciphertext'].split(':')[1][1:]}",
                result["ciphertext"].encode(),
                item.context,
            )
            for item, result in zip(items, results, strict=True)
        ]

    def unwrap(self, items: Sequence[Wrapped]) -> list[bytes]:
        sent = []
        for item in items:
            *_, key, version = item.kek.split(":")
            text = item.key.decode("ascii", "replace")
            # What the row says wrapped it has to be what the service will use.
            if key != KEY:
                raise UnknownKey(f"Key-encryption key {item.kek!r} is not {KEY!r}.")
            if not text.startswith(f"vault:v{version}:"):
                raise DecryptionError
            sent.append({"ciphertext": text, **_bound(item.context.encode())})
        results = self._each("decrypt", sent)
        for item, result in zip(items, results, strict=True):
            if "disallowed by policy" in result.get("error", ""):
                raise UnknownKey(
                    f"Key-encryption key {item.kek!r} may not be used any more: lower"
                    " min_decryption_version in Vault."
                )
            if "error" in result:
                raise DecryptionError
        return [base64.b64decode(result["plaintext"]) for result in results]

    def _each(self, what: str, items: list[dict[str, str]]) -> list[dict[str, str]]:
        results: list[dict[str, str]] = []
        for start in range(0, len(items), self.batch):
            batch = {"batch_input": items[start : start + self.batch]}
            results += self._ask(what, batch)["batch_results"]
        return results

    def _ask(self, what: str, body: Any) -> dict[str, Any]:
        request = urllib.request.Request(  # noqa: S310  # ours, in a test
            f"{_setting('VAULT_ADDR')}/v1/transit/{what}/{KEY}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"X-Vault-Token": _setting("VAULT_TOKEN")},
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310
                read = answer.read()
        except urllib.error.HTTPError as refused:
            with refused:
                read = refused.read()
            if refused.code != 400:  # it says so item by item
                raise KeysUnavailable(
                    f"Vault refuses to {what}: HTTP {refused.code}. Look at its policy"
                    " and at the token."
                ) from None
        except OSError as error:
            raise KeysUnavailable(
                f"Vault does not answer ({type(error).__name__}); try again."
            ) from None
        data: dict[str, Any] = json.loads(read)["data"]
        return data


def _setting(name: str) -> str:
    value: str = getattr(settings, name)  # an installation's own
    return value


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bound(context: bytes) -> dict[str, str]:
    return {"associated_data": _text(context)}
