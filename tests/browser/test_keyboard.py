"""Twenty requests of every kind are cleared by somebody who has no mouse.

And on every page that such a person needs, Tab comes to each control, each shows that it
has the focus, and what opened over the page is closed by Escape, which gives it back.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from agents.models import Approval
from agents.pure.terms import Terms
from checkpoints.access import Reason, Role, unscoped
from tests.agents.waiting import COSTS, GOOD, make_waiting
from tests.browser import states

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

KINDS = ("approve", "high", "edit", "reject", "respond", "undo", "long")
WATCH = "addEventListener('mousedown', () => { sessionStorage.usedMouse = 1 }, true)"
BECAME = {
    "approve": "approved",
    "high": "approved",
    "edit": "approved",
    "reject": "rejected",
    "respond": "responded",
    "undo": "rejected",
    "long": "approved",
}


@pytest.fixture
def asked(alice, make_thread) -> dict[str, Approval]:
    """Twenty requests by their titles, which begin with what is to be done."""
    made = {}
    for n in range(20):
        kind = KINDS[n % len(KINDS)]
        title = f"{kind} {n}"
        call = ("book", {**GOOD, "flight": title})
        terms = Terms(grace=60) if kind == "undo" else Terms()
        if kind == "respond":
            call = ("ask_traveller", {"question": f"{title}?"})
        if kind == "long":
            call = ("send", {"to": title, "fields": {"text": "many words " * 80}})
        made[title] = make_waiting(
            make_thread(owner=alice),
            alice,
            call,
            terms=None if kind == "respond" else terms,
            risk="high" if kind == "high" else "low",
        )[0]
    return made


def type_and_send(page: Page, field: str, text: str) -> None:
    expect(page.locator(field)).to_be_focused()
    page.keyboard.type(text)
    page.keyboard.press("Control+Enter")


def clear(page: Page, kind: str) -> None:
    """What a person does with a request of this kind."""
    match kind:
        case "approve":
            page.keyboard.press("a")
        case "high":
            page.keyboard.press("a")
            expect(page.locator("#say")).to_contain_text("press a again")
            page.keyboard.press("a")
        case "long":
            page.keyboard.press("a")
            expect(page.locator("#say")).to_contain_text("press a again")
            expect(page.locator("[data-read] [name=read]")).to_be_checked()
            page.keyboard.press("a")
        case "edit":
            page.keyboard.press("e")
            type_and_send(page, "#arg-flight", "x")
        case "reject":
            page.keyboard.press("d")
            type_and_send(page, "#reason", "Not this one.")
        case "respond":
            page.keyboard.press("r")
            type_and_send(page, "#response", "The window.")
        case "undo":
            page.keyboard.press("a")
            expect(page.locator("#apr-grace")).to_be_visible()
            page.keyboard.press("z")
            expect(page.locator("#apr-actions")).to_contain_text("Approve and run")
            page.keyboard.press("d")
            type_and_send(page, "#reason", "On second thoughts.")


def test_twenty_requests_are_cleared_by_keys_alone(open_, asked):
    page = open_("/inbox/", as_="alice")
    page.add_init_script(WATCH)  # on the pages that follow; here at once
    page.evaluate(WATCH)
    left = dict(asked)
    while left:
        page.wait_for_load_state()
        shown = page.locator("#apr-h").inner_text()
        title = next(
            title
            for title in left
            if f"{title}," in shown or f"{title}?" in shown or shown.endswith(title)
        )
        clear(page, title.split()[0])
        expect(page.locator("#apr-next")).to_be_focused()
        del left[title]
        with page.expect_event("load"):
            page.keyboard.press("Enter")
        assert page.evaluate("sessionStorage.usedMouse") is None
    expect(page.locator("#inbox-empty")).to_be_visible()
    for title, approval in asked.items():
        found = Approval.objects.unscoped(Reason.TEST).get(pk=approval.pk)
        assert found.status == BECAME[title.split()[0]], title


@pytest.mark.parametrize("kind", ["high", "long"])
def test_a_key_that_is_held_down_is_pressed_once(open_, asked, kind):
    approval = next(one for title, one in asked.items() if title.startswith(kind))
    page = open_(f"/inbox/{approval.pk}/", as_="alice")
    for _ in range(20):
        page.keyboard.down("a")
        page.wait_for_timeout(30)
    expect(page.locator("#say")).to_contain_text("press a again")
    page.keyboard.up("a")
    approval.refresh_from_db()
    assert approval.status == "pending"
    if kind == "long":
        expect(page.locator("[data-read] [name=read]")).to_be_checked()
    page.keyboard.press("a")
    expect(page.locator("#apr-next")).to_be_focused()
    approval.refresh_from_db()
    assert approval.status == "approved"


# Tab, focus, Escape

# What a person could use: shown, not switched off, one of each group of radio buttons.
# `looks` are remembered, to be compared with those that it has with the focus.
CONTROLS = """() => {
  window.looks = (one) => [one, one.closest("label"), ...one.querySelectorAll("*")]
    .filter(Boolean)
    .map((part) => {
      const { outline, boxShadow, stroke, borderColor, clipPath } = getComputedStyle(part);
      return [outline, boxShadow, stroke, borderColor, clipPath].join();
    })
    .join();
  window.before = new Map();
  document.activeElement.blur();
  const all = document.querySelectorAll(
    "a[href], button, input, select, textarea, summary, [tabindex='0']",
  );
  const groups = new Set();
  const names = [];
  for (const one of all) {
    if (one.disabled || one.type === "hidden" || one.tabIndex < 0) continue;
    if (!one.checkVisibility({ visibilityProperty: true })) continue;
    before.set(one, looks(one));
    if (one.type === "radio") {
      const group = `${one.form?.id} ${one.name}`;
      if (groups.has(group)) continue;
      groups.add(group);
    }
    one.dataset.control = names.length;
    names.push(one.outerHTML.slice(0, 120));
  }
  return names;
}"""
# Which of them has the focus, and whether anything about it looks otherwise for that.
FOCUSED = """() => {
  const one = document.activeElement;
  const first = one.type === "radio" && document.querySelector(
    `input[type=radio][name="${one.name}"][data-control]`,
  );
  const at = (first || one).dataset.control;
  const html = one.outerHTML.slice(0, 120);
  return { at: Number(at ?? -1), visible: looks(one) !== before.get(one), html };
}"""


def tab_through(page: Page) -> list[str]:
    """What is wrong with going through a page by Tab alone."""
    names = page.evaluate(CONTROLS)
    wrong, reached = [], set()
    # It may begin in the middle, and a date is three stops.
    for _ in range(2 * len(names) + 20):
        page.keyboard.press("Tab")
        found = page.evaluate(FOCUSED)
        reached.add(found["at"])
        if found["at"] >= 0 and not found["visible"]:
            wrong.append(f"nothing shows the focus on {found['html']}")
        if len(reached - {-1}) == len(names):
            break
    missed = [name for n, name in enumerate(names) if n not in reached]
    return wrong + [f"Tab does not come to {name}" for name in missed]


@pytest.fixture
def desk(make_thread, join, alice, bob) -> Iterator[dict[str, Approval]]:
    ada = join("ada", Role.ADMIN, can_approve=True)
    with unscoped(Reason.TEST):
        made = states.requests(make_thread, ada, alice, bob)
        states.surroundings(ada, made)
    yield made
    COSTS.clear()


def test_tab_comes_to_every_control_and_shows_where_it_is(open_, desk):
    two = f"id={desk['plain'].pk}&id={desk['noted'].pk}"
    wrong = []
    page = open_("/shortcuts", as_="ada")
    for path in (
        "/inbox/?show=decided",
        f"/inbox/{desk['letter'].pk}/",
        f"/inbox/{desk['letter'].pk}/edit",
        "/inbox/metrics",
        f"/inbox/batch?do=reject&{two}",
        "/channels/",
        "/policies/?rule=1",
        "/tokens/",
        "/audit/",
    ):
        page.goto(path)
        wrong += [f"{path}: {one}" for one in tab_through(page)]
    assert not wrong, "\n".join(wrong)


def test_escape_closes_what_opened_over_a_page_and_gives_the_focus_back(open_, desk):
    page = open_("/inbox/", as_="ada")
    page.locator("#inbox-filters summary").focus()
    page.keyboard.press("Enter")
    page.locator("#inbox-filters [name=q]").focus()
    page.keyboard.press("Escape")
    expect(page.locator("#inbox-filters [name=q]")).to_be_hidden()
    expect(page.locator("#inbox-filters summary")).to_be_focused()
    page.locator(".user summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    expect(page.locator(".user .menu")).to_be_hidden()
    expect(page.locator(".user summary")).to_be_focused()
    commands = page.locator("#nav a", has_text="Commands").first
    commands.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#commands input")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#commands")).to_have_count(0)
    expect(commands).to_be_focused()


@pytest.mark.parametrize(
    ("key", "field", "back"),
    [
        ("d", "#reason", "#apr-actions > .no"),
        ("h", "#apr-sheet [name=hours]", "#apr-actions > [data-hotkey=h]"),
        ("m", "#note", "#apr-more > summary"),
        ("Shift+I", "#to", "#apr-more > summary"),
        ("Shift+A", "#apr-sheet", "#apr-more > summary"),
    ],
)
def test_escape_closes_a_sheet_and_gives_the_focus_back(open_, desk, key, field, back):
    page = open_(f"/inbox/{desk['letter'].pk}/", as_="ada")
    page.keyboard.press(key)
    expect(page.locator(field).first).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")  # where the first has left the field
    expect(page.locator("#apr-sheet")).to_have_count(0)
    expect(page.locator(back)).to_be_focused()
    page.keyboard.press(key)  # and the keys are there as before
    expect(page.locator(field).first).to_be_visible()


def test_escape_leads_from_a_sheets_field_to_its_cross(open_, desk):
    """Not to nothing: a browser that has yet to draw an autofocus would give it again."""
    page = open_(f"/inbox/{desk['letter'].pk}/", as_="ada")
    page.keyboard.press("d")
    expect(page.locator("#reason")).to_be_focused()
    page.keyboard.type("Not yet")
    page.keyboard.press("Escape")
    expect(page.locator("#apr-sheet [data-back][aria-label=Close]")).to_be_focused()
    expect(page.locator("#reason")).to_have_value("Not yet")


def test_a_sheet_that_is_closed_twice_does_not_close_the_next_one(open_, desk):
    page = open_(f"/inbox/{desk['letter'].pk}/", as_="ada")
    page.keyboard.press("h")
    expect(page.locator("#apr-sheet")).to_be_visible()
    held: list[Route] = []

    def answer(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append(
                route
            )  # the first answer would come last, and close what is open

    page.route(f"**/f/inbox/{desk['letter'].pk}/", answer)
    # Sooner than a request is given up because it takes too long.
    with page.expect_event("requestfailed", timeout=10_000) as given_up:
        page.keyboard.press("Escape")
        while not held:  # given up before it is sent, it would be seen by nobody
            page.wait_for_timeout(10)
        page.keyboard.press("Escape")
    assert given_up.value is held[0].request
    expect(page.locator("#apr-sheet")).to_have_count(0)
    page.keyboard.press("h")
    expect(page.locator("#apr-sheet")).to_be_visible()
