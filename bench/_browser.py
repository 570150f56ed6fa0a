"""A thread's page as somebody waits for it: served by uvicorn, shown by Chromium.

From the click until it has answered a key: all that comes between (sockets, styles,
scripts, drawing) is in it, as it is in nothing else that is measured here.
"""

from __future__ import annotations

import os
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from shutil import which
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, sync_playwright

from bench._figures import Figures
from bench._server import say
from bench._workers import LONG, until
from checkpoints.db.roles import WEB
from checkpoints.log.remembered import segments
from checkpoints.models import Branch
from project.up.checks import BROWSERS

AIMS: dict[str, tuple[str, float]] = {
    "usable_ms": ("that page in Chromium until it has answered a key, ms", 1000.0),
}
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--lang=en-US",
]


def measure(client: Client, long: Branch, *, times: int) -> Figures:
    """`client`: signed in. None without a browser, which CHROMIUM may name."""
    path = os.environ.get("CHROMIUM") or next(filter(None, map(which, BROWSERS)), None)
    if not path:
        say("there is no Chromium, so this is not measured")
        return {"usable_ms": None}
    say("in Chromium …")
    segments.forget()  # what this process opened is not what the other one has
    name = settings.SESSION_COOKIE_NAME
    with _served() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        page = f"{address}/threads/{long.thread_id}/?branch={long.pk}"
        cookie = {"name": name, "value": client.cookies[name].value, "url": address}
        taken = [_usable(browser, page, cookie, long.head_step) for _ in range(times)]
        browser.close()
    say(f"the first of them: {taken[0] * 1000:.0f} ms, the slowest {max(taken):.2f} s")
    return {"usable_ms": statistics.median(taken) * 1000}


def _usable(browser: Browser, address: str, cookie: dict[str, str], head: int) -> float:
    """Seconds from the click to the step before, in a window that has nothing cached."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.add_cookies([cookie])  # type: ignore[list-item]  # a TypedDict of its own
    page = context.new_page()
    page.goto("about:blank")
    began = time.perf_counter()
    page.goto(address, wait_until="load")
    page.keyboard.press("k")
    before = re.compile(rf"^\s*{head - 1} ·")
    page.locator("#step-h").filter(has_text=before).wait_for()
    taken = time.perf_counter() - began
    context.close()
    return taken


@contextmanager
def _served() -> Iterator[str]:
    """The address of uvicorn in front of this database, as the web role."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {**os.environ, "DATABASE_ROLE": "web", "LOG_LEVEL": "ERROR"}
    owners = urlsplit(env["DATABASE_URL"])
    host = owners.netloc.rpartition("@")[2]
    own = urlunsplit(owners._replace(netloc=f"{quote(WEB)}@{host}"))
    with suppress(psycopg.OperationalError):  # else it takes its role each time
        psycopg.connect(own).close()
        env["DATABASE_WEB_URL"] = own
    command = [sys.executable, "-m", "uvicorn", "project.asgi:application"]
    command += ["--port", str(port), "--lifespan", "off", "--log-level", "error"]
    server = subprocess.Popen(  # noqa: S603  # ourselves
        command, env=env, stdout=subprocess.DEVNULL
    )
    try:
        until(lambda: _listens(port))
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(LONG)


def _listens(port: int) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0
