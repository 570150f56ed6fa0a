"""Signing in, the shell's menu, and what app.js adds to plain pages."""

from __future__ import annotations

import pytest
from django.http import HttpRequest, HttpResponse
from django.template import RequestContext, Template
from django.urls import include, path
from playwright.sync_api import expect

from agents.pages import respond
from tests.browser.conftest import PHONE

PARTS = Template(
    """
    {% extends "base.html" %}{% load holdpoint %}
    {% block top %}<h1>Parts</h1>{% endblock %}
    {% block main %}
      <div class="page">
        <form id="decide" method="post" action="/decide" hx-post="/decide" hx-target="#decide">
          {% csrf_token %}<button class="btn ok" data-hotkey="a" data-see="#args">Approve</button>
        </form>
        <form id="plain" method="post" action="/count">
          {% csrf_token %}<textarea name="text" aria-label="Text"></textarea><button class="btn">Send</button>
        </form>
        <a class="btn" id="opener" href="/dialog" hx-get="/dialog" hx-target="#out">Open</a>
        <form id="breaks" method="post" action="/breaks" hx-post="/breaks" hx-target="#out">
          {% csrf_token %}<button class="btn">Break</button>
        </form>
        <div id="out">nothing</div>
        <label><input type="radio" name="canned" value="Too dear" data-fill="#why">Too dear</label>
        <label><input type="radio" name="canned" value="Wrong day" data-fill="#why">Wrong day</label>
        <textarea id="why" aria-label="Why"></textarea>
        <ul data-rows>
          <li class="item"><input type="checkbox" aria-label="one"><a class="t" href="#1">one</a></li>
          <li class="item"><input type="checkbox" aria-label="two"><a class="t" href="#2">two</a></li>
        </ul>
        <svg height="2000" aria-hidden="true"></svg>
        <p id="args">What would be done</p>
      </div>
    {% endblock %}
    """
)
DIALOG = """
<dialog class="modal" open data-modal aria-labelledby="dialog-h">
  <header><h2 id="dialog-h" tabindex="-1" autofocus>A dialog</h2></header>
  <footer><a class="btn" href="/parts" data-close>Close</a></footer>
</dialog>
"""
posted: list[str] = []


def parts(request: HttpRequest) -> HttpResponse:
    return HttpResponse(PARTS.render(RequestContext(request)))


def decide(request: HttpRequest) -> HttpResponse:
    shown = {"icon": "check", "title": "Decided"}
    return respond.moved_on(
        request, "_empty.html", to="/parts", say="Approved", **shown
    )


def count(request: HttpRequest) -> HttpResponse:
    posted.append(request.POST["text"])
    return HttpResponse(status=204)  # the page stays, so the form could be sent again


def breaks(request: HttpRequest) -> HttpResponse:
    return HttpResponse("secret", status=500)


def dialog(request: HttpRequest) -> HttpResponse:
    return HttpResponse(DIALOG)


urlpatterns = [
    path("parts", parts),
    path("decide", decide),
    path("count", count),
    path("breaks", breaks),
    path("dialog", dialog),
    path("", include("project.urls")),
]
pytestmark = [pytest.mark.browser, pytest.mark.urls(__name__)]


@pytest.mark.parametrize("script", [True, False])
def test_a_wrong_password_says_so_and_keeps_the_name(alice, open_, script):
    page = open_("/login?next=/shortcuts", script=script)
    page.fill("[name=username]", "alice")
    page.fill("[name=password]", "wrong")
    page.click("button")
    expect(page.get_by_role("alert")).to_contain_text("do not match")
    expect(page.locator("[name=username]")).to_have_value("alice")
    page.fill("[name=password]", "alice")
    page.click("button")
    expect(page.locator("h1")).to_have_text("Shortcuts")


@pytest.mark.parametrize("script", [True, False])
def test_a_theme_is_chosen_in_the_account_menu(alice, open_, script):
    page = open_("/shortcuts", as_="alice", script=script)
    page.locator(".user summary").click()
    page.locator(".user").get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_the_account_menu_is_in_the_tab_bar_of_a_phone(alice, open_):
    page = open_("/shortcuts", as_="alice", size=PHONE)
    page.locator(".more summary").click()
    page.locator(".more").get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_shortcuts_can_be_switched_off(alice, open_):
    page = open_("/parts", as_="alice")
    page.keyboard.press("?")
    page.wait_for_url("**/shortcuts")
    page.click("text=Switch shortcuts off")
    page.goto("/parts")
    page.keyboard.press("?")
    page.keyboard.press("a")
    page.keyboard.press("a")
    expect(page.locator("h1")).to_have_text("Parts")
    expect(page.locator("#decide button")).to_be_visible()


def test_a_key_decides_only_what_could_be_seen(open_):
    page = open_("/parts")
    page.keyboard.press("a")
    expect(page.locator("#say")).to_contain_text("Look at this first")
    expect(page.locator("#args")).to_be_in_viewport()
    expect(page.locator("#decide button")).to_have_count(1)
    page.keyboard.press("a")
    expect(page.locator("#decide")).to_contain_text("Decided")
    expect(page.locator("#say")).to_have_text("Approved")
    expect(page.locator(".toast")).to_contain_text("Approved")


def test_a_toast_can_be_sent_away(open_):
    page = open_("/parts")
    page.click("text=Approve")
    page.get_by_role("button", name="Dismiss").click()
    expect(page.locator(".toast")).to_have_count(0)


def test_a_form_is_sent_once_and_with_ctrl_enter(open_):
    posted.clear()
    page = open_("/parts")
    page.fill("#plain textarea", "hello")
    with page.expect_response("**/count"):
        page.keyboard.press("Control+Enter")
    page.keyboard.press("Control+Enter")
    page.click("#plain button")
    page.wait_for_timeout(200)  # milliseconds in which a second request would arrive
    assert posted == ["hello"]


def test_keys_are_silent_in_a_field(open_):
    page = open_("/parts")
    page.locator("#plain textarea").press_sequentially("a?a")
    expect(page.locator("#plain textarea")).to_have_value("a?a")
    expect(page.locator("#decide button")).to_have_count(1)


def test_a_dialog_blocks_the_page_until_it_is_closed(open_):
    page = open_("/parts")
    page.click("#opener")
    expect(page.get_by_role("heading", name="A dialog")).to_be_focused()
    page.keyboard.press("a")
    page.keyboard.press("a")
    expect(page.locator("#decide button")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    expect(page.locator("#opener")).to_be_focused()
    page.click("#opener")
    page.click("text=Close")
    expect(page.locator("dialog")).to_have_count(0)
    expect(page.locator("h1")).to_have_text("Parts")


def test_what_broke_is_said_and_never_shown(open_):
    page = open_("/parts")
    page.click("text=Break")
    expect(page.locator(".toast")).to_contain_text("Something broke")
    expect(page.locator("#out")).to_have_text("nothing")


def test_a_canned_reason_starts_the_text_but_replaces_nothing_typed(open_):
    page = open_("/parts")
    page.check("text=Too dear")
    page.check("text=Wrong day")
    expect(page.locator("#why")).to_have_value("Wrong day")
    page.fill("#why", "My own words")
    page.check("text=Too dear")
    expect(page.locator("#why")).to_have_value("My own words")


def test_j_and_k_walk_a_list_and_x_selects(open_):
    page = open_("/parts")
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="one")).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("x")
    assert page.is_checked("[aria-label=two]")
    page.keyboard.press("k")
    expect(page.get_by_role("link", name="one")).to_be_focused()
