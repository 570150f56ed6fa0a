"""A rule is made with the keyboard alone, and the box that tests calls names it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser
MOST_TABS = 80


def tab_to(page: Page, selector: str) -> None:
    """Press Tab until the control has the focus."""
    for _ in range(MOST_TABS):
        if page.evaluate(
            "selector => document.activeElement.matches(selector)", selector
        ):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not lead to {selector}.")


def write(page: Page, selector: str, text: str) -> None:
    tab_to(page, selector)
    page.keyboard.press("Control+a")
    page.keyboard.type(text)


@pytest.mark.parametrize("script", [True, False], ids=["script", "plain"])
def test_a_policy_is_made_by_keyboard_and_the_test_box_names_its_rule(visit, script):
    # Of a hotel that no other test stays at: the desk is everybody's.
    hotel = f"Hotel {'Scripted' if script else 'Plain'}"
    page = visit("/runs/", as_="admin", script=script)
    if script:
        page.keyboard.press("g")
        page.keyboard.press("p")
    else:
        tab_to(page, "#nav a[href='/policies/']")
        page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Policies")
    tab_to(page, "[value=new]")
    page.keyboard.press("Enter")
    expect(page.locator("#r-name")).to_be_focused()
    page.keyboard.type(f"Rooms at {hotel}")
    # This tool alone: of a call without a hotel the rule cannot be sure, and would ask.
    write(page, "#r-tools", "hold_hotel")
    write(page, ":is([name$='-path'])", "/hotel")
    tab_to(page, "[name='c0-op']")
    page.keyboard.press("Home")  # is
    write(page, "[name='c0-value']", hotel)
    write(page, "#r-approvers", "2")
    # Enter and Ctrl+Enter send what the bar says first: the dry run.
    page.keyboard.press("Control+Enter" if script else "Enter")
    expect(page.locator("#dry-run")).to_be_visible()
    write(page, "#note", f"{hotel} asks two")
    tab_to(page, "#rule-actions [value=save]")
    page.keyboard.press("Enter")
    expect(page.locator(".toast")).to_contain_text("Saved as version")
    expect(page.locator("#policies .item", has_text=hotel)).to_contain_text("asks 2")
    page.goto("/agents/trip-planner/policies/?tool=hold_hotel")
    write(page, "[name='arg/hotel']", hotel)
    write(page, "[name='arg/guest']", "Helen Marsh")
    write(page, "[name='arg/check_in']", "2026-12-01")
    write(page, "[name='arg/nights']", "2")
    page.keyboard.press("Enter")
    result = page.locator("#test-result")
    expect(result).to_contain_text("would ask 2 people")
    expect(result).to_contain_text(f"Rooms at {hotel}")
    write(page, "[name='arg/hotel']", "Hotel Elsewhere")
    write(page, "[name='arg/guest']", "Helen Marsh")
    page.keyboard.press("Enter")
    expect(result).to_contain_text("would run")
