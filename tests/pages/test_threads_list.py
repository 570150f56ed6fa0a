"""The threads list: what stands where, its filters and its pages."""

from __future__ import annotations

import re
from decimal import Decimal
from uuid import uuid4

import pytest

from agents.models import Run
from checkpoints.access import Reason
from tests.pages.conftest import ASKED
from tests.pages.test_thread_page import text


def rows(page):
    return re.findall(r'<tr id="t-([0-9a-f-]+)"', page)


def test_a_row_says_what_stands_where(browser, trip, alice):
    Run.objects.unscoped(Reason.TEST).update(cost=Decimal("0.006"), tokens=3_840)
    page = text(browser(alice).get("/threads/"))
    assert rows(page) == [str(trip.thread.pk)]
    assert "Board week New York" in page
    assert "Book TP 209" in page  # the newest step of the branch that is at work
    assert "trip-planner" in page
    assert "$0.006" in page
    assert "3.8k" in page
    assert 'path d="M0.0 18v-' in page
    assert 'aria-label="Last 5 steps, the longest 1.1s"' in page


def test_an_empty_list_says_how_to_begin(browser, alice):
    page = text(browser(alice).get("/threads/"))
    assert "No threads yet" in page
    assert "Start a run" in page


def test_a_viewer_is_not_told_to_start_runs(browser, viewer):
    page = text(browser(viewer).get("/threads/"))
    assert "No threads yet" in page
    assert "/runs/new" not in page


def way(page, rel):
    """Where the link to the next or previous page leads; empty without one."""
    found = re.search(rf'href="([^"]*)" rel="{rel}"', page)
    return "/threads/" + found[1].replace("&amp;", "&") if found else ""


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"status": "waiting"}, True),
        ({"status": "failed"}, False),
        ({"status": "done"}, False),
        ({"status": "forked"}, True),
        ({"agent": "trip-planner"}, True),
        ({"agent": "rebooking"}, False),
        ({"since": "day"}, True),
        ({"q": "board WEEK"}, True),
        ({"q": "zebra"}, False),
        ({"q": "board", "status": "failed"}, False),
        ({"status": "nonsense", "since": "nonsense", "before": "nonsense"}, True),
    ],
)
def test_filters(browser, trip, alice, query, found):
    page = text(browser(alice).get("/threads/", query))
    assert bool(rows(page)) is found
    assert ("No thread matches" in page) is not found


def test_an_imported_thread_has_a_status_of_its_own(browser, make_thread, alice):
    make_thread(owner=alice, origin="import")
    assert "imported" in text(browser(alice).get("/threads/"))


def test_a_live_run_counts_more_than_a_newer_one_that_ended(browser, trip, alice):
    Run.objects.create(
        workspace=trip.run.workspace,
        thread=trip.thread,
        branch=trip.cheap,
        agent_version=trip.run.agent_version,
        grant=trip.run.grant,
        status=Run.Status.FAILED,
    )
    client = browser(alice)
    assert rows(text(client.get("/threads/", {"status": "waiting"})))
    assert not rows(text(client.get("/threads/", {"status": "failed"})))


def test_pages_go_back_and_forth_without_a_gap(browser, make_thread, alice):
    made = [
        str(make_thread(owner=alice, title=f"Trip {n}").thread_id) for n in range(60)
    ]
    client = browser(alice)
    seen = []
    pages = [text(client.get("/threads/"))]
    while older := way(pages[-1], "next"):
        pages.append(text(client.get(older)))
    for page in pages:
        seen += rows(page)
    assert seen == made[::-1]
    back = text(client.get(way(pages[-1], "prev")))
    assert rows(back) == made[::-1][25:50]
    assert rows(text(client.get(way(back, "prev")))) == made[::-1][:25]


@pytest.mark.parametrize(
    "moment",
    [
        "0001-01-01T00:00:00+23:59",
        "2026-11-21T00:00:00-23:59",
        "9999-12-31T23:59:59-23:59",
        "9999-12-31T23:59:59",
        "2026-02-30T00:00:00",
    ],
)
@pytest.mark.parametrize("way", ["before", "after"])
def test_no_cursor_that_someone_makes_up_breaks_the_list(browser, alice, way, moment):
    answer = browser(alice).get("/threads/", {way: f"{moment}~{uuid4()}"})
    assert answer.status_code == 200


def test_a_search_has_pages_too(browser, make_thread, alice):
    for n in range(30):
        make_thread(owner=alice, title=f"Trip {n}")
        make_thread(owner=alice, title=f"Visa {n}")
    page = text(browser(alice).get("/threads/", {"q": "visa"}))
    assert len(rows(page)) == 25
    assert "before=" in page
    assert "Trip" not in page.partition("<tbody")[2]


def test_another_workspaces_threads_are_not_there(browser, trip, other):
    page = text(browser(other).get("/threads/"))
    assert "No threads yet" in page


def test_an_auditor_sees_rows_without_content(browser, trip, auditor):
    page = text(browser(auditor).get("/threads/", {"q": "board"}))
    assert rows(page) == [str(trip.thread.pk)]
    for secret in ("Board week", ASKED, "Book TP 209"):
        assert secret not in page


def test_a_stranger_is_sent_to_sign_in(client, db):
    assert client.get("/threads/")["Location"].startswith("/login")


def test_a_list_with_threads_at_work_is_asked_for_anew(browser, trip, alice):
    client = browser(alice)
    page = text(client.get("/threads/"))
    tag = page.partition('hx-ptag="')[2].partition('"')[0]
    same = client.get("/f/threads/", headers={"HX-PTag": tag})
    assert same.status_code == 304
    Run.objects.unscoped(Reason.TEST).update(status="succeeded")
    anew = client.get("/f/threads/", headers={"HX-PTag": tag})
    assert rows(text(anew)) == [str(trip.thread.pk)]
    assert anew["HX-PTag"] != tag
    assert "hx-ptag" not in text(anew)  # nothing is at work any more


def test_a_search_is_not_repeated_every_few_seconds(browser, trip, alice):
    page = text(browser(alice).get("/threads/", {"q": "board"}))
    assert 'hx-ptag="' not in page
