"""Search across threads by text: what is opened for it, how far it comes, who may."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from uuid import UUID

import pytest

from agents.pages.threads import search
from agents.pages.threads.search import Bounds
from checkpoints.access import Reason
from checkpoints.ids import short
from checkpoints.models import AuditEvent
from checkpoints.pure import ops
from checkpoints.pure.find import appears
from tests.pages.conftest import append, result
from tests.pages.test_thread_page import text
from tests.pages.test_threads_list import rows
from tests.tampering import tamper


@pytest.fixture
def look(browser, alice):
    client = browser(alice)

    def look(wanted, **query):
        return text(client.get("/threads/", {"q": wanted} | query))

    return look


def further(page):
    found = re.search(r'<a href="([^"]*)" rel="next">search further', page)
    return "/threads/" + unescape(found[1]) if found else ""


def opened_for_search():
    return [
        event.detail
        for event in AuditEvent.objects.unscoped(Reason.TEST)
        .filter(action="open", purpose="search threads")
        .order_by("position")
    ]


def test_it_finds_titles_values_and_keys_whatever_their_case(look, make_thread, alice):
    made = {
        what: str(make_thread(owner=alice, title=title, state=state).thread_id)
        for what, title, state in (
            ("title", "Board WEEK", {"messages": []}),
            ("value", "A", {"messages": [{"id": "m", "content": "the board week"}]}),
            ("key", "B", {"facts": {"Board week": None}}),
            ("number", "C", {"facts": {"fare": 1234567}}),
            ("none", "D", {"messages": []}),
        )
    }
    assert rows(look("board week")) == [made["key"], made["value"], made["title"]]
    assert rows(look("1234567")) == [made["number"]]
    assert made["none"] in rows(look(short(UUID(made["none"]))))
    assert rows(look(made["none"])) == [made["none"]]
    assert "No thread matches" in look("zebra")


def test_states_are_looked_at_as_they_are_at_the_newest_step(look, make_thread, alice):
    branch = make_thread(owner=alice, title="A", state={"facts": {"hold": "TP 209"}})
    assert rows(look("tp 209"))
    append(branch, result("drop", "", ops.put("/facts", "hold", "LH 400")))
    assert not rows(look("tp 209"))
    assert rows(look("lh 400"))


def test_other_filters_hold(look, trip, make_thread, alice):
    make_thread(owner=alice, title="Board week, no run")
    assert len(rows(look("board"))) == 2
    assert rows(look("board", status="waiting")) == [str(trip.thread.pk)]
    assert rows(look("1200.00", agent="trip-planner")) == [str(trip.thread.pk)]


@pytest.fixture
def fifty(make_thread, alice):
    """Of fifty threads each fifth is a visa; the newest first."""
    made = [
        make_thread(owner=alice, title="Visa" if n % 5 == 0 else "Trip", state={})
        for n in range(50)
    ]
    return [str(branch.thread_id) for branch in made[::-1]]


def test_it_is_bounded_and_goes_on_from_there(look, browser, alice, fifty, monkeypatch):
    monkeypatch.setattr(search, "BOUNDS", Bounds(threads=20))
    page = look("visa")
    found = rows(page)
    assert "Searched the newest 20 of 50 threads; narrow the filters" in page
    page = text(browser(alice).get(further(page)))
    found += rows(page)
    assert "Searched the newest 40 of 50 threads" in page
    page = text(browser(alice).get(further(page)))
    found += rows(page)
    assert "Searched all 50 threads" in page
    assert not further(page)
    assert found == fifty[4::5]
    # As many were opened as were said to be, and none twice.
    assert [detail["count"] for detail in opened_for_search()] == [20, 20, 10]


def test_it_ends_when_its_time_is_over_and_comes_on_all_the_same(
    look, browser, alice, fifty, monkeypatch
):
    monkeypatch.setattr(search, "BOUNDS", Bounds(time=timedelta(0)))
    page = look("visa")
    assert "Searched the newest 1 of 50 threads" in page
    page = text(browser(alice).get(further(page)))
    assert "Searched the newest 2 of 50 threads" in page


def test_what_does_not_fit_on_a_page_is_on_the_next(look, browser, alice, fifty):
    page = look("i")  # Trip and Visa
    assert rows(page) == fifty[:25]
    assert "Searched the newest 25 of 50 threads" in page
    assert rows(text(browser(alice).get(further(page)))) == fifty[25:]


def test_what_comes_meanwhile_moves_nothing(
    look, browser, make_thread, alice, fifty, monkeypatch
):
    monkeypatch.setattr(search, "BOUNDS", Bounds(threads=20))
    link = further(look("visa"))
    make_thread(owner=alice, title="Visa", state={})
    page = text(browser(alice).get(link))
    assert rows(page) == fifty[24:40:5]
    assert "Searched the newest 41 of 51 threads" in page


def test_a_state_that_does_not_open_hides_no_other(look, make_thread, alice):
    broken = make_thread(owner=alice, title="A", state={"facts": "visa"})
    whole = make_thread(owner=alice, title="B", state={"facts": "visa"})
    tamper(
        "UPDATE checkpoints_checkpointdelta SET record = %s WHERE branch_id = %s",
        [b"nothing", broken.pk],
    )
    page = look("visa")
    assert rows(page) == [str(whole.thread_id)]
    assert "1 could not be opened" in page


def test_what_is_not_shared_is_neither_found_nor_counted_nor_opened(
    look, make_thread, alice, bob
):
    make_thread(owner=bob, title="Visa", state={}, visibility="private")
    make_thread(owner=alice, title="Visa", state={})
    page = look("visa")
    assert len(rows(page)) == 1
    assert "Searched all 1 thread:" in page
    assert len(opened_for_search()) == 1


def test_who_may_not_read_searches_nothing(browser, trip, auditor):
    page = text(browser(auditor).get("/threads/", {"q": "zebra"}))
    assert rows(page) == [str(trip.thread.pk)]
    assert "Searched" not in page
    assert not opened_for_search()
    assert "1 match" not in page  # nobody looked
    assert "“zebra”" not in page
    assert "sealed for your role. Nothing was searched." in page


def test_the_audit_log_says_that_it_was_searched_and_not_for_what(look, trip):
    look("zebra")
    for event in AuditEvent.objects.unscoped(Reason.TEST):
        assert "zebra" not in str(vars(event))
    assert opened_for_search()


@pytest.mark.parametrize(
    ("state", "wanted", "there"),
    [
        ({"a": [{"b": "Straße"}]}, "strasse", True),
        ({"a": True}, "true", True),
        ({"a": None}, "null", True),
        ({"A key": 1}, "a key", True),
        ({"a": 1}, "2", False),
        (
            {
                "a": {
                    "$blob": "x" * 22,
                    "size": 9,
                    "media_type": "t",
                    "digest": "first words",
                }
            },
            "first words",
            True,
        ),
        ({"a": []}, "[", False),
    ],
)
def test_where_a_text_is_looked_for(state, wanted, there):
    assert appears(state, wanted) is there
