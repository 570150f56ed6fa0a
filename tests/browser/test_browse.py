"""Looking at what an agent did: from the list of threads to any step, tab and branch."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE

pytestmark = pytest.mark.browser
SCRIPT = pytest.mark.parametrize("script", [True, False], ids=["script", "plain"])

TABS = ("Diff", "State", "Messages", "Context", "Effects", "Raw")
SHOWS = {
    "Diff": "#diff",
    "State": "#state",
    "Messages": "#messages",
    "Context": "#context",
    "Effects": "#effects",
    "Raw": "#raw",
}


@pytest.fixture
def trip(visit):
    """Opens a seeded trip by its title, from the list, and its main branch: of some
    trips other tests make forks."""

    def trip(title: str, *, as_: str = "vera", **more) -> Page:
        # By title: what other tests started may fill the first page of the list.
        page = visit(f"/threads/?q={quote(title)}", as_=as_, **more)
        page.locator("#threads a.t", has_text=title).click()
        expect(page.locator("h1")).to_contain_text(title)
        page.locator("#branch-menu summary").click()
        page.locator("#branch-menu a", has_text=re.compile(r"^\s*main\b")).click()
        expect(page).to_have_url(re.compile(r"\?branch="))
        page.wait_for_load_state()
        expect(page.locator("#steps h2")).to_have_text("main")
        return page

    return trip


def at(page: Page, step: int) -> None:
    """The page stands at this step: panel, list, scrubber and fork say the same."""
    expect(page.locator("#step-h")).to_contain_text(re.compile(rf"^\s*{step} ·"))
    expect(page.locator(f"#step-{step}")).to_have_attribute("aria-current", "step")
    expect(page.locator(".step[aria-current]")).to_have_count(1)
    expect(page.locator("#scrub")).to_have_value(str(step))


@SCRIPT
def test_the_failed_trip_says_where_and_why(trip, script):
    page = trip("Signing in Tokyo", script=script)
    at(page, 20)
    expect(page.locator("#thread-status")).to_have_text("failed at step 20")
    expect(page.locator("#step .note")).to_contain_text("lands in Tokyo on Tue 8 Dec")
    page.locator("#step-15").click()
    at(page, 15)
    expect(page.locator("#step-new")).to_contain_text("JL 57 on Mon 7 Dec")
    page.get_by_role("link", name="Previous step").click()
    at(page, 14)
    expect(page.locator("#diff")).to_contain_text("quote_fare")


@SCRIPT
def test_every_tab_shows_its_view_of_the_step(trip, script):
    page = trip("Signing in Tokyo", script=script)
    page.locator("#step-14").click()
    at(page, 14)
    for name in TABS:
        page.locator("#insp-tabs").get_by_role("link", name=name).click()
        expect(page.locator("#insp-tabs [aria-current]")).to_have_text(name)
        expect(page.locator(SHOWS[name])).to_be_visible()
        at(page, 14)
    page.reload()
    expect(page.locator("#raw")).to_contain_text('"step": 14')


def test_steps_and_tabs_by_key(trip):
    page = trip("Signing in Tokyo")
    for key, step in (
        ("k", 19),
        ("k", 18),
        ("j", 19),
        ("p", 18),
        ("p", 16),
        ("n", 18),
        ("ArrowLeft", 17),
        ("ArrowRight", 18),
        ("Home", 0),
        ("j", 1),
        ("n", 2),
        ("End", 20),
    ):
        page.keyboard.press(key)
        at(page, step)
    for number, name in enumerate(TABS, 1):
        page.keyboard.press(str(number))
        expect(page.locator("#insp-tabs [aria-current]")).to_have_text(name)
    expect(page.locator("#say")).to_contain_text("Step 20 of 20")


@SCRIPT
def test_the_list_of_steps_is_filtered(trip, script):
    page = trip("Signing in Tokyo", script=script)
    page.locator("#step-14").click()
    at(page, 14)
    page.locator("#step-filter summary").click()
    page.locator("#step-filter [name=kind]").select_option("tool")
    page.locator("#step-filter [name=label]").fill("JL 57")
    page.locator("#step-filter [name=label]").press("Enter")
    expect(page.locator("#chosen a")).to_have_count(2)
    expect(page).to_have_url(re.compile(r"/at/.*kind=tool&.*label=JL"))
    expect(page.locator("#step-filter form")).to_be_hidden()
    left = page.locator(".step").count()
    assert 0 < left < 21
    expect(page.locator("#how-many")).to_have_text(f"{left} of 21 steps")
    page.locator(".step").last.click()
    expect(page.locator(".step[aria-current]")).to_have_count(1)
    expect(page.locator(".step")).to_have_count(left)
    page.locator("#chosen a", has_text="tool").click()
    expect(page.locator("#chosen a")).to_have_count(1)
    page.locator("#step-filter summary").click()
    page.locator("#step-filter [name=label]").fill("nothing of that name")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("#no-match")).to_contain_text("nothing of that name")
    page.get_by_role("link", name="Clear filters").click()
    expect(page.locator(".step")).to_have_count(21)


def test_the_list_is_filtered_by_key_and_back_goes_back(trip):
    page = trip("Signing in Tokyo")
    page.locator("#step-14").click()
    at(page, 14)
    page.keyboard.press("s")
    expect(page.locator("#step-filter [name=kind]")).to_be_focused()
    page.keyboard.press("m")  # "model"
    page.locator("#step-filter button").press("Enter")
    expect(page.locator("#chosen")).to_contain_text("kind: model")
    expect(page.locator("#step-filter summary")).to_be_focused()
    expect(page.locator("#say")).to_contain_text("steps match")
    page.keyboard.press("k")
    expect(page.locator(".step[aria-current] .k")).to_contain_text("model")
    page.keyboard.press("Home")
    first = page.locator(".step").first
    expect(first).to_have_attribute("aria-current", "step")
    page.go_back()
    page.go_back()
    page.go_back()
    at(page, 14)
    expect(page.locator("#chosen")).to_have_count(0)


def test_an_address_leads_to_the_same_place_and_back_goes_back(desk, trip, visit):
    page = trip("Signing in Tokyo")
    page.locator("#step-14").click()
    at(page, 14)
    page.keyboard.press("2")
    expect(page.locator("#state")).to_be_visible()
    there = page.url
    assert "/at/" in there
    page.keyboard.press("j")
    at(page, 15)
    page.go_back()
    at(page, 14)
    expect(page.locator("#state")).to_be_visible()
    assert page.url == there
    page.go_back()
    expect(page.locator("#diff")).to_be_visible()
    page.go_forward()
    expect(page.locator("#state")).to_be_visible()
    page.reload()
    at(page, 14)
    expect(page.locator("#state")).to_be_visible()
    auditor = visit(there.removeprefix(desk.address), as_="ana")
    at(auditor, 14)
    expect(auditor.locator("#sealed")).to_be_visible()


def test_the_scrubber_keeps_up_and_keeps_its_focus(trip):
    page = trip("Signing in Tokyo")
    scrub = page.locator("#scrub")
    scrub.focus()
    for _ in range(6):
        page.keyboard.press("ArrowLeft")
    at(page, 14)
    expect(scrub).to_be_focused()
    expect(scrub).to_have_attribute("aria-valuetext", re.compile("Step 14 of 20"))
    page.keyboard.press("Home")
    at(page, 0)
    expect(scrub).to_be_focused()


def test_the_scrubber_ends_where_its_branch_ends(trip):
    """Though the map is as long as the longest branch, and main has 23 steps."""
    page = trip("Hearing in Dubai")
    scrub = page.locator("#scrub")
    expect(scrub).not_to_have_attribute("max", "23")
    page.locator("#step-14").click()
    at(page, 14)
    scrub.focus()
    page.keyboard.press("ArrowRight")
    expect(scrub).to_have_attribute("aria-valuetext", re.compile("Step 15 of 23"))
    at(page, 15)
    page.keyboard.press("End")
    at(page, 23)
    expect(scrub).to_have_attribute("aria-valuetext", re.compile("Step 23 of 23"))
    page.keyboard.press("ArrowLeft")
    at(page, 22)


def test_the_scrubber_is_a_form_without_script(trip):
    page = trip("Signing in Tokyo", script=False)
    page.locator("#scrub").fill("12")
    page.get_by_role("button", name="Go to step").press("Enter")
    at(page, 12)


@SCRIPT
def test_the_branch_map_leads_to_any_branch(trip, script):
    page = trip("Hearing in Dubai", script=script)
    page.get_by_role("link", name="Branch refundable").click()
    expect(page.locator("#steps h2")).to_have_text("refundable")
    at(page, 32)
    page.get_by_role("link", name="Branch main").click()
    expect(page.locator("#steps h2")).to_have_text("main")
    at(page, 23)
    page.locator("#branch-menu summary").click()
    page.locator("#branch-menu a", has_text="cheapest").click()
    expect(page.locator("#steps h2")).to_have_text("cheapest")
    at(page, 19)


def test_a_dot_of_the_map_leads_to_its_step(trip):
    page = trip("Hearing in Dubai")
    at(page, 23)
    dot = page.locator("#branch-map g a").nth(7)
    dot.locator(".hit").click()
    at(page, 7)


def test_arrows_lead_to_the_same_step_of_a_sibling(trip):
    page = trip("Hearing in Dubai")
    at(page, 23)
    page.locator("#step-14").click()
    at(page, 14)
    page.keyboard.press("ArrowDown")
    expect(page.locator("#steps h2")).not_to_have_text("main")
    at(page, 14)
    page.keyboard.press("ArrowUp")
    expect(page.locator("#steps h2")).to_have_text("main")


def test_two_steps_are_compared(trip):
    page = trip("Signing in Tokyo")
    page.locator("#step-4").click()
    at(page, 4)
    page.keyboard.press("b")
    expect(page.locator("#diff-head")).to_contain_text("Clear base")
    page.locator("#step-14").click()
    at(page, 14)
    expect(page.locator("#diff-head")).to_contain_text("Compared with step 4")
    page.keyboard.press("Shift+B")
    expect(page.locator("#diff-head")).to_contain_text("step 13")


def test_a_value_is_found_in_the_state(trip):
    page = trip("Signing in Tokyo")
    page.keyboard.press("2")
    expect(page.locator("#state")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("Marunouchi")
    page.keyboard.press("Enter")
    expect(page.locator("#inspector")).to_contain_text("found")
    expect(page.locator("#state")).to_contain_text("Marunouchi")
    expect(page.locator("#state")).not_to_contain_text("temperature")


def test_panes_are_shown_one_at_a_time_on_a_phone(trip):
    page = trip("Signing in Tokyo", size=PHONE)
    panes = page.get_by_role("navigation", name="Panes")
    expect(page.locator("#step")).to_be_visible()
    expect(page.locator("#steps")).to_be_hidden()
    panes.get_by_role("link", name="Steps").click()
    page.locator("#step-14").click()
    expect(page.locator("#step-h")).to_contain_text("14 ·")
    expect(page.locator("#step")).to_be_visible()
    panes.get_by_role("link", name="Inspector").click()
    expect(page.locator("#diff")).to_be_visible()
    expect(page.locator("#step")).to_be_hidden()


def test_threads_are_found_by_title(visit):
    page = visit("/threads/", as_="vera")
    page.keyboard.press("/")
    page.keyboard.type("Signing in Tokyo")
    page.keyboard.press("Enter")
    expect(page.locator("#threads a.t")).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("Signing in Tokyo")
