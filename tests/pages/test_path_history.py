"""Blame on pages: which step set a path, its history, what is watched, and search."""

from __future__ import annotations

import re
from html import unescape

import pytest

from agents.pages.thread import search as search_page
from checkpoints.access import Reason
from checkpoints.log.pack import pack_branch
from checkpoints.models import AuditEvent, CheckpointDelta
from checkpoints.pure import ops
from tests.pages.conftest import append, reply, result
from tests.pages.test_thread_page import opened, text


@pytest.fixture
def long(trip):
    """The trip, whose fare is set at 2, 6 and 8, and goes at 9; its hotel comes at 7."""
    put, delete = ops.put, ops.delete
    trip.branch = append(
        trip.branch,
        reply("again"),
        result("quote_fare", "dearer", put("/facts", "fare", "1500.00")),
        result(
            "hold_hotel", "held", put("/facts", "hotel", {"name": "Ryokan", "n": 2})
        ),
        result("quote_fare", "cheaper", put("/facts", "fare", "990.00")),
        result("forget", "gone", delete("/facts", "fare")),
    )
    return trip


@pytest.fixture
def ask(browser, alice, long):
    client = browser(alice)

    def ask(name, **query):
        query.setdefault("branch", str(long.branch.pk))
        return client.get(f"/threads/{long.thread.pk}/{name}", query)

    return ask


def plain(response) -> str:
    """The page's words."""
    page = re.sub(r"<[^>]+>", " ", text(response))
    return re.sub(r"\s+", " ", unescape(page))


def steps(page: str) -> list[int]:
    return [int(step) for step in re.findall(r'id="change-(\d+)"', page)]


# The history of a path


def test_each_step_that_changed_a_path_is_listed_the_last_first(ask):
    page = text(ask("history", path="/facts/fare"))
    assert steps(page) == [9, 8, 6, 2]
    said = plain(ask("history", path="/facts/fare"))
    assert "4 of 10 steps" in said
    assert "1200.00" in said
    assert "+300.00, +25 %" in said
    assert "removed" in said


def test_what_changed_within_a_path_is_named(ask):
    said = plain(ask("history", path="/facts"))
    assert steps(text(ask("history", path="/facts"))) == [9, 8, 7, 6, 2, 0]
    assert "/facts/hotel" in said


def test_the_slash_before_a_path_may_be_left_out(ask):
    assert steps(text(ask("history", path="facts/fare"))) == [9, 8, 6, 2]


def test_the_history_of_the_whole_state_has_every_step_that_changed_it(ask):
    assert steps(text(ask("history"))) == [9, 8, 7, 6, 5, 3, 2, 1, 0]


@pytest.mark.parametrize(
    "path", ["/never", "~", "~9", "/facts/fare/0", "\0", "/" * 3000]
)
def test_a_path_where_nothing_ever_was_says_so(ask, path):
    said = plain(ask("history", path=path))
    assert "No step of main ever had something there" in said


def test_a_fork_has_the_history_of_its_own_line(ask, long):
    branch = str(long.cheap.pk)
    assert steps(text(ask("history", path="/facts/fare", branch=branch))) == [2]
    assert steps(text(ask("history", path="/params/model", branch=branch))) == [3, 0]


def test_packed_steps_are_read_as_they_were(ask, long):
    steps_ = [result("count", str(n), ops.put("/vars", "n", n)) for n in range(150)]
    long.branch = append(long.branch, *steps_)
    before = text(ask("history", path="/vars/n"))
    pack_branch(long.branch.pk)
    assert (
        CheckpointDelta.objects.unscoped(Reason.TEST).filter(branch=long.branch).count()
        < 64
    )
    page = text(ask("history", path="/vars/n"))
    assert steps(page) == steps(before) == list(range(159, 139, -1))
    older = re.search(r'href="([^"]+)" rel="next"', page)
    assert older is not None
    query = dict(
        pair.split("=") for pair in unescape(older[1]).partition("?")[2].split("&")
    )
    assert query["before"] == "140"
    page = text(ask("history", path="/vars/n", before="140"))
    assert steps(page) == list(range(139, 119, -1))
    newer = re.search(r'href="([^"]+)" rel="prev"', page)
    assert newer is not None
    assert "before" not in newer[1]


