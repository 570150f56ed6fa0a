"""Deciding: from the Inbox to what came of it, and to the one booking in the ledger."""

from __future__ import annotations

import re
from itertools import count

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, Clerk
from tests.browser.desk import Desk, eventually

pytestmark = pytest.mark.browser
SCRIPT = pytest.mark.parametrize("script", [True, False], ids=["script", "plain"])
numbers = count(1)


@pytest.fixture
def refund(desk: Desk, clerk: Clerk) -> str:
    """A booking whose refund an agent has asked for."""
    booking = f"PNR-{next(numbers):04}"
    desk.will_refund(booking)
    clerk.start(f"Refund {booking}, please.", until="APR-")
    return booking


def open_request(page: Page, title: str) -> None:
    unfold(page)
    page.locator("#inbox-list a.t", has_text=title).click()
    expect(page).to_have_url(re.compile(r"/inbox/.+"))  # the list may show it, too
    page.wait_for_load_state()
    expect(page.locator("#apr-h")).to_contain_text(title)


def unfold(page: Page) -> None:
    """Requests that are much alike are folded where there are many."""
    for fold in page.locator("#inbox-list .alike summary").all():
        fold.click()


def settled(page: Page, script: bool, text: str) -> None:
    """The page says what came of it: by itself, or when it is loaded again."""
    outcome = page.locator("#apr-outcome")
    if script:
        expect(outcome).to_contain_text(text)
        return
    expect(page.locator(".toast")).to_be_visible()  # the form has been answered
    page.wait_for_load_state()

    def holds() -> bool:
        page.reload()
        return text in outcome.inner_text()

    eventually(holds)


def test_the_waiting_trip_takes_two_clicks(desk, visit):
    page = visit("/inbox/", as_="mira")
    page.locator("#inbox-list a.t", has_text="Helen Marsh, $1,").click()
    page.click("text=Approve and run")
    expect(page.locator("#say")).to_contain_text("The agent goes on.")
    expect(page.locator("#apr-outcome")).to_contain_text("Done")
    expect(page.locator("#apr-outcome")).to_contain_text("ticketed")
    expect(page.locator("#apr-outcome .chip")).to_have_text("done")
    assert len(desk.effects("bookings", "Helen Marsh")) == 1
    page.click("text=Open the thread")
    expect(page.locator("#thread-status")).to_contain_text("done")


@SCRIPT
def test_what_was_approved_is_done_once(desk, visit, refund, script):
    page = visit("/inbox/", as_="mira", script=script)
    open_request(page, refund)
    page.click("text=Approve and run")
    expect(page.locator(".toast")).to_contain_text("The agent goes on.")
    settled(page, script, "Done")
    expect(page.locator("#apr-log")).to_contain_text("Approved by Mira Okafor")
    assert len(desk.effects("refunds", refund)) == 1


@SCRIPT
def test_edited_arguments_are_what_runs(desk, visit, refund, script):
    page = visit("/inbox/", as_="mira", script=script)
    open_request(page, refund)
    page.click("#apr-actions >> text=Edit")
    amount = page.get_by_label("amount")
    amount.fill("a hundred")
    page.click("text=Approve with edits and run")
    expect(page.locator("#apr-errors")).to_contain_text("What you typed is kept")
    expect(amount).to_have_value("a hundred")
    expect(page.locator(".field .err")).to_contain_text("Amount")
    assert desk.effects("refunds", refund) == []
    amount.fill("100.00")
    page.click("text=Approve with edits and run")
    settled(page, script, "Done")
    expect(page.locator("#apr-args")).to_contain_text("240.00")
    (paid,) = desk.effects("refunds", refund)
    assert paid["body"]["amount"] == "100.00"


@SCRIPT
def test_a_rejection_wants_a_reason_and_the_agent_hears_it(desk, visit, refund, script):
    page = visit("/inbox/", as_="mira", script=script)
    open_request(page, refund)
    page.click("#apr-actions >> text=Reject…")
    page.click("text=Reject and tell the agent")
    expect(page.locator("#reason-e")).to_be_visible()
    page.check("#apr-sheet >> text=Not within policy")
    page.fill("#reason", "Only the fee comes back.")
    page.click("text=Reject and tell the agent")
    settled(page, script, "It was not done")
    expect(page.locator("#apr-log")).to_contain_text("Only the fee comes back.")
    heard = [
        asked["messages"][-1]["content"]
        for asked in desk.model.requests
        if refund in str(asked["messages"])
    ]
    assert any("Only the fee comes back." in str(text) for text in heard)
    assert desk.effects("refunds", refund) == []


@SCRIPT
def test_a_question_is_answered(desk, clerk, visit, script):
    what = f"Aisle or window, seat {next(numbers):04}?"
    question = {"traveller": "Helen Marsh", "question": what, "options": []}
    desk.will(what, [("ask_traveller", question)], "The seat is noted.")
    clerk.start(what, until="APR-")
    page = visit("/inbox/", as_="mira", script=script)
    open_request(page, what)
    page.click("text=Send answer")
    expect(page.locator("#response-e")).to_be_visible()
    page.fill("#response", "Window, near the front.")
    page.click("text=Send answer")
    settled(page, script, "The agent has the answer")
    expect(page.locator("#apr-log")).to_contain_text("Window, near the front.")


