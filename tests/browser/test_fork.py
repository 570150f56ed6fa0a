"""What if: an old step gets another prompt, and a branch of its own to show it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from agents.demo.stories import LESSON
from tests.browser.desk import eventually

pytestmark = pytest.mark.browser
SCRIPT = pytest.mark.parametrize("script", [True, False], ids=["script", "plain"])


@pytest.fixture
def step_14(visit):
    """Opens the failed trip where it could still have gone well."""

    def step_14(**more) -> Page:
        page = visit("/threads/?q=Tokyo", as_="omar", **more)
        page.locator("#threads a.t", has_text="Signing in Tokyo").click()
        expect(page.locator("h1")).to_contain_text("Signing in Tokyo")
        page.wait_for_load_state()
        page.get_by_role("link", name="Branch main").click()
        expect(page.locator("#steps h2")).to_have_text("main")
        page.locator("#step-14").click()
        expect(page.locator("#step-h")).to_contain_text("14 ·")
        return page

    return step_14


def lesson_learnt(page: Page) -> str:
    prompt = page.locator("#id_system")
    learnt = f"{prompt.input_value()}\n{LESSON}"
    prompt.fill(learnt)
    return learnt


def steps_of(page: Page) -> list[str]:
    return page.locator("#steps a.step").all_inner_texts()


def stops(page: Page, script: bool) -> None:
    """The new branch's run comes to where it asks: seen by itself, or by loading again."""
    status = page.locator("#thread-status")
    if script:
        expect(status).to_have_text("waiting for a person")
    else:
        eventually(lambda: page.reload() and "waiting" in status.inner_text())


@SCRIPT
def test_a_lesson_in_the_prompt_turns_the_trip_around(step_14, script):
    name = f"lesson-{script}"
    page = step_14(script=script)
    # Of many branches the map draws some: other tests fork this trip, too.
    menu = page.locator("#branch-menu summary")
    branches = int(menu.inner_text().split()[0])
    before = steps_of(page)
    page.click("text=Fork from 14")
    lesson_learnt(page)
    if script:
        expect(page.locator("#diff-system")).to_contain_text(LESSON)
        expect(page.locator("#diff-system .chip")).to_contain_text("+1")
    page.fill("#id_name", name)
    page.click("text=Fork and run")
    expect(page.locator(".toast")).to_contain_text("The source is as it was.")
    expect(page.locator("#steps h2")).to_have_text(name)
    stops(page, script)
    expect(menu).to_have_text(f"{branches + 1} branches")
    expect(page.get_by_role("link", name=f"Branch {name},")).to_have_count(1)
    page.locator("#step-15").click()
    expect(page.locator("#step-new")).to_contain_text("system")
    page.locator("#step-16").click()
    expect(page.locator("#step-h")).to_contain_text("16 ·")
    expect(page.locator("#step-h")).not_to_contain_text("JL 57 on Mon 7 Dec")
    page.get_by_role("link", name="Branch main").click()
    expect(page.locator("#thread-status")).to_have_text("failed at step 20")
    expect(page.locator("#steps h2")).to_have_text("main")
    assert steps_of(page) == before


@SCRIPT
def test_a_malformed_edit_keeps_what_was_typed(step_14, script):
    page = step_14(script=script)
    page.click("text=Fork from 14")
    learnt = lesson_learnt(page)
    page.locator("#fork-form").evaluate("form => form.noValidate = true")
    page.fill("#id_temperature", "7")
    page.click("text=Fork and run")
    expect(page.get_by_role("alert")).to_contain_text("Nothing was forked yet")
    expect(page.locator("#temperature-error")).to_be_visible()
    expect(page.locator("#id_temperature")).to_have_value("7")
    expect(page.locator("#id_system")).to_have_value(learnt)
    expect(page.locator("#diff-system")).to_contain_text(LESSON)


def test_a_branch_is_made_without_a_run(step_14):
    page = step_14()
    page.keyboard.press("f")
    page.fill("#id_name", "for later")
    page.click("text=Create branch only")
    expect(page.locator("#steps h2")).to_have_text("for later")
    expect(page.locator("#thread-status")).to_have_text("not run yet")


@SCRIPT
def test_two_clicks_on_fork_are_one_branch(step_14, script):
    name = f"twice-{script}"
    page = step_14(script=script)
    page.click("text=Fork from 14")
    page.fill("#id_name", name)
    page.dblclick("text=Create branch only")
    expect(page.locator("#steps h2")).to_have_text(name)
    page.reload()
    expect(page.locator("#branch-menu a", has_text=name)).to_have_count(1)


def test_escape_leads_back_to_the_step(step_14):
    page = step_14()
    page.click("text=Fork from 14")
    page.locator("#id_system").focus()
    page.wait_for_load_state()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page.locator("#step-h")).to_contain_text("14 ·")


def test_who_only_reads_cannot_fork(visit):
    page = visit("/threads/?q=Tokyo", as_="vera")
    page.locator("#threads a.t", has_text="Signing in Tokyo").click()
    expect(page.locator("#fork-link")).to_be_disabled()
