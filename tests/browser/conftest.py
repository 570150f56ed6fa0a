"""A real browser, on the pages as they are served.

`./dev test` names the browser in CHROMIUM; without one these tests are skipped, but not
in CI. Whatever a page prints as an error, asks of another host or is refused by the
content security policy fails the test that saw it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Protocol

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

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
# Chromium says this about every answer of 400 and more, which a page may well show.
EXPECTED = "Failed to load resource"
DESKTOP = (1440, 900)
PHONE = (390, 844)


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


@pytest.fixture
def open_(chromium, live_server) -> Iterator[Open]:
    complaints: list[str] = []
    contexts = []

    def watch(page: Page) -> None:
        page.on("pageerror", lambda error: complaints.append(f"script: {error}"))
        page.on(
            "console",
            lambda said: (
                complaints.append(f"{said.type}: {said.text}")
                if said.type in {"error", "warning"} and EXPECTED not in said.text
                else None
            ),
        )
        page.on(
            "request",
            lambda asked: (
                None
                if asked.url.startswith((live_server.url, "data:"))
                else complaints.append(f"asked {asked.url}")
            ),
        )

    def open_(path, *, as_="", script=True, size=DESKTOP):
        context = chromium.new_context(
            base_url=live_server.url,
            java_script_enabled=script,
            viewport={"width": size[0], "height": size[1]},
        )
        context.set_default_timeout(10_000)  # milliseconds
        contexts.append(context)
        page = context.new_page()
        watch(page)
        if as_:
            page.goto(f"/login?next={path}")
            page.fill("[name=username]", as_)
            page.fill("[name=password]", as_)  # tests/conftest.py: the name again
            page.click("button.pri")
            page.wait_for_url(f"**{path}")
        else:
            page.goto(path)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert complaints == []
