"""Every page that has a route, in every state that it has, as axe-core sees it.

A route that answers with a page is visited because it is in the URLconf: a new page
cannot be forgotten. Beside the routes: a request in each of its states, the tabs and
filters of the pages that have them, pages that answer a form, and those that say what
went wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import include, path
from playwright.sync_api import Page, expect

from agents.approvals import decide
from agents.models import Approval
from agents.runs import control
from checkpoints import entries
from checkpoints.access import Reason, Role, UserPrincipal, unscoped
from checkpoints.pure.names import Name
from tests.agents.waiting import COSTS
from tests.browser import axe, states
from tests.browser.conftest import DESKTOP, PHONE
from tests.pages import conftest as trips
from tests.pages import test_sweep as sweep

make_trip, browser = trips.make_trip, trips.browser
make_things = sweep.make_things


def breaks(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("on purpose")


def suspicious(request: HttpRequest) -> HttpResponse:
    raise SuspiciousOperation("on purpose")


urlpatterns = [
    path("breaks", breaks),
    path("suspicious", suspicious),
    path("", include("project.urls")),
]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.urls(__name__),
    pytest.mark.unmeasured,
]

As = Callable[..., "Round"]
Looks = tuple[str, Literal["light", "dark"], tuple[int, int], dict[str, Any]]
LOOKS: list[Looks] = [
    ("light", "light", DESKTOP, axe.EVERY),
    ("dark, on a phone", "dark", PHONE, axe.EVERY),
]
# What is of no other size, in the dark: only its colours are others than in the light.
DARK: Looks = ("dark", "dark", DESKTOP, axe.COLOURS)


# High enough for a page without scrolling. What a bar covers can be scrolled from under
# it, so how large links are is asked there; everything else at the size that people have.
WHOLE = 6_000


class Round:
    """Goes from page to page in one window, and keeps what is wrong with them."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.wrong: list[str] = []
        self.looks = list(LOOKS)
        page.emulate_media(reduced_motion="reduce")  # colours are there at once

    def visit(self, *paths: str) -> None:
        for one in paths:
            self.page.goto(one)
            self.look(one)

    def look(self, name: str) -> None:
        """At the page as it stands: light and wide, dark and on a phone."""
        expect(self.page.locator("main")).to_be_visible()
        for looks, scheme, size, rules in self.looks:
            self.page.emulate_media(color_scheme=scheme)
            self.page.set_viewport_size({"width": size[0], "height": size[1]})
            found = axe.violations(self.page, rules, but=axe.SIZES)
            if rules is axe.EVERY:
                self.page.set_viewport_size({"width": size[0], "height": WHOLE})
                found += axe.violations(self.page, axe.SIZES)
            self.wrong += [f"{name}, {looks}: {one}" for one in found]
        self.page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})

    def end(self) -> None:
        assert not self.wrong, "\n".join(self.wrong)


@pytest.fixture
def as_(open_) -> Iterator[As]:
    """Opens a window, signed in as somebody; at the end nothing may be wrong."""
    rounds: list[Round] = []

    def as_(name: str = "") -> Round:
        page = open_("/shortcuts" if name else "/login", as_=name)
        rounds.append(Round(page))
        return rounds[-1]

    yield as_
    for one in rounds:
        one.end()


@pytest.fixture
def ada(join) -> UserPrincipal:
    return join("ada", Role.ADMIN, can_approve=True)


@pytest.fixture
def asked(make_thread, ada, alice, bob) -> Iterator[dict[str, Approval]]:
    with unscoped(Reason.TEST):
        asked = states.requests(make_thread, ada, alice, bob)
        states.surroundings(ada, asked)
    yield asked
    COSTS.clear()


@pytest.fixture
def things(make_things, alice) -> sweep.Things:
    return make_things(alice)


def is_page(client: Client, path: str) -> bool:
    """Not a fragment, a stream, a picture, an export, nor another page's address."""
    answer = client.get(path)
    if answer.streaming or not answer["Content-Type"].startswith("text/html"):
        return False
    return answer.content.lstrip().lower().startswith(b"<!doctype html")


def test_every_page_that_has_a_route(as_, browser, ada, asked, things):
    client = browser(ada)
    paths = [sweep.url(name, things) for name in sweep.PAGES]
    pages = [path for path in paths if is_page(client, path)]
    assert len(pages) > 30, pages
    one = as_("ada")
    one.looks.append(DARK)
    one.visit(*pages)


def test_a_request_in_every_state(as_, asked):
    as_("ada").visit(*(f"/inbox/{one.pk}/" for one in asked.values()))


def test_every_form_and_sheet_of_a_request(as_, asked):
    plain, careful = asked["plain"].pk, asked["careful"].pk
    forms = ["edit", "reject", "remember"]
    forms += [f"sheet/{name}" for name in ("assign", "snooze", "note", "reject")]
    one = as_("ada")
    one.visit(*(f"/inbox/{plain}/{form}" for form in forms))
    one.visit(f"/inbox/{asked['quorum'].pk}/sheet/break_glass")
    one.visit(f"/inbox/{careful}/edit", f"/inbox/{asked['long'].pk}/edit")
    one.visit(f"/inbox/{asked['long'].pk}/argument/1")


