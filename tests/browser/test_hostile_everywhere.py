"""The hostile corpus in every place, on every page that shows it, in one browser.

Any script error, blocked script and request to elsewhere fails the test (conftest.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from agents.approvals import decide
from agents.tools import registry
from checkpoints.access import Reason, Role, UserPrincipal, unscoped
from checkpoints.models import Checkpoint
from tests.browser.conftest import PHONE
from tests.browser.hostile import ALL, SHOWN, flaws, packed
from tests.browser.hostile_desk import DESK, Life, live_through
from tests.browser.test_axe import is_page
from tests.pages import conftest as trips
from tests.pages import test_sweep as sweep

browser = trips.browser

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.unmeasured,
]


@pytest.fixture
def ada(join) -> UserPrincipal:
    return join("ada", Role.ADMIN, can_approve=True)


@pytest.fixture
def life(llm, settings, monkeypatch, ada, alice, bob) -> Iterator[Life]:
    monkeypatch.setitem(registry._agents, DESK.name, DESK)
    settings.OPENAI_BASE_URL = llm.base_url
    settings.OPENAI_API_KEY = llm.api_key
    with unscoped(Reason.TEST):
        yield live_through(llm, ada, alice, bob)


class Walk:
    """Goes from page to page, and keeps what is wrong with them."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.wrong: list[str] = []
        self.seen = 0
        page.on("dialog", lambda said: self.wrong.append(f"it said {said.message}"))

    def visit(self, *paths: str, whole: str = "") -> None:
        """`whole`: where on the page all of the corpus is to be read, to its end."""
        for path in paths:
            answer = self.page.goto(path)
            assert answer is not None
            if answer.status != 200:
                self.wrong.append(f"{path}: answered {answer.status}")
            self.look(path, whole=whole)

    def look(self, name: str, *, whole: str = "") -> None:
        self.seen += 1
        self.wrong += [f"{name}: {flaw}" for flaw in flaws(self.page)]
        if whole:
            found = self.page.locator(whole)
            text = " ".join(
                found.evaluate_all("all => all.map(one => one.textContent)")
            )
            gone = [each for each in SHOWN if each not in text]
            if gone:
                self.wrong.append(f"{name}: {whole} does not say {gone}")

    def end(self) -> None:
        seen = "\n".join(dict.fromkeys(self.wrong))
        assert not self.wrong, seen


@pytest.fixture
def walk(open_) -> Iterator[Walk]:
    walk = Walk(open_("/shortcuts", as_="ada"))
    yield walk
    walk.end()


def things_of(life: Life) -> sweep.Things:
    last = Checkpoint.objects.filter(branch=life.fork).latest("step")
    board = sweep.on_board(life.pending["mail"].run, life.branch.pk, packed(60))
    return sweep.Things(
        thread=life.thread.pk,
        branch=life.branch.pk,
        checkpoint=life.look.pk,
        run=life.pending["mail"].run_id,
        failed=life.failed.pk,
        approval=life.pending["mail"].pk,
        blob=life.blob,
        file=life.filed.pk,
        entry=life.entry,
        sticky=life.sticky.pk,
        agent=DESK.name,  # type: ignore[arg-type]  # its name is all that is asked for
        other_branch=life.fork.pk,
        other_checkpoint=last.pk,
        on_board=board["on_board"],
        lock=board["lock"],
    )


def test_every_page_that_has_a_route(life, walk, browser, ada):
    things = things_of(life)
    paths = [sweep.url(name, things) for name in sweep.PAGES]
    others = ("/admin/", "/login", "/logout")  # these show nothing of this
    pages = [
        path
        for path in paths
        if not path.startswith(others)
        and not path.endswith("/image")  # the blob is none
        and is_page(browser(ada), path)
    ]
    assert len(pages) > 30
    walk.visit(*pages)


def test_every_request_and_all_that_opens_beside_it(life, walk):
    walk.visit(*(f"/inbox/{one.pk}/" for one in life.requests), whole="main")
    mail, patch = life.pending["mail"].pk, life.pending["patch"].pk
    forms = ["edit", "reject", "remember"]
    forms += [f"sheet/{name}" for name in ("assign", "snooze", "note", "reject")]
    forms += ["sheet/break_glass"]
    walk.visit(*(f"/inbox/{mail}/{form}" for form in forms))
    walk.visit(f"/inbox/{mail}/argument/0", f"/inbox/{mail}/argument/1", whole="main")
    walk.visit(f"/inbox/{patch}/edit", f"/inbox/{life.pending['purge'].pk}/remember")
    ids = "".join(f"&id={one.pk}" for one in life.pending.values())
    walk.visit(
        *(
            f"/inbox/batch?do={do}{ids}"
            for do in ("approve", "reject", "assign", "snooze")
        )
    )


