"""Text from a model, on the pages that show it, in a browser: it stays text, all of it.

Any script error, blocked script and request to elsewhere fails the test (conftest.py).
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from agents.models import Approval
from tests.agents.waiting import GOOD, make_waiting
from tests.browser.hostile import CORPUS, flaws

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def harmless(page: Page, kind: str) -> None:
    assert flaws(page) == [], kind


def test_hostile_text_is_text_in_the_inbox_on_its_page_and_in_the_thread(
    open_, alice, make_thread
):
    asked: dict[str, Approval] = {}
    for kind, (text, _) in CORPUS.items():
        call = ("book", {**GOOD, "flight": text})
        branch = make_thread(owner=alice, title=text, label=text)
        asked[kind] = make_waiting(branch, alice, call)[0]
    page = open_("/inbox/", as_="alice")
    page.on("dialog", lambda dialog: pytest.fail(f"it said {dialog.message}"))
    expect(page.locator("#inbox-list a.t")).to_have_count(len(CORPUS))
    harmless(page, "inbox")
    for kind, approval in asked.items():
        shown = CORPUS[kind][1]
        page.goto(f"/inbox/{approval.pk}/")
        expect(page.locator("#apr-args")).to_contain_text(shown)
        expect(page.locator("#apr-args [hx-get], #apr-h [hx-get]")).to_have_count(0)
        harmless(page, kind)
        page.goto(f"/threads/{approval.thread_id}/")
        expect(page.locator("main")).to_contain_text(shown)
        harmless(page, kind)


def test_a_megabyte_and_five_thousand_keys_are_bounded_and_read_before_approval(
    open_, alice, make_thread
):
    keys = {f"key {n}": f"value {n}" for n in range(5_000)}
    many = ("send", {"to": "all", "fields": keys})
    long = ("book", {**GOOD, "flight": "a flight of words. " * 55_189})
    for call, last in ((many, "value 4999"), (long, "a flight of words.")):
        approval = make_waiting(make_thread(owner=alice), alice, call)[0]
        page = open_(f"/inbox/{approval.pk}/", as_="alice")
        assert len(page.content()) < 150_000
        page.keyboard.press("a")  # leads to what was not read
        expect(page.locator("details[data-read]")).to_have_attribute("open", "")
        page.click("text=Approve and run")
        expect(page.locator("#apr-errors")).to_contain_text("first")
        page.click("text=/^Show all/")
        expect(page.locator("#arg-all")).to_contain_text(last)
        page.click("#arg-read")
        page.click("text=Approve and run")
        expect(page.locator("#apr-log")).to_contain_text("Approved by Alice")