@pytest.mark.parametrize(
    ("when", "value", "step"),
    [
        ("appears", "", 2),
        ("disappears", "", 9),
        ("equals", "1500.00", 6),
        ("equals", '"990.00"', 8),
        ("equals", "1", None),
        ("holds", "00", 2),
        ("holds", "99", 8),
        ("holds", "zebra", None),
    ],
)
def test_the_first_step_where_something_holds_is_found(ask, long, when, value, step):
    page = text(ask("history", path="/facts/fare", when=when, value=value))
    answer = page.partition('id="first"')[2].partition("</p>")[0]
    if step is None:
        assert "At no step" in answer
    else:
        assert f"step {step}</a>" in answer
        assert str(long.at(step)) in answer


def test_a_number_is_what_it_is_compared_with(ask, long):
    long.branch = append(
        long.branch, result("flag", "up", ops.put("/facts", "ready", True))
    )
    page = text(ask("history", path="/facts/ready", when="equals", value="true"))
    assert "step 10</a>" in page
    page = text(ask("history", path="/facts/ready", when="equals", value="1"))
    assert "At no step" in page
    page = text(
        ask(
            "history",
            path="/facts/hotel",
            when="equals",
            value='{"n": 2, "name": "Ryokan"}',
        )
    )
    assert "step 7</a>" in page


def test_a_question_without_what_it_needs_asks_nothing(ask):
    for more in ({"when": "holds"}, {"when": "never"}, {"when": ""}):
        assert 'id="first"' not in text(ask("history", path="/facts/fare", **more))


# On the thread's page


def test_the_state_says_which_step_set_each_path(browser, alice, long):
    page = text(browser(alice).get(long.page(8), {"tab": "state"}))
    fare = page.partition("<b hx-ignore>fare</b>")[2].partition("</li>")[0]
    assert "set at </span>step 8</a>" in fare
    assert "path=/facts/fare" in fare
    hotel = page.partition("<b hx-ignore>hotel</b>")[2].partition("</details>")[2]
    hotel = hotel.partition("</li>")[0]  # beside the summary: none holds a link
    assert "step 7</a>" in hotel
    assert str(long.at(7)) in hotel
    goal = page.partition("<b hx-ignore>goal</b>")[2].partition("</li>")[0]
    assert "step 0</a>" in goal


def test_the_diff_says_which_other_steps_changed_a_path(browser, alice, long):
    page = text(browser(alice).get(long.page(6)))
    diff = page.partition('id="diff"')[2]
    beside = diff.partition("/facts/fare</code>")[2].partition("</div>")[0]
    before, _, after = beside.partition("after:")
    assert str(long.at(2)) in before
    assert str(long.at(8)) in after
    assert f"/threads/{long.thread.pk}/history" in after


def watched(page: str) -> str:
    return page.partition('id="watch"')[2].partition("</section>")[0]


def test_a_watched_path_follows_while_one_steps_through(browser, alice, long):
    client = browser(alice)
    page = text(client.get(long.page(7), {"path": "/facts/fare"}))
    panel = watched(page)
    assert "1500.00" in panel
    assert "set at step 6" in panel
    assert 'data-hotkey="["' in panel
    assert str(long.at(6)) in panel
    assert str(long.at(8)) in panel
    # Every link to another step, tab or branch keeps it.
    for href in re.findall(r'<a class="step"[^>]* href="([^"]+)"', page):
        assert "path=%2Ffacts%2Ffare" in href
    dots = re.findall(r'id="step-(\d+)"(?:(?!id="step-).)*?class="dot"', page, re.S)
    assert dots == ["2", "6", "8", "9"]
    assert "changed here" in watched(
        text(client.get(long.page(8), {"path": "/facts/fare"}))
    )
    gone = watched(text(client.get(long.page(9), {"path": "/facts/fare"})))
    assert "Nothing is there" in gone
    assert 'data-hotkey="]"' not in gone