def test_every_list_with_its_tabs_and_filters(life, walk):
    walk.visit(
        *(f"/inbox/?show={tab}" for tab in ("mine", "team", "snoozed", "decided"))
    )
    walk.visit("/inbox/metrics", "/inbox/?q=passport", "/threads/?q=passport")
    walk.visit("/threads/?label=%3Cx-canary", "/runs/?show=failed", "/commands?q=pass")
    walk.visit("/policies/?rule=1", "/policies/versions", f"/policies/{DESK.name}/")
    walk.visit(
        "/memory/?q=passport", "/memory/?scope=workspace", "/threads/trajectories/"
    )
    walk.visit("/audit/?action=message", "/audit/?action=decide%E2%80%AE")


def test_every_step_of_a_thread_and_what_is_seen_of_it(life, walk):
    thread, step = f"/threads/{life.thread.pk}/", f"at/{life.look.pk}/"
    tabs = ("diff", "state", "messages", "context", "effects", "raw")
    walk.visit(*(f"{thread}{step}?tab={tab}" for tab in tabs))
    walk.visit(f"{thread}{step}?tab=messages", whole="main")
    for one in Checkpoint.objects.filter(branch__in=[life.branch, life.fork]):
        walk.visit(f"{thread}at/{one.pk}/")
    failed = f"/threads/{life.failed.thread_id}/"
    walk.visit(failed, *(f"{failed}?tab={tab}" for tab in tabs))
    files = f"{thread}at/{life.filed.pk}/?tab=files"
    walk.visit(files, f"{files}&file=notes%2Fplan.md")
    walk.visit(
        f"{thread}search?q=evil",
        f"{thread}branches?q=e",
        f"{thread}fork/{life.look.pk}/",
    )
    walk.visit(f"{thread}history?path=/messages/0/content")
    beside = f"/threads/compare/{life.branch.pk}/{life.fork.pk}/"
    things = things_of(life)
    states = f"/threads/diff/{life.look.pk}/{things.other_checkpoint}/"
    walk.visit(beside, f"{beside}?at=1&split=1", states, f"{states}?split=1")


def test_what_answers_a_form(life, walk, bob):
    page = walk.page
    # A dry run of policies, and a call that is tried on them.
    walk.visit("/policies/?rule=1")
    page.click("button[data-default][value=dry]")
    expect(page.locator("#dry-run")).to_be_visible()
    walk.look("dry run")
    walk.visit(f"/agents/{DESK.name}/policies/?tool=mail")
    for field in page.locator(
        "#test-form textarea, #test-form input:not([type=hidden])"
    ).all():
        field.fill(ALL)
    page.click("#test-form button[data-default]")
    expect(page.locator("#test-result")).to_be_visible()
    walk.look("a call that is tried")
    # A decision that comes too late, after somebody else's.
    mail, drop = life.pending["mail"], life.pending["drop"]
    page.goto(f"/inbox/{drop.pk}/reject")
    decide.reject(drop, seen=drop.as_shown(), by=bob, reason=ALL)
    page.fill("#reason", ALL)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#apr-conflict")).to_be_visible()
    walk.look("somebody was faster")
    # Several at once.
    walk.visit(f"/inbox/batch?do=reject&id={life.pending['purge'].pk}&id={mail.pk}")
    page.fill("[name=reason]", ALL)
    page.click("#batch-form button[data-default]")
    expect(page.locator("#batch-form")).to_have_count(0)
    walk.look("a batch")


def test_one_whom_it_is_not_for(life, open_, join):
    """Of none of the groups: the rule and the groups are named as the reason."""
    join("carol", can_approve=True)
    walk = Walk(open_("/inbox/", as_="carol"))
    walk.visit(*(f"/inbox/{one.pk}/" for one in life.requests), "/inbox/?show=team")
    walk.end()


def test_on_a_phone_and_without_script(life, open_):
    for more in ({"size": PHONE}, {"script": False}):
        page = open_("/inbox/", as_="ada", **more)
        walk = Walk(page)
        paths = [
            f"/inbox/{life.pending[tool].pk}/" for tool in ("mail", "patch", "rent")
        ]
        paths += ["/inbox/?show=decided", f"/threads/{life.thread.pk}/"]
        walk.visit(*paths)
        walk.end()
