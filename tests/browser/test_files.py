"""What files an agent had at a step, and what they held: found by hand, and without script."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from agents.demo import stories
from tests.browser.conftest import DESKTOP, PHONE


def at_step_8(visit, **more) -> Page:
    """The seeded handbook's Files at the step that its fork is from."""
    title = stories.HANDBOOK.title
    page: Page = visit(f"/threads/?q={quote(title)}", as_="vera", **more)
    page.locator("#threads a.t", has_text=title).click()
    page.goto(f"{page.url.partition('?')[0]}?step={stories.FILES_AT}&tab=files")
    return page


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("script", [True, False], ids=["script", "plain"])
def test_from_the_list_of_threads_to_a_file_and_what_changed_in_it(visit, size, script):
    page = at_step_8(visit, size=size, script=script)
    files = page.locator("#files")
    expect(files).to_contain_text("3 files")
    expect(files).to_contain_text("1 changed with this step")
    files.get_by_role("link", name="arriving.md").click()
    expect(page.locator("#file-text")).to_contain_text("take the metro to Marquês")
    expect(page.locator("#file-diff .del")).to_contain_text("take the bus")
    page.get_by_role("link", name="Previous change of it, at step 4").click()
    expect(page.locator("#file-text")).to_contain_text("take the bus")
    page.get_by_role("link", name="All files").click()
    expect(files).to_contain_text("2 files")
    wide = page.evaluate("document.documentElement.scrollWidth") if script else 0
    assert wide <= size[0]


def test_a_file_is_taken_home(visit):
    page = at_step_8(visit)
    page.locator("#files").get_by_role("link", name="index.md").click()
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download").click()
    assert waiting.value.suggested_filename == "index.md"


def test_with_keys_alone(visit):
    page = at_step_8(visit)
    page.keyboard.press("1")
    expect(page.locator("#diff")).to_be_visible()
    page.keyboard.press("7")
    expect(page.locator("#files")).to_be_visible()
    page.locator("#files").get_by_role("link", name="arriving.md").press("Enter")
    expect(page.locator("#file-diff")).to_be_visible()
    page.keyboard.press("[")
    expect(page.locator("#file-text")).to_contain_text("take the bus")
    page.keyboard.press("w")
    expect(page.locator("#files")).to_be_visible()
