"""The web process, and a person at it: forms are filled in and sent, without script."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urljoin
from urllib.request import HTTPCookieProcessor, Request, build_opener

from django.core.files.uploadedfile import SimpleUploadedFile
from django.test.client import BOUNDARY, MULTIPART_CONTENT, encode_multipart

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0  # seconds until a process must answer


@contextmanager
def web(env: dict[str, str], log: Path) -> Iterator[str]:
    """The web process; gives its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "project.asgi:application"]
    options = ["--lifespan", "off", "--port", str(port)]
    with log.open("ab") as out:
        process = subprocess.Popen(
            [*command, *options], cwd=ROOT, env=env, stdout=out, stderr=out
        )
    try:
        yield _answering(f"http://127.0.0.1:{port}", process, log)
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _answering(address: str, process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            build_opener().open(f"{address}/healthz").read()
        except OSError:
            time.sleep(0.05)
        else:
            return address
    raise AssertionError(log.read_text())


class Visitor:
    """A browser without script: keeps cookies, follows redirects, sends forms."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.page = ""
        self.status = 0
        self.url = ""
        self.jar = CookieJar()
        self.kept: list[str] = []  # every cookie that it was ever given
        self._opener = build_opener(HTTPCookieProcessor(self.jar))

    def sign_in(self, name: str, password: str) -> None:
        self.open("/login")
        self.send("^$|/login", username=name, password=password)
        assert self.url == f"{self.address}/inbox/", self.page

    def open(
        self, path: str, data: dict[str, Any] | None = None, *, files: bool = False
    ) -> str:
        target = urljoin(self.url or self.address, path)
        asked = Request(target)  # noqa: S310  # of our own server
        if files:
            asked.data = encode_multipart(BOUNDARY, data or {})
            asked.add_header("Content-Type", MULTIPART_CONTENT)
        elif data is not None:
            asked.data = urlencode(data).encode()
        try:
            with self._opener.open(asked, timeout=PATIENCE) as answer:
                self.status, self.url = answer.status, answer.url
                self.page = answer.read().decode()
        except HTTPError as answer:
            self.status, self.url = answer.code, answer.url or target
            self.page = answer.read().decode()
        self.kept += [f"{cookie.name}={cookie.value}" for cookie in self.jar]
        assert self.status < 500, self.page
        return self.page

    def send(self, action: str, **values: str) -> str:
        """Fill in the form of the page that goes to `action`, and send it."""
        target, fields = self._form(action)
        return self.open(target, fields | values)

    def upload(self, action: str, file: bytes, **values: str) -> str:
        """As `send`, with a file in the field of this name."""
        target, fields = self._form(action)
        chosen = SimpleUploadedFile("chosen.json", file)
        return self.open(target, {**fields, **values, "file": chosen}, files=True)

    def _form(self, action: str) -> tuple[str, dict[str, str]]:
        forms = _Forms()
        forms.feed(self.page)
        for target, fields in forms.found:
            if re.search(action, target):
                return target, fields
        raise AssertionError(f"No form goes to {action}: {[f for f, _ in forms.found]}")


class _Forms(HTMLParser):
    """Each form's address, and what its controls hold."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self._area = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.found.append((given.get("action", ""), {}))
            return
        name = given.get("name", "")
        if not name or not self.found:
            return
        fields = self.found[-1][1]
        if tag == "textarea":
            self._area = name
            fields[name] = ""
        elif tag == "input" and given.get("type") not in ("radio", "checkbox"):
            fields[name] = given.get("value", "")
        elif tag == "input" and "checked" in given:
            fields[name] = given.get("value", "on")

    def handle_data(self, data: str) -> None:
        if self._area:
            self.found[-1][1][self._area] += data.removeprefix("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self._area = ""
