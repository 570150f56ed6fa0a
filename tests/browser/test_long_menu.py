"""A thread of more branches than its menu shows, on screens of any height."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from checkpoints.access import Reason, unscoped
from checkpoints.log.threads import fork
from checkpoints.models import Checkpoint
from tests.browser.conftest import DESKTOP, PHONE
from tests.pages import conftest as trips

make_trip, trip = trips.make_trip, trips.trip

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

FORKS = 30
NAME = "a rather long name of a branch, as people write them"


@pytest.fixture
def many(trip, alice):
    with unscoped(Reason.TEST):
        source = Checkpoint.objects.get(pk=trip.at(2))
        for n in range(FORKS):
            fork(source, name=f"{NAME} {n}", by_id=alice.user_id)
    return trip


@pytest.mark.parametrize("size", [DESKTOP, (1366, 600), PHONE], ids=["d", "low", "p"])
def test_all_of_the_menu_can_be_reached(open_, many, size):
    page = open_(many.page(), as_="alice", size=size)
    page.locator("#branch-menu summary").click()
    menu = page.locator("#branch-menu .menu")
    expect(page.locator("#all-branches")).to_be_in_viewport()
    last = page.locator("#compare-other")
    last.focus()
    expect(last).to_be_in_viewport(ratio=1)
    box = menu.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= size[0]
    assert box["y"] + box["height"] <= size[1]
    dot = menu.locator("circle").nth(3).bounding_box()
    assert dot is not None
    assert dot["width"] > 7  # a long name does not press it
    page.locator("#all-branches").click()
    page.locator("input[name=q]").fill(f"{NAME} 17")
    page.keyboard.press("Enter")
    expect(page.locator("#branch-table tbody tr")).to_have_count(1)
    page.get_by_role("link", name=f"{NAME} 17").click()
    expect(page.locator("#steps h2")).to_have_text(f"{NAME} 17")


@pytest.mark.parametrize(
    "path", ["/inbox/", "/threads/", "/audit/?action=nothing", "/audit/?via=fax"]
)
def test_a_page_that_fits_the_screen_does_not_scroll(open_, many, auditor, path):
    page = open_(path, as_="audrey" if "audit" in path else "alice")
    page.wait_for_load_state()
    scrolls = "(e => [e.scrollWidth - e.clientWidth, e.scrollHeight - e.clientHeight])"
    assert page.evaluate(f"{scrolls}(document.documentElement)") == [0, 0]
    if "audit" in path:
        expect(page.get_by_role("alert")).to_be_in_viewport(ratio=1)
        for words in ("Apply", "Clear"):
            expect(page.get_by_text(words)).to_be_in_viewport(ratio=1)
