"""The Inbox's list in the hands of someone: keys alone, filters, what comes and goes."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from agents.approvals.decide import approve
from tests.agents.waiting import GOOD, make_waiting
from tests.browser.conftest import PHONE

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def ask(alice, make_thread):
    def ask(flight):
        return make_waiting(
            make_thread(owner=alice), alice, ("book", {**GOOD, "flight": flight})
        )[0]

    return ask


@pytest.fixture
def three(ask):
    return [ask(f"TP {n}") for n in (1, 2, 3)]


def listed(page, flight):
    return page.locator("#inbox-list a.t", has_text=f"Book {flight},")


def test_keys_alone_walk_select_filter_and_open(alice, three, open_):
    page = open_("/inbox/", as_="alice")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(listed(page, "TP 3")).to_be_focused()
    page.keyboard.press("k")
    expect(listed(page, "TP 2")).to_be_focused()
    page.keyboard.press("f")
    expect(page.locator("#inbox-filters select[name=risk]")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#inbox-filters select[name=risk]")).to_be_hidden()
    listed(page, "TP 2").focus()
    with page.expect_event("load"):
        page.keyboard.press("o")
    expect(page.locator("#apr-h")).to_contain_text("TP 2")
    with page.expect_event("load"):
        page.keyboard.press("4")
    expect(page.locator("#inbox-tabs [aria-current]")).to_have_text("Decided")
    with page.expect_event("load"):
        page.keyboard.press("1")
    expect(page.locator("#inbox-tabs [aria-current]")).to_contain_text("Mine 3")


def test_keys_step_over_what_is_folded(alice, ask, make_thread, open_):
    for n in range(14):  # so many of a kind are folded
        ask(f"TP {n}")
    question = ("ask_traveller", {"question": "Aisle or window?"})
    make_waiting(make_thread(owner=alice), alice, question)
    page = open_("/inbox/", as_="alice")
    shown = page.locator("#inbox-list a.t:visible")
    expect(shown).to_have_count(2)
    shown.first.focus()
    page.keyboard.press("j")
    expect(shown.last).to_be_focused()
    page.locator("#inbox-list .alike summary").focus()
    page.keyboard.press("Enter")
    shown.first.focus()
    page.keyboard.press("j")
    expect(shown.nth(1)).to_be_focused()


def test_what_comes_is_announced_and_shown_when_asked_for(alice, three, ask, open_):
    page = open_("/inbox/", as_="alice")
    listed(page, "TP 2").focus()
    ask("TP 4")
    expect(page.locator("#inbox-new")).to_contain_text("Show 1 new")
    expect(listed(page, "TP 4")).to_have_count(0)
    expect(listed(page, "TP 2")).to_be_focused()
    with page.expect_event("load"):
        page.keyboard.press(".")
    expect(listed(page, "TP 4")).to_be_visible()


def test_what_another_decides_says_who_and_leaves(alice, bob, three, open_):
    page = open_("/inbox/", as_="alice")
    listed(page, "TP 2").focus()
    approve(three[1], seen=three[1].as_shown(), by=bob)
    row = page.locator(f"#apr-{three[1].pk}-row")
    expect(row).to_contain_text("Bob")
    expect(row).to_have_count(0)
    expect(listed(page, "TP 3")).to_be_focused()  # what came up in its place


def test_commands_are_found_by_typing_and_opened_with_enter(alice, three, open_):
    page = open_("/inbox/", as_="alice")
    page.keyboard.press("Control+k")
    field = page.locator("#commands input")
    expect(field).to_be_focused()
    field.press_sequentially("thr")
    expect(page.locator("#command-list a").first).to_contain_text("Threads")
    expect(page.locator("#command-list")).not_to_contain_text("Runs and workers")
    field.press("ArrowDown")
    expect(page.locator("#command-list a").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/threads/"))


def test_without_script_filters_and_commands_work(alice, three, open_):
    page = open_("/inbox/", as_="alice", script=False)
    page.click("#inbox-filters summary")
    page.fill("#inbox-filters [name=q]", "TP 2")
    page.click("#inbox-filters >> text=Apply")
    expect(page.locator("#inbox-list a.t")).to_have_count(1)
    page.click("text=Clear filter >> visible=true")
    expect(page.locator("#inbox-list a.t")).to_have_count(3)
    page.goto(f"/commands?q={three[0].number}")
    page.click(f"text=APR-{three[0].number}")
    expect(page.locator("#apr-h")).to_contain_text("TP 1")


def test_on_a_phone_the_list_fits_and_leads_to_the_request(alice, three, open_):
    page = open_("/inbox/", as_="alice", size=PHONE)
    wide = "document.documentElement.scrollWidth > innerWidth"
    assert not page.evaluate(wide)
    page.click("#inbox-filters summary")
    expect(page.locator("#inbox-filters [name=risk]")).to_be_visible()
    assert not page.evaluate(wide)
    page.click("#inbox-filters summary")
    box = listed(page, "TP 1").bounding_box()
    assert box
    listed(page, "TP 1").click()
    expect(page.get_by_role("button", name="Approve")).to_be_in_viewport()