def test_every_tab_and_filter(as_, asked, things, make_thread, alice):
    with unscoped(Reason.TEST):
        for n in range(14):  # so many of a kind are folded
            states.ask_of(make_thread, alice)(f"alike {n}")
    thread, step = f"/threads/{things.thread}/", f"at/{things.checkpoint}/"
    tabs = ("diff", "state", "messages", "context", "effects", "raw", "files")
    ids = "".join(f"&id={one.pk}" for one in asked.values())
    one = as_("ada")
    one.visit(
        *(f"/inbox/?show={tab}" for tab in ("mine", "team", "snoozed", "decided"))
    )
    one.visit("/inbox/?q=nothing+of+that+name", "/inbox/?risk=high&claimed=nobody")
    one.visit(*(f"/inbox/batch?do={do}{ids}" for do in ("approve", "reject", "assign")))
    one.visit(f"/inbox/batch?do=snooze{ids}")
    one.visit(*(f"{thread}{step}?tab={tab}" for tab in tabs))
    one.visit(f"{thread}?kind=tool", f"{thread}?label=no+step+of+that+name&pane=steps")
    one.visit(f"{thread}?tab=diff&split=1&base={things.checkpoint}")
    filed = f"{thread}at/{things.file}/?tab=files"
    one.visit(filed, f"{filed}&path=/files/notes~1plan.md", f"{filed}&path=/files/gone")
    one.visit(f"{thread}{step}?path=/facts/fare", f"{thread}?tab=state&path=/nothing")
    one.visit(f"{thread}history?path=/facts/fare&when=equals&value=1200.00")
    one.visit(f"{thread}history?path=/nothing&when=appears", f"{thread}search?q=fare")
    one.visit(f"{thread}branches?q=e", f"{thread}branches?q=nothing+of+that+name")
    one.visit(f"/threads/{asked['long'].thread_id}/?tab=messages")
    beside = f"/threads/compare/{things.branch}/{things.other_branch}/"
    states_of = f"/threads/diff/{things.checkpoint}/{things.other_checkpoint}/"
    one.visit(f"{beside}?at=1&split=1", f"{states_of}?split=1")
    one.visit(f"/threads/compare/?branch={things.branch}")
    one.visit("/threads/?cost=cheap&to=never&by=alice", "/threads/?q=paris&forks=no")
    one.visit("/threads/?q=nothing", "/runs/?show=failed", "/commands?q=thr")
    one.visit("/policies/?rule=1", "/policies/versions?at=2&base=1")
    one.visit("/policies/waiting-desk/?rule=1", "/policies/waiting-desk/versions")
    one.visit("/agents/waiting-desk/", "/agents/waiting-desk/tools/")
    one.visit("/agents/waiting-desk/policies/?tool=rent")
    one.visit("/agents/waiting-desk/versions/", "/runs/new?agent=waiting-desk")
    one.visit("/threads/trajectories/?look=1", "/threads/trajectories/?look=1&most=x")
    one.visit("/audit/?action=decide", "/audit/?action=nothing")
    one.visit("/memory/?new=1", "/memory/?scope=workspace&gone=1", "/memory/?q=x")
    one.visit("/memory/?scope=workspace&in=travellers", "/memory/?in=a~b")
    one.visit(f"{thread}board/?branch={things.other_branch}")  # with nothing on it


def test_what_is_sealed_or_not_for_someone(as_, auditor, viewer, asked, things):
    pages = [f"/inbox/{asked[name].pk}/" for name in ("plain", "approved", "question")]
    thread = f"/threads/{things.thread}/"
    tabs = (f"{thread}?tab={tab}" for tab in ("diff", "state", "raw"))
    beside = f"/threads/compare/{things.branch}/{things.other_branch}/"
    states_of = f"/threads/diff/{things.checkpoint}/{things.other_checkpoint}/"
    audrey = as_("audrey")
    audrey.visit("/inbox/", "/threads/", "/runs/", "/audit/", "/memory/", *pages, *tabs)
    audrey.visit(f"{thread}board/")
    audrey.visit(f"{beside}?at=1", states_of)
    audrey.visit(
        f"{thread}history?path=/facts", f"{thread}search?q=fare", f"{thread}branches"
    )
    entry = f"/memory/{things.entry}/"
    as_("vera").visit("/inbox/", thread, "/retention/", "/policies/", entry, *pages)
    as_("vera").visit(f"{thread}board/", f"{thread}board/{things.on_board}/")


