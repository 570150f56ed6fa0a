"""A note by keyboard, without script, on a phone, and with hostile words."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from checkpoints.access import Reason
from checkpoints.models import Remark
from tests.browser.conftest import DESKTOP, PHONE

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
SCRIPT = pytest.mark.parametrize("script", [True, False], ids=["script", "plain"])
HOSTILE = "<img src=x onerror=alert(1)> <b hx-get='/threads/' hx-trigger='load'>"


@pytest.fixture
def address(alice, make_thread) -> str:
    return f"/threads/{make_thread(owner=alice).thread.pk}/"


def kinds() -> list[str]:
    rows = Remark.objects.unscoped(Reason.TEST).order_by("created_at")
    return list(rows.values_list("kind", flat=True))


def test_a_note_by_keyboard(open_, address):
    page: Page = open_(address, as_="alice")
    page.keyboard.press("m")
    field = page.locator("#remark-text")
    expect(field).to_be_focused()
    page.keyboard.type("Check the fare class. jk")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#remarks-step")).to_contain_text("Check the fare class. jk")
    expect(page.locator("#remarks-h")).to_be_focused()
    expect(page.locator("#say")).to_have_text("Note added")
    expect(field).to_have_value("")
    expect(page.locator("#step-list")).to_contain_text("noted")
    # And a verdict on the thread, with its reason.
    page.keyboard.press("m")
    page.keyboard.type("Too dear")
    page.keyboard.press("Tab")
    expect(page.locator("#remark-about")).to_be_focused()
    page.keyboard.press("End")
    for _ in range(4):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#remarks-thread .chip.red")).to_contain_text("bad (Alice)")
    expect(page.locator("#remarks-thread")).to_contain_text("Too dear")
    assert kinds() == ["note", "bad"]


def test_what_does_not_fit_stays_where_it_was_typed(open_, address):
    page: Page = open_(address, as_="alice")
    page.keyboard.press("m")
    page.keyboard.type("w" * 41)
    page.get_by_role("button", name="Label", exact=True).click()
    field = page.locator("#remark-text")
    expect(page.locator("#remark-error")).to_contain_text("at most 40 characters")
    expect(field).to_be_focused()
    expect(field).to_have_value("w" * 41)
    assert kinds() == []


@SCRIPT
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_words_are_text_and_everything_is_in_reach(open_, address, script, size):
    page: Page = open_(address, as_="alice", script=script, size=size)
    page.locator("#remark-text").fill(HOSTILE)
    page.get_by_role("button", name="Add note").click()
    expect(page.locator("#remarks-step .pre")).to_have_text(HOSTILE)
    page.locator("#remark-text").fill("urgent, as long as a label may ever be.")
    page.locator("#remark-about").select_option("thread")
    page.get_by_role("button", name="Label", exact=True).click()
    expect(page.locator("#remarks-thread")).to_contain_text("urgent, as long")
    page.get_by_role("button", name="Star this thread").click()
    pressed = page.locator("#remarks-thread button[aria-pressed=true]")
    expect(pressed).to_be_visible()
    wide = page.evaluate("document.documentElement.scrollWidth") if script else 0
    assert wide <= size[0]
    page.get_by_role("button", name="Remove this note").click()
    expect(page.locator("#remarks-step")).to_contain_text("removed by Alice")
    assert kinds() == ["note", "label", "star"]
    page.goto("/threads/?status=starred")
    expect(page.locator("#threads-table")).to_contain_text("urgent, as long")
