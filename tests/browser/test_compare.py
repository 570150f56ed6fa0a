"""A fork has run: both branches beside each other say where they part, and how each ended."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from agents.demo.stories import LESSON
from tests.browser.conftest import PHONE
from tests.browser.test_fork import SCRIPT, lesson_learnt, step_14, stops

pytestmark = pytest.mark.browser
__all__ = ["step_14"]  # the fixture


def fork_and_run(page: Page, name: str, script: bool) -> None:
    page.click("text=Fork from 14")
    lesson_learnt(page)
    page.fill("#id_name", name)
    page.click("text=Fork and run")
    expect(page.locator("#steps h2")).to_have_text(name)
    stops(page, script)


@SCRIPT
def test_the_fork_beside_its_source(step_14, script):
    page = step_14(script=script)
    fork_and_run(page, f"beside-{script}", script)
    if script:
        page.wait_for_load_state()
        page.keyboard.press("c")
    else:
        page.click("#compare-link")
    outcome = page.locator("#cmp-status")
    expect(outcome).to_contain_text("failed")
    expect(outcome).to_contain_text("waiting")
    expect(page.locator("#cmp-shared")).to_have_text(
        "Steps 0\N{EN DASH}14 are the same history."
    )
    first = page.locator("#cmp-first")
    expect(first).to_contain_text("First difference: step 15")
    expect(first).to_contain_text("/params/system")
    expect(page.locator("#cmp-diff ins, #cmp-diff .add").first).to_be_visible()
    expect(page.locator("#cmp-diff")).to_contain_text(LESSON.split("\n")[0])
    row = page.locator("tr[aria-current]")
    before = row.get_attribute("id")
    if script:
        page.keyboard.press("n")
    else:
        page.click("text=Next difference")
    expect(row).not_to_have_id(before or "")
    if script:
        page.keyboard.press("p")
        expect(row).to_have_id(before or "")
        page.go_back()
        expect(row).not_to_have_id(before or "")
    else:
        page.click("text=Previous")
        expect(row).to_have_id(before or "")
    page.locator("#cmp-diff").get_by_role("link", name="Open B").click()
    expect(page.locator("#steps h2")).to_have_text(f"beside-{script}")


@SCRIPT
def test_two_threads_are_selected_and_compared(visit, script):
    page = visit("/threads/", as_="omar", script=script)
    boxes = page.locator("#threads-table input[type=checkbox]")
    expect(page.get_by_role("button", name="Compare selected")).to_be_hidden()
    boxes.nth(0).check()
    boxes.nth(1).check()
    if script:
        expect(page.locator("#sel [data-count]")).to_have_text("2 selected")
        page.locator("body").press("c")
    else:
        page.get_by_role("button", name="Compare selected").click()
    expect(page.locator("#cmp-outcome")).to_be_visible()
    expect(page.locator("#cmp-first")).to_contain_text("step")


def test_on_a_phone_nothing_is_wider_than_it(visit):
    page = visit("/threads/", as_="omar", size=PHONE)
    boxes = page.locator("#threads-table input[type=checkbox]")
    boxes.nth(0).check()
    boxes.nth(1).check()
    page.get_by_role("button", name="Compare selected").click()
    expect(page.locator("#cmp-outcome")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    page.locator(".eq a").first.click()
    both = page.get_by_role("link", name="Both states")
    if both.count():
        both.click()
        expect(page.locator("#step-diff")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