def test_what_a_form_is_answered_with(as_, asked, bob):
    one = as_("ada")
    page = one.page
    page.goto(f"/inbox/{asked['plain'].pk}/edit")
    page.fill("#arg-price", "a hundred")
    page.click("text=Approve with edits and run")
    expect(page.locator("#apr-errors")).to_be_visible()
    one.look("an edit with an error")
    page.goto(f"/inbox/{asked['plain'].pk}/edit")
    page.get_by_role("button", name="JSON").click()
    expect(page.locator("#apr-json, [name=json]").first).to_be_visible()
    one.look("an edit as JSON")
    page.goto(f"/inbox/{asked['letter'].pk}/edit")
    page.fill("#arg-to", "Ana")
    with unscoped(Reason.TEST):
        decide.approve(asked["letter"], seen=asked["letter"].as_shown(), by=bob)
    page.click("text=Approve with edits and run")
    expect(page.locator("#apr-kept")).to_contain_text("Ana")
    one.look("an edit that came too late")
    page.goto(f"/inbox/{asked['plain'].pk}/reject")
    page.click("text=Reject and tell the agent")
    expect(page.locator("#reason-e")).to_be_visible()
    one.look("a rejection without a reason")
    page.goto(f"/inbox/batch?do=approve&id={asked['plain'].pk}&id={asked['long'].pk}")
    page.click("#batch-actions .btn.ok")
    expect(page.locator("#batch-results")).to_be_visible()
    one.look("what came of a batch")
    page.goto("/memory/?new=1")
    page.fill("[name=path]", "a//b")
    page.click("text=Keep it")
    expect(page.locator("#memory-error")).to_be_visible()
    one.look("an entry with an error")
    with unscoped(Reason.TEST):
        kept = entries.put(bob, "workspace", Name(("a",), "b"), "theirs").entry
    page.goto(f"/memory/{kept.pk}/")
    with unscoped(Reason.TEST):
        entries.put(bob, "workspace", Name(("a",), "b"), {"row": 12}, expected=1)
    page.fill("[name=value]", "mine")
    page.click("text=Save")
    expect(page.locator("#entry-conflict")).to_be_visible()
    one.look("an entry that somebody else saved meanwhile")
    page.click("text=Take theirs")
    page.get_by_role("button", name="Delete").click()
    expect(page.locator("#entry-gone")).to_be_visible()
    one.look("a deleted entry")
    page.goto("/channels/")
    page.fill("[name=name]", "ops")  # which there is
    page.click("text=Make the channel")
    one.look("a channel with an error")
    page.fill("[name=name]", "hook")
    page.check("[value=webhook]")
    page.fill("[name=address]", "https://more.example/")
    page.click("text=Make the channel")
    expect(page.locator("#secret")).to_be_visible()
    one.look("a channel's secret")
    page.goto("/tokens/")
    page.fill("[name=name]", "a program")
    page.click("main form button.pri")
    one.look("a token")
    page.goto("/policies/?rule=1")
    page.fill("#r-deadline", "soon")
    page.click("#rule-actions .pri")
    expect(page.locator("#r-deadline-e")).to_be_visible()
    one.look("a policy with an error")
    page.fill("#r-deadline", "6 h")
    page.click("#rule-actions .pri")
    expect(page.locator("#dry-run")).to_be_visible()
    one.look("a dry run")


def test_what_opens_over_a_page(as_, asked, ada):
    one = as_("ada")
    page = one.page
    page.goto("/inbox/")
    page.click("#inbox-filters summary")
    one.look("filters")
    page.goto("/inbox/")
    page.locator(".user summary").click()
    one.look("the account's menu")
    page.goto(f"/inbox/{asked['plain'].pk}/")
    page.locator("#inbox-list input[type=checkbox]").first.check()
    one.look("a selected row")
    page.keyboard.press("Control+k")
    expect(page.locator("#commands input")).to_be_focused()
    one.look("the command palette")
    page.keyboard.press("Escape")
    page.goto(f"/inbox/{asked['plain'].pk}/")
    for key in ("d", "h", "Shift+A"):
        page.goto(f"/inbox/{asked['letter'].pk}/")
        page.keyboard.press(key)
        expect(page.locator("#apr-sheet")).to_be_visible()
        one.look(f"the sheet of {key}")
    page.goto(f"/inbox/{asked['careful'].pk}/")
    page.keyboard.press("a")
    expect(page.locator(".toast")).to_be_visible()
    one.look("a toast that asks for a second press")
    with unscoped(Reason.TEST):
        control.halt(ada.workspace_id, by=ada)
    one.visit("/inbox/", "/runs/")


def test_the_door_and_what_goes_wrong(as_, alice, db):
    User.objects.create_user("homeless", password="homeless")
    one = as_()
    one.visit("/login?next=/audit/")
    one.page.fill("[name=username]", "alice")
    one.page.fill("[name=password]", "wrong")
    one.page.click("button")
    one.look("a wrong password")
    one.page.context.clear_cookies()
    one.page.fill("[name=password]", "wrong")
    one.page.click("button")
    expect(one.page.locator("h1")).to_contain_text("too old")
    one.look("a form without its token")
    one.visit("/nowhere", "/breaks", "/suspicious")
    as_("alice").visit("/nowhere", "/audit/", "/breaks", "/suspicious")
    one.visit("/login")
    one.page.fill("[name=username]", "homeless")
    one.page.fill("[name=password]", "homeless")
    one.page.click("button")
    expect(one.page.locator("h1")).to_contain_text("not in a workspace")
    one.look("no workspace")