def test_of_two_browsers_the_second_reads_who_decided(desk, visit, refund):
    mira = visit("/inbox/", as_="mira")
    open_request(mira, refund)
    ruth = visit("/inbox/", as_="admin")
    ruth.route("**/f/inbox/**", lambda route: route.abort())  # shows what it showed
    open_request(ruth, refund)
    mira.click("text=Approve and run")
    settled(mira, True, "Done")
    ruth.click("text=Approve and run")
    expect(ruth.locator("#apr-conflict")).to_contain_text("Mira Okafor approved")
    expect(ruth.get_by_role("button", name="Approve")).to_have_count(0)
    assert len(desk.effects("refunds", refund)) == 1


def test_of_two_browsers_without_script_the_second_reads_who_decided(
    desk, visit, refund
):
    mira, ruth = (visit("/inbox/", as_=who, script=False) for who in ("mira", "admin"))
    open_request(mira, refund)
    open_request(ruth, refund)
    mira.click("text=Approve and run")
    ruth.click("text=Approve and run")
    expect(ruth.locator(".toast")).to_contain_text("Mira Okafor approved")
    settled(ruth, False, "Done")
    assert len(desk.effects("refunds", refund)) == 1


def test_an_open_request_shows_that_someone_else_decided(visit, refund):
    ruth = visit("/inbox/", as_="admin")
    open_request(ruth, refund)
    mira = visit("/inbox/", as_="mira", script=False)
    open_request(mira, refund)
    mira.click("text=Approve and run")
    expect(ruth.locator("#apr-log")).to_contain_text("Approved by Mira Okafor")
    expect(ruth.locator("#inbox-list")).not_to_contain_text(refund)


@SCRIPT
def test_two_clicks_on_approve_are_one_decision(desk, visit, refund, script):
    page = visit("/inbox/", as_="mira", script=script)
    open_request(page, refund)
    page.dblclick("text=Approve and run")
    expect(page.locator(".toast")).to_contain_text("The agent goes on.")
    settled(page, script, "Done")
    expect(page.locator("#apr-log")).to_contain_text("Approved by Mira Okafor")
    expect(page.locator("#apr-log li", has_text="Approved by")).to_have_count(1)
    assert len(desk.effects("refunds", refund)) == 1


def test_who_may_not_approve_is_told_so(visit, refund):
    page = visit("/inbox/", as_="omar")
    open_request(page, refund)
    expect(page.locator("#apr-actions")).to_contain_text(re.compile("may not|approve"))
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)


def test_a_request_is_decided_with_keys(desk, visit, refund):
    page = visit("/inbox/", as_="mira")
    open_request(page, refund)
    page.keyboard.press("e")
    expect(page.get_by_label("booking")).to_be_focused()
    page.keyboard.press("Escape")
    with page.expect_event("load"):  # a link: its page has the keys when it has loaded
        page.click("text=Discard edits")
    page.keyboard.press("d")
    expect(page.locator("#reason")).to_be_focused()
    page.keyboard.type("Not now.")
    page.keyboard.press("Control+Enter")
    settled(page, True, "It was not done")
    assert desk.effects("refunds", refund) == []


def test_a_request_is_approved_on_a_phone(desk, visit, refund):
    page = visit("/inbox/", as_="mira", size=PHONE)
    open_request(page, refund)
    page.click("text=Approve and run")
    settled(page, True, "Done")
    assert len(desk.effects("refunds", refund)) == 1


def test_a_request_of_high_risk_is_approved_by_a_key_pressed_twice(desk, visit, refund):
    page = visit("/inbox/", as_="mira")
    open_request(page, refund)
    page.keyboard.press("a")
    expect(page.locator("#say")).to_contain_text("press a again")
    assert desk.effects("refunds", refund) == []
    page.keyboard.press("a")
    settled(page, True, "Done")
    # The keys go on from there.
    expect(page.locator("#apr-next")).to_be_focused()
    assert len(desk.effects("refunds", refund)) == 1


def test_what_an_agent_asks_is_announced_in_an_open_inbox(desk, clerk, visit, refund):
    """`refund` waits already: an empty Inbox shows what comes at once."""
    booking = f"PNR-{next(numbers):04}"
    desk.will_refund(booking)
    page = visit("/inbox/", as_="mira")
    before = page.locator("#nav-waiting").inner_text()
    clerk.start(f"Refund {booking}, please.", until="APR-")
    expect(page.locator("#inbox-new")).to_contain_text("new")
    expect(page.locator("#nav-waiting")).not_to_have_text(before)
    # Nothing comes under the hand of whoever is about to decide, until they ask for it.
    expect(page.locator("#inbox-list")).not_to_contain_text(booking)
    with page.expect_event("load"):
        page.keyboard.press(".")
    expect(page.locator("#inbox-list")).to_contain_text(booking)


def test_a_page_that_is_left_open_is_signed_out_with_its_session(visit, refund):
    page = visit("/inbox/", as_="mira")
    open_request(page, refund)
    page.context.clear_cookies()
    # Two parts of a page may find out at once; the second navigation cancels the
    # first, which `wait_for_url` would report as an error.
    expect(page).to_have_url(re.compile(r"/login\?next=/inbox/"), timeout=30_000)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
