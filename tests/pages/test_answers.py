"""One action answers a script with a fragment, and everyone else with a page."""

from __future__ import annotations

import pytest
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import include, path
from django.views.decorators.http import require_POST

from agents.pages import refusals, respond

SCRIPT = {"HX-Request": "true", "HX-Current-URL": "http://testserver/inbox/?q=1"}
FRAGMENT = "_empty.html"


class Beaten(Exception):
    """Someone was faster."""


@require_POST
def act(request: HttpRequest, what: str) -> HttpResponse:
    shown = {"icon": "check", "title": "What is there now"}
    match what:
        case "done":
            return respond.moved_on(
                request, FRAGMENT, to="/next", say="Approved <b>", **shown
            )
        case "quiet":
            return respond.moved_on(request, FRAGMENT, to="login", **shown)
        case "beaten":
            lost = Beaten("Mira approved it.")
            return respond.conflict(request, FRAGMENT, lost, to="/next", **shown)
        case "wrong":
            return respond.invalid(request, FRAGMENT, page="404.html", **shown)
        case "started":
            return respond.hx_location(request, "/threads/1", say="Queued")
        case "stranger":
            return respond.login_expired(request)
        case "forbidden":
            raise PermissionDenied("Someone else must approve it.")
        case _:
            raise Http404("thread 7f3a of Northwind")


def next_page(request: HttpRequest) -> HttpResponse:
    return render(request, "base.html")


handler403 = refusals.not_allowed
handler404 = refusals.not_found
urlpatterns = [
    path("act/<what>", act),
    path("next", next_page),
    path("", include("project.urls")),
]
pytestmark = pytest.mark.urls(__name__)


def test_what_was_done_is_shown_and_said(client):
    response = client.post("/act/done", headers=SCRIPT)
    html = response.content.decode()
    assert response.status_code == 200
    assert "What is there now" in html
    assert (
        '<hx-partial hx-target="#say" hx-swap="textContent">Approved &lt;b&gt;' in html
    )
    assert 'hx-target="#toasts"' in html


def test_without_script_it_redirects_with_a_message(client):
    response = client.post("/act/done")
    assert (response.status_code, response["Location"]) == (303, "/next")
    assert "Approved &lt;b&gt;" in client.get("/next").content.decode()


def test_what_needs_no_words_says_nothing(client):
    assert b"hx-partial" not in client.post("/act/quiet", headers=SCRIPT).content
    assert client.post("/act/quiet")["Location"] == "/login"


def test_who_was_faster_is_shown_in_place(client):
    response = client.post("/act/beaten", headers=SCRIPT)
    html = response.content.decode()
    assert response.status_code == 409
    assert "What is there now" in html
    assert str(response.context["lost"]) == "Mira approved it."  # for the fragment
    assert "toast" not in html


def test_who_was_faster_is_said_on_the_next_page(client):
    assert client.post("/act/beaten").status_code == 303
    assert "Mira approved it." in client.get("/next").content.decode()


def test_a_wrong_form_comes_back_as_a_fragment_or_as_its_page(client):
    fragment = client.post("/act/wrong", headers=SCRIPT)
    page = client.post("/act/wrong")
    assert fragment.status_code == page.status_code == 422
    assert b"<html" not in fragment.content
    assert b"<html" in page.content


def test_what_was_started_is_gone_to(client):
    assert client.post("/act/started", headers=SCRIPT)["HX-Redirect"] == "/threads/1"
    assert client.post("/act/started")["Location"] == "/threads/1"


def test_a_fragment_for_a_stranger_sends_the_whole_page_to_sign_in(client):
    response = client.post("/act/stranger", headers=SCRIPT)
    assert response.status_code == 401
    assert response["HX-Redirect"] == "/login?next=/inbox/%3Fq%3D1"
    assert client.post("/act/stranger")["Location"] == "/login?next=/act/stranger"


@pytest.mark.parametrize("headers", [{}, SCRIPT])
def test_a_refusal_says_who_can(client, headers):
    response = client.post("/act/forbidden", headers=headers)
    assert response.status_code == 403
    assert "Someone else must approve it." in response.content.decode()
    assert (b"<html" in response.content) is not bool(headers)


@pytest.mark.parametrize("headers", [{}, SCRIPT])
def test_what_is_not_there_tells_nothing(client, headers):
    response = client.post("/act/missing", headers=headers)
    assert response.status_code == 404
    assert "Northwind" not in response.content.decode()
    assert (b"<html" in response.content) is not bool(headers)


@pytest.mark.parametrize("name", ["theme", "shortcuts"])
def test_a_preference_is_kept_in_a_cookie(client, name):
    value = {"theme": "dark", "shortcuts": "off"}[name]
    response = client.post("/preferences", {name: value, "next": "/login"})
    assert (response.status_code, response["Location"]) == (303, "/login")
    assert response.cookies[name].value == value
    assert response.cookies[name]["httponly"]


def test_a_preference_is_one_that_there_is(client):
    client.post("/preferences", {"theme": "<script>"})
    client.cookies["theme"] = "neon"
    assert "data-theme" not in client.get("/login").content.decode()
    client.cookies["theme"] = "dark"
    assert 'data-theme="dark"' in client.get("/login").content.decode()


@pytest.mark.parametrize(
    "back", ["//evil.example/", "https://evil.example", "javascript:1"]
)
def test_a_preference_leads_back_to_this_site_only(client, back):
    response = client.post("/preferences", {"theme": "dark", "next": back})
    assert response["Location"] == "/"


@pytest.mark.parametrize("back", ["/a\r\nX-Other: 1", "/threads/?q=\u202eé"])
def test_a_way_back_is_an_address_whatever_is_in_it(client, back):
    response = client.post("/preferences", {"theme": "dark", "next": back})
    assert response["Location"].isascii()
    assert response["Location"].startswith(("/a%0D%0AX", "/threads/?q=%E2"))


def test_preferences_are_posted(client):
    assert client.get("/preferences").status_code == 405
