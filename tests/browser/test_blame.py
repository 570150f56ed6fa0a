"""From a value that is wrong to the step that made it so, and what can be tried there."""

from __future__ import annotations

import re
from contextlib import suppress
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from agents.demo.stories import LESSON, WRONG_TURN
from tests.browser.conftest import PHONE
from tests.browser.desk import eventually
from tests.browser.test_browse import at

pytestmark = pytest.mark.browser
SCRIPT = pytest.mark.parametrize("script", [True, False], ids=["script", "plain"])
HOLD = "/vars/hold"
MOST_ASKED = 5  # requests of one trip


@pytest.fixture
def failed(visit):
    """Opens the trip that failed at step 20; other tests make forks of it."""

    def failed(**more) -> Page:
        page = visit("/threads/?q=Tokyo", as_=more.pop("as_", "omar"), **more)
        page.locator("#threads a.t", has_text="Signing in Tokyo").click()
        expect(page.locator("h1")).to_contain_text("Signing in Tokyo")
        page.wait_for_load_state()
        main = page.get_by_role("link", name="Branch main").get_attribute("href")
        page.goto(main)
        page.wait_for_load_state()
        expect(page.locator("#steps h2")).to_have_text("main")
        at(page, 20)
        return page

    return failed


def focus(page: Page, name: str) -> None:
    """Tab until the link of this name has the focus."""
    wanted = page.get_by_role("link", name=re.compile(name)).first
    expect(wanted).to_be_visible()
    for _ in range(400):
        if wanted.evaluate("link => link === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab never came to {name}")


def test_the_lesson_by_keyboard_alone(failed):
    page = failed(as_="mira")  # who may approve, too
    page.add_init_script(
        "addEventListener('mousedown', () => { window.mouse = 1 }, true)"
    )
    page.evaluate("addEventListener('mousedown', () => { window.mouse = 1 }, true)")
    # What the trip held when it failed, and which step made it so.
    page.keyboard.press("w")
    expect(page.locator("#watch-path")).to_be_focused()
    page.keyboard.type(HOLD)
    with page.expect_navigation():
        page.keyboard.press("Enter")
    at(page, 20)
    expect(page.locator("#watch")).to_contain_text("set at step 16")
    focus(page, f"asked for at step {WRONG_TURN}")
    page.keyboard.press("Enter")
    at(page, WRONG_TURN)
    expect(page.locator("#step-new")).to_contain_text("JL 57 on Mon 7 Dec")
    expect(page.locator("#watch")).to_contain_text("Nothing is there")
    # The step before it gets another prompt, and a run of its own.
    page.keyboard.press("k")
    at(page, WRONG_TURN - 1)
    with page.expect_navigation():
        page.keyboard.press("f")
    for _ in range(200):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "id_system":
            break
    page.keyboard.press("Control+End")
    page.keyboard.type(f"\n{LESSON}")
    expect(page.locator("#diff-system")).to_contain_text(LESSON)
    with page.expect_navigation():
        page.keyboard.press("Control+Enter")
    fork = page.locator("#steps h2").text_content() or ""
    # What it asks for is approved, and the new lane comes to its end.
    expect(page.locator("#thread-status")).to_have_text("waiting for a person")
    asked: set[str] = set()
    while len(asked) < MOST_ASKED and (number := waits_for(page, asked)):
        asked.add(number)
        focus(page, f"^{number}$")
        with page.expect_navigation():
            page.keyboard.press("Enter")
        approve(page)
        focus(page, "^thread .* step")
        with page.expect_navigation():
            page.keyboard.press("Enter")
        page.keyboard.press("End")
        expect(page.locator("#steps h2")).to_have_text(fork)
    expect(page.locator("#thread-status")).to_have_text("done")
    expect(page.locator("#branch-map")).to_contain_text(fork)
    # Both beside each other: where they part, and how each ended.
    with page.expect_navigation():
        page.keyboard.press("c")
    outcome = page.locator("#cmp-status")
    expect(outcome).to_contain_text("failed")
    expect(outcome).to_contain_text("done")
    expect(page.locator("#cmp-first")).to_contain_text("First difference: step 15")
    assert page.evaluate("window.mouse") is None