def test_the_address_of_parts_keeps_the_watched_path(browser, alice, long):
    response = browser(alice).get(long.parts(7), {"path": "/facts/fare"})
    assert "1500.00" in watched(text(response))
    assert "path=%2Ffacts%2Ffare" in response["HX-Push-Url"]


def test_a_watched_path_that_never_was_is_nothing(browser, alice, long):
    page = text(browser(alice).get(long.page(7), {"path": "/a~1b/\u202eevil"}))
    assert "Nothing is there" in watched(page)
    assert "\u202e" not in watched(page)


# Search


def test_search_names_steps_and_paths_the_first_first(ask, long):
    page = text(ask("search", q="ryokan"))
    assert "/facts/hotel/name" in page
    assert "step 7</a>" in page
    assert "<mark>Ryokan</mark>" in page
    assert "its name" in plain(ask("search", q="hotel"))
    assert "Nothing on the branch main ever held it." in plain(ask("search", q="zebra"))


def test_search_is_bounded_in_number(ask, long):
    many = {str(n): "kobold" for n in range(150)}
    long.branch = append(
        long.branch, result("fill", "x", ops.put("/facts", "many", many))
    )
    page = text(ask("search", q="kobold"))
    assert page.count("<mark>kobold</mark>") == search_page.MOST
    assert f"The first {search_page.MOST} places" in plain(ask("search", q="kobold"))


def test_search_stops_when_its_time_is_over():
    watched = search_page._Watched(iter([(n, []) for n in range(9)]), seconds=-1)
    assert list(watched) == []
    assert watched.stopped
    watched = search_page._Watched(iter([(n, []) for n in range(9)]), seconds=60)
    assert len(list(watched)) == 9
    assert not watched.stopped
    assert watched.last == 8


@pytest.mark.parametrize(
    ("value", "text_", "parts"),
    [
        ("Fly to Tokyo", "tokyo", ("Fly to ", "Tokyo", "")),
        ("Straße", "strasse", ("", "", "Straße")),
        (1200, "20", ("1", "20", "0")),
        (
            "x" * 100 + "kobold" + "y" * 100,
            "kobold",
            ("…" + "x" * 60, "kobold", "y" * 60 + "…"),
        ),
    ],
)
def test_an_excerpt_shows_what_was_found_where_it_stands(value, text_, parts):
    assert search_page.excerpt(value, text_) == parts


# Who may


@pytest.mark.parametrize(
    ("name", "query", "purpose"),
    [
        ("history", {"path": "/facts/fare"}, "history of a path"),
        ("search", {"q": "ryokan"}, "search in a thread"),
    ],
)
def test_each_look_is_recorded_with_the_steps_and_without_what_was_looked_for(
    ask, long, name, query, purpose
):
    before = opened(long.thread)
    text(ask(name, **query))
    assert opened(long.thread) == before + 1
    event = AuditEvent.objects.unscoped(Reason.TEST).filter(action="open").latest("at")
    assert event.purpose == purpose
    assert event.detail == {"steps": "0-9"}


def test_a_search_for_nothing_opens_nothing(ask, long):
    before = opened(long.thread)
    assert 'id="hits"' not in text(ask("search", q="  "))
    assert opened(long.thread) == before


@pytest.mark.parametrize("name", ["history", "search"])
def test_an_auditor_sees_that_it_is_sealed(browser, auditor, long, name):
    before = opened(long.thread)
    page = text(
        browser(auditor).get(
            f"/threads/{long.thread.pk}/{name}", {"path": "/facts", "q": "fare"}
        )
    )
    assert "sealed" in page
    assert "1500.00" not in page
    assert opened(long.thread) == before


@pytest.mark.parametrize("name", ["history", "search"])
@pytest.mark.parametrize("branch", ["nonsense", "00000000-0000-4000-8000-000000000000"])
def test_another_branch_is_not_there(ask, name, branch):
    assert ask(name, branch=branch, q="x").status_code == 404
