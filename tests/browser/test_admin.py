"""Django's admin: rows and how they hang together, never what they hold."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser

SEALED = ("Helen Marsh", "Daniel Osei", "Tokyo", "Marunouchi", "TP 209", "refundable")


def shows_no_state(page: Page) -> None:
    html = page.content()
    assert [word for word in SEALED if word in html] == []


@pytest.mark.parametrize(
    ("model", "there", "back"),
    [
        ("agents/run", "#thread-status", "Admin"),
        ("checkpoints/checkpoint", "#step-h", "Admin"),
        ("checkpoints/thread", "#thread-status", "Admin"),
        ("agents/approval", "#apr-h", ""),
    ],
)
def test_from_a_row_to_its_page_and_back(visit, model, there, back):
    page = visit(f"/admin/{model}/", as_="admin")
    expect(page.locator("#result_list")).to_be_visible()
    shows_no_state(page)
    page.locator("#result_list tbody th a").first.click()
    expect(page.locator("#content h1")).to_be_visible()
    shows_no_state(page)
    page.get_by_role("link", name="View on site").click()
    expect(page.locator(there)).to_be_visible()
    if back:
        page.locator(".top").get_by_role("link", name=back).click()
        expect(page.locator("#content h1")).to_be_visible()
        shows_no_state(page)


def test_rows_lead_to_each_other(visit):
    page = visit("/inbox/", as_="admin")
    page.locator("#nav").get_by_role("link", name="Admin").click()
    page.click("#content a[href='/admin/checkpoints/checkpoint/']")
    page.locator("#result_list tbody th a").first.click()
    page.locator(".field-branch").get_by_role("link").click()
    page.locator(".field-thread").get_by_role("link").click()
    expect(page.locator(".field-workspace")).to_contain_text("Northwind")
    shows_no_state(page)


def test_history_cannot_be_changed(visit):
    page = visit("/admin/checkpoints/checkpoint/", as_="admin")
    page.locator("#result_list tbody th a").first.click()
    expect(page.locator("#content h1")).to_be_visible()
    expect(page.get_by_role("button", name="Save")).to_have_count(0)
    expect(page.get_by_role("link", name="Delete")).to_have_count(0)


def test_only_staff_see_the_admin(visit):
    page = visit("/inbox/", as_="mira")
    expect(page.locator("#nav").get_by_role("link", name="Admin")).to_have_count(0)
    page.goto("/admin/")
    expect(page.get_by_text("The admin is for staff")).to_be_visible()
