"""A page keeps still: nothing scrolls sideways on a phone, nothing that was opened goes."""

from __future__ import annotations

import re

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from agents.models import Approval
from checkpoints.access import Reason
from tests.agents.waiting import GOOD, make_waiting
from tests.browser.conftest import PHONE
from tests.browser.desk import eventually

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PAGES = (
    *("/inbox/", "/inbox/?show=team", "/inbox/?show=decided", "/inbox/?risk=critical"),
    *("/inbox/metrics", "/threads/", "/runs/", "/runs/new", "/agents/"),
    *("/agents/trip-planner/", "/policies/", "/audit/", "/retention/", "/channels/"),
    *("/tokens/", "/commands", "/shortcuts", "/nowhere"),
)
WIDER = """
[document.documentElement, ...document.querySelectorAll(".page, .pane, .fill")]
  .filter((part) => part.scrollWidth > part.clientWidth + 1)
  .map((part) => `${part.tagName} ${part.className} ${part.scrollWidth}`)
"""

GIVEN_UP = """
window.givenUp = 0;
const ask = window.fetch;
window.fetch = (...given) => {
  const asked = ask(...given);
  asked.catch((error) => { window.givenUp += error.name === "AbortError" });
  return asked;
};
"""


def test_no_page_scrolls_sideways_on_a_phone(visit):
    page = visit("/inbox/", as_="admin", size=PHONE)
    wide = {}
    for path in PAGES:
        page.goto(path)
        expect(page.locator("main")).to_be_visible()
        wide[path] = page.evaluate(WIDER)
    assert {path: parts for path, parts in wide.items() if parts} == {}


def test_a_request_with_words_without_end_fits_a_phone(alice, make_thread, open_):
    word = "Donaudampfschifffahrtselektrizitaeten" * 4
    call = ("book", {**GOOD, "flight": word})
    (approval,) = make_waiting(make_thread(owner=alice), alice, call)
    page = open_("/inbox/", as_="alice", size=PHONE)
    assert page.evaluate(WIDER) == []
    page.goto(f"/inbox/{approval.pk}/")
    expect(page.locator("#apr-h")).to_contain_text(word[:30])
    assert page.evaluate(WIDER) == []


def test_a_sheet_is_not_taken_away_by_what_the_page_had_asked_before(
    alice, make_thread, open_
):
    call = ("rent", {"what": "Booth 7", "price": "900.00"})
    (approval,) = make_waiting(make_thread(owner=alice), alice, call)
    # A check is under way, so the page asks every second what it found.
    waiting = Approval.objects.unscoped(Reason.TEST).filter(pk=approval.pk)
    waiting.update(guard_asked_at=timezone.now())
    page = open_("/inbox/", as_="alice")
    part = re.compile(rf"/f/inbox/{approval.pk}/(\?|$)")
    page.route(part, lambda asked: None)  # never answered
    page.add_init_script(GIVEN_UP)
    with page.expect_event("request", lambda asked: bool(part.search(asked.url))):
        page.goto(f"/inbox/{approval.pk}/")
    page.click("#apr-actions >> text=Reject")
    eventually(lambda: page.evaluate("givenUp"))
    page.fill("#reason", "Not this booth.")
    expect(page.locator("#apr-sheet")).to_be_visible()


def test_rows_that_are_selected_are_counted_and_the_list_stays_where_it_is(
    alice, make_thread, open_
):
    for n in range(3):
        call = ("book", {**GOOD, "flight": f"TP {n}"})
        make_waiting(make_thread(owner=alice), alice, call)
    page = open_("/inbox/", as_="alice")
    boxes = page.locator("#inbox-list .item input")
    before = boxes.first.bounding_box()
    boxes.nth(0).check()
    boxes.nth(2).check()
    expect(page.locator("#batch [data-count]")).to_have_text("2 selected")
    expect(page.locator("#batch [value=approve]")).to_contain_text("2")
    assert boxes.first.bounding_box() == before
