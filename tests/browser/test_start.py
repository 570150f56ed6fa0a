"""Giving an agent something to do: a new run, and a message to one that was there."""

from __future__ import annotations

from itertools import count

import pytest
from playwright.sync_api import Page, expect

from tests.browser.desk import eventually

pytestmark = pytest.mark.browser
SCRIPT = pytest.mark.parametrize("script", [True, False], ids=["script", "plain"])
numbers = count(1)


@pytest.fixture
def booking(desk) -> str:
    """A booking whose refund the agent will ask for."""
    booking = f"PNR-S{next(numbers):03}"
    desk.will_refund(booking)
    return booking


def becomes(page: Page, text: str, script: bool) -> None:
    status = page.locator("#thread-status")
    if script:
        expect(status).to_contain_text(text)
    else:
        eventually(lambda: page.reload() and text in status.inner_text())


@SCRIPT
def test_a_run_starts_with_a_message(visit, booking, script):
    page = visit("/runs/", as_="omar", script=script)
    page.click("text=New run")
    page.click("text=Start run")
    expect(page.get_by_role("alert").first).to_contain_text("Not started")
    page.fill("#message", f"Refund {booking}, please.")
    page.fill("#title", f"Refund of {booking}")
    page.dblclick("text=Start run")
    expect(page.locator("h1")).to_have_text(f"Refund of {booking}")
    becomes(page, "waiting for a person", script)
    page.goto("/threads/")
    threads = page.locator("#threads a.t", has_text=f"Refund of {booking}")
    expect(threads).to_have_count(1)
    page.goto("/runs/")
    expect(page.locator("#runs a.t", has_text=f"Refund of {booking}")).to_have_count(1)


def test_steps_appear_while_the_agent_works(visit):
    page = visit("/runs/new", as_="omar")
    page.fill(
        "#message", "Tomás Vega flies from Lisbon to Zurich on Mon 14 Dec, one night."
    )
    page.keyboard.press("Control+Enter")
    page.locator("#branch-menu summary").click()
    expect(page.locator("#step-list .step").nth(5)).to_be_visible()
    expect(page.locator("#branch-menu .menu")).to_be_visible()
    # The page follows what it shows.
    expect(page.locator("#step-list .step").last).to_have_attribute(
        "aria-current", "step"
    )


@SCRIPT
def test_a_message_goes_to_a_thread_that_is_there(desk, visit, clerk, booking, script):
    greeting = f"Hello, number {next(numbers)}."
    desk.model.always("Good morning.", match=greeting, turn=0)
    thread = clerk.start(greeting, until="Good morning.")
    message = f"Now refund {booking}, please."
    page = visit(thread.removeprefix(desk.address), as_="omar", script=script)
    page.click("#composer button")
    expect(page.locator("#say-error")).to_be_visible()
    page.fill("#say-text", message)
    page.dblclick("#composer button")
    expect(page.locator(".toast")).to_contain_text("Message sent")
    becomes(page, "done", script)
    expect(page.locator("#steps a.step", has_text=message)).to_have_count(1)


def test_what_is_typed_stays_while_the_page_polls(visit, booking):
    page = visit("/runs/new", as_="omar")
    page.fill("#message", f"Refund {booking}, please.")
    page.click("text=Start run")
    page.fill("#say-text", "And one more")
    becomes(page, "waiting for a person", True)
    expect(page.locator("#say-text")).to_have_value("And one more")
    expect(page.locator("#say-text")).to_be_focused()
    page.keyboard.press("Control+Enter")
    expect(page.locator("#composer")).to_contain_text("queued")


def test_a_run_that_waits_is_cancelled(visit, clerk, desk, booking):
    thread = clerk.start(f"Refund {booking}, please.", until="APR-")
    page = visit(thread.removeprefix(desk.address), as_="omar")
    page.click("text=Cancel run")
    expect(page.locator("#thread-status")).to_have_text("cancelled")
    page.goto("/runs/")
    row = page.locator("#runs tr", has_text=booking)
    expect(row.get_by_role("button", name="Retry")).to_be_visible()


def test_a_run_that_failed_says_why_and_is_retried(desk, visit, booking):
    desk.model.fault("400", times=1, match=booking)
    page = visit("/runs/new", as_="omar")
    page.fill("#message", f"Refund {booking}, please.")
    page.click("text=Start run")
    expect(page.locator("#thread-status")).to_contain_text("failed")
    expect(page.locator("#step .note")).to_contain_text("model")
    page.click("text=Retry")
    expect(page.locator("#thread-status")).to_have_text("waiting for a person")