def waits_for(page: Page, known: set[str]) -> str:
    """The number of the next request at the tip; "" once the run is over."""
    status = page.locator("#thread-status")
    asks = page.locator("#steps .gap a", has_text="APR-").last

    def is_next() -> bool:
        if status.inner_text() == "done":
            return True
        return asks.count() > 0 and asks.inner_text() not in known

    eventually(is_next)
    return "" if status.inner_text() == "done" else asks.inner_text()


def approve(page: Page) -> None:
    """As often as its risk, and what has to be seen first, ask for. A list that is drawn
    anew meanwhile has the first press forgotten, so it may be once more."""
    decided = page.locator("#apr-grace, #apr-outcome").first
    for _ in range(10):
        page.keyboard.press("a")
        with suppress(PlaywrightTimeout):
            decided.wait_for(timeout=3_000)
            return
    shown = page.locator("main").inner_text()
    focused = page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
    raise AssertionError(f"Not approved. The focus is on {focused} of:\n{shown}")


def test_the_brackets_lead_from_change_to_change(failed):
    page = failed()
    page.keyboard.press("w")
    page.keyboard.type("vars/fare")  # its first slash is understood
    page.keyboard.press("Enter")
    expect(page.locator("#watch h3")).to_contain_text("/vars/fare")
    at(page, 20)
    page.keyboard.press("[")
    at(page, 16)
    expect(page.locator("#watch")).to_contain_text("changed here")
    expect(page.locator("#step-16 .dot")).to_have_count(1)
    page.keyboard.press("j")  # it is still watched
    at(page, 17)
    expect(page.locator("#watch")).to_contain_text("set at step 16")
    there = page.url
    assert "path=%2Fvars%2Ffare" in there
    page.reload()
    expect(page.locator("#watch")).to_contain_text("set at step 16")
    page.keyboard.press("w")
    expect(page.locator("#watch")).to_have_count(0)
    at(page, 17)
    assert "path=" not in page.url


@SCRIPT
@pytest.mark.parametrize("size", [(1440, 900), PHONE], ids=["desktop", "phone"])
def test_a_path_of_the_state_leads_to_its_step_and_its_history(failed, script, size):
    page = failed(script=script, size=size, as_="vera")
    page.goto(page.url + "&tab=state")
    page.locator("#state summary b", has_text=re.compile("^vars$")).click()
    hold = page.locator(
        "#state li", has=page.locator("b", has_text=re.compile("^hold$"))
    )
    hold.last.get_by_role("link", name="step 16").click()
    expect(page.locator("#watch")).to_contain_text("changed here")
    page.locator("#watch").get_by_role("link", name="History").click()
    expect(page.locator("#path-history")).to_contain_text("1 of 21 steps")
    expect(page.locator("#change-16")).to_contain_text("asked for at step 15")
    expect(page.locator("#change-16")).to_have_attribute("aria-current", "step")
    page.locator("#when").select_option("appears")
    page.get_by_role("button", name="Look").click()
    page.locator("#first").get_by_role("link", name="step 16").click()
    expect(page.locator("#step-h" if size != PHONE else "#step")).to_contain_text(
        "16 ·"
    )


@SCRIPT
def test_search_in_all_steps_leads_to_the_first(failed, script):
    page = failed(script=script, as_="vera")
    page.goto(page.url + "&tab=state")
    page.fill("#find", "JL 57 on")
    page.get_by_role("button", name="In all steps").click()
    first = page.locator("#hits tbody tr").first
    expect(first.locator("mark")).to_have_text(re.compile("JL 57 on", re.IGNORECASE))
    step = first.locator("a.t").inner_text().removeprefix("step ")
    first.locator("a.t").click()
    at(page, int(step))
    expect(page.locator("#watch")).to_be_visible()


def test_who_may_not_read_sees_that_it_is_sealed(failed, visit):
    address = failed(as_="vera").url
    thread, _, branch = address.partition("/threads/")[2].partition("/?branch=")
    for query in (
        f"history?branch={branch}&path={quote(HOLD)}",
        f"search?branch={branch}&q=JL",
    ):
        page = visit(f"/threads/{thread}/{query}", as_="ana")
        expect(page.locator("#sealed")).to_be_visible()
        expect(page.locator("body")).not_to_contain_text("JL 57")
