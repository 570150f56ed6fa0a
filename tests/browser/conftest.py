"""A real browser, on the pages as they are served.

`./dev test` names the browser in CHROMIUM; without one these tests are skipped, but not
in CI. Whatever a page prints as an error, asks of another host or is refused by the
content security policy fails the test that saw it.

`open_` is for pages that a test makes up or fills itself; `visit` for the demo, with its
seeded trips and a worker that goes on with them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.desk import PASSWORD, Desk, eventually

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
EXPECTED = (
    # Chromium says this about every answer of 400 and more, which a page may well show.
    "Failed to load resource",
    # A poll that was under way when the test went to the next page.
    "TypeError: Failed to fetch",
    # The font of every page, where a busy machine draws its first words seconds late.
    "was preloaded using link preload but not used within a few seconds",
)
DESKTOP = (1440, 900)
PHONE = (390, 844)
PATIENCE = 30_000  # milliseconds; a page that a worker is to change has this long
expect.set_options(timeout=PATIENCE)


class Open(Protocol):
    """Opens a fresh browser window: open("/inbox/", as_="alice", script=False)."""

    def __call__(
        self,
        path: str,
        *,
        as_: str = "",
        script: bool = True,
        size: tuple[int, int] = DESKTOP,
    ) -> Page: ...


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = os.environ.get("CHROMIUM")
    if not path:
        pytest.skip("CHROMIUM names no browser")
    # Playwright's loop runs in this thread; Django would refuse the database in it.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


class Windows:
    """Browser windows on one address, and what they complained about."""

    def __init__(self, browser: Browser, address: str) -> None:
        self.browser, self.address = browser, address
        self.complaints: list[str] = []
        self.contexts: list[Any] = []

    def page(self, *, script: bool, size: tuple[int, int], **more: Any) -> Page:
        context = self.browser.new_context(
            base_url=self.address,
            java_script_enabled=script,
            viewport={"width": size[0], "height": size[1]},
            **more,
        )
        context.set_default_timeout(PATIENCE)
        self.contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: self.complain(f"script: {error}"))
        page.on("console", self._said)
        page.on("request", lambda asked: self._asked(asked.url))
        return page

    def complain(self, text: str) -> None:
        self.complaints.append(text)

    def _said(self, said: Any) -> None:
        told = said.type in {"error", "warning"}
        if told and not any(known in said.text for known in EXPECTED):
            self.complain(f"{said.type}: {said.text} {said.page.url}")

    def _asked(self, url: str) -> None:
        if not url.startswith((self.address, "data:")):
            self.complain(f"asked {url}")


@contextmanager
def windows(browser: Browser, address: str) -> Iterator[Windows]:
    opened = Windows(browser, address)
    yield opened
    for context in opened.contexts:
        context.close()
    assert opened.complaints == []


def sign_in(page: Page, path: str, name: str, password: str) -> None:
    page.goto(f"/login?next={path}")
    page.fill("[name=username]", name)
    page.fill("[name=password]", password)
    page.click("button.pri")
    page.wait_for_url(f"**{path}")


@pytest.fixture
def open_(chromium, live_server) -> Iterator[Open]:
    with windows(chromium, live_server.url) as opened:

        def open_(path, *, as_="", script=True, size=DESKTOP):
            page = opened.page(script=script, size=size)
            if as_:
                sign_in(page, path, as_, as_)  # tests/conftest.py: the name again
            else:
                page.goto(path)
            return page

        yield open_


@pytest.fixture(scope="session")
def desk(chromium, tmp_path_factory) -> Iterator[Desk]:
    """The demo. Tests share it: each decides, sends and forks only what is its own."""
    with Desk(tmp_path_factory.mktemp("desk")) as desk:
        yield desk


class SignedIn:
    """Cookies by person: a real password is slow to check, on purpose."""

    def __init__(self, browser: Browser, address: str) -> None:
        self.browser, self.address = browser, address
        self.states: dict[str, Any] = {}

    def __call__(self, name: str) -> Any:
        if name not in self.states:
            context = self.browser.new_context(
                base_url=self.address, java_script_enabled=False
            )
            sign_in(context.new_page(), "/shortcuts", name, PASSWORD)
            self.states[name] = context.storage_state()
            context.close()
        return self.states[name]


@pytest.fixture(scope="session")
def signed_in(chromium, desk) -> SignedIn:
    return SignedIn(chromium, desk.address)


class Clerk:
    """Omar, by plain requests: brings about what a test wants to find."""

    def __init__(self, context: BrowserContext) -> None:
        self.request = context.request

    def start(self, message: str, until: str) -> str:
        """Start a run and wait for its thread's page to say so; the page's address."""
        form = self.request.get("/runs/new").text()
        fields = re.findall(r'name="(csrf\w+|request_key)" value="([^"]+)"', form)
        filled = {
            "agent": "trip-planner",
            "message": message,
            "visibility": "workspace",
        }
        thread = self.request.post("/runs/new", form={**dict(fields), **filled}).url
        eventually(lambda: until in self.request.get(thread).text())
        return thread


@pytest.fixture(scope="session")
def clerk(chromium, desk, signed_in) -> Iterator[Clerk]:
    context = chromium.new_context(
        base_url=desk.address, storage_state=signed_in("omar")
    )
    yield Clerk(context)
    context.close()


@pytest.fixture
def visit(chromium, desk, signed_in) -> Iterator[Open]:
    """Opens a page of the demo, signed in as one of its people."""
    with windows(chromium, desk.address) as opened:

        def visit(path, *, as_="", script=True, size=DESKTOP):
            known = {"storage_state": signed_in(as_)} if as_ else {}
            page = opened.page(script=script, size=size, **known)
            page.goto(path)
            return page

        yield visit
