"""A step is asked again from the thread's page, and the answers are counted."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser import axe
from tests.browser.desk import eventually

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("script", [True, False], ids=["script", "plain"])
def test_a_step_is_asked_again_and_the_answers_stand_beside_it(visit, script):
    page = visit("/threads/?q=Tokyo", as_="omar", script=script)
    page.locator("#threads a.t", has_text="Signing in Tokyo").click()
    expect(page.locator("h1")).to_contain_text("Signing in Tokyo")
    page.wait_for_load_state()
    page.get_by_role("link", name="Branch main").click()
    expect(page.locator("#steps h2")).to_have_text("main")
    page.locator("#step-1").click()
    expect(page.locator("#step-h")).to_contain_text("1 ·")
    page.locator("#ask-again").click()
    expect(page.locator("h1")).to_have_text("Ask step 1 again")
    # The other of these two tests asks, too.
    before = page.locator("#answers tbody tr").count()
    page.fill("#id_times", "2")
    page.select_option("#id_seeds", "new" if script else "same")
    page.get_by_role("button", name="Ask again").click()
    expect(page.locator(".toast")).to_contain_text("Asked 2 times")
    counted = page.locator("#agreement b")
    if script:
        expect(counted).to_contain_text(f"of {before + 2}", timeout=30_000)
        expect(page.locator("#answers")).not_to_contain_text("on their way")
        assert axe.wrong_in_any_look(page) == []
    else:
        eventually(
            lambda: page.reload() and page.locator("text=on their way").count() == 0
        )
        expect(counted).to_contain_text(f"of {before + 2}")
    row = page.locator("#answers tbody tr").first
    row.get_by_role("link").first.click()
    expect(page.locator("#steps h2")).to_contain_text("answer")
