"""Who sees what of a thread, and what a thread that does not open shows."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client

from agents.models import Run
from checkpoints.access import Reason
from checkpoints.models import AuditEvent, Branch, DataKey, Thread, ThreadInput
from tests.pages.conftest import ASKED
from tests.pages.test_thread_page import TABS, opened, text

GETS = [
    "/threads/{thread}/",
    "/threads/{thread}/at/{step}/",
    "/threads/{thread}/fork/{step}/",
    "/f/threads/{thread}/",
    "/f/threads/{thread}/at/{step}/",
    "/f/threads/{thread}/scrub",
    "/f/threads/{thread}/live",
    "/f/threads/{thread}/live/{step}",
    "/threads/{thread}/branches",
    "/threads/{thread}/history",
    "/threads/{thread}/search",
]
POSTS = ["/threads/{thread}/message", "/threads/{thread}/fork/{step}/"]


def address(pattern, trip):
    return pattern.format(thread=trip.thread.pk, step=trip.at(2))


def counts():
    return [
        model.objects.unscoped(Reason.TEST).count()
        for model in (Thread, Branch, ThreadInput, Run, AuditEvent)
    ]


@pytest.mark.parametrize("pattern", GETS)
def test_another_workspace_finds_nothing(browser, trip, other, pattern):
    client = browser(other)
    before = counts()
    assert client.get(address(pattern, trip)).status_code == 404
    assert counts() == before


@pytest.mark.parametrize("pattern", POSTS)
def test_another_workspace_can_send_nothing(browser, trip, other, pattern):
    client = browser(other)
    before = counts()
    sent = {"branch": trip.branch.pk, "message": "Hello", "request_key": trip.at(0)}
    assert client.post(address(pattern, trip), sent).status_code == 404
    assert counts() == before


@pytest.mark.parametrize("pattern", GETS)
def test_a_stranger_is_sent_to_sign_in(trip, pattern):
    response = Client().get(address(pattern, trip))
    assert response.status_code == 302
    assert response["Location"].startswith("/login")


@pytest.mark.parametrize("pattern", POSTS)
def test_a_stranger_can_send_nothing(trip, pattern):
    before = counts()
    response = Client().post(address(pattern, trip), {"message": "Hello"})
    assert response.status_code == 302
    assert response["Location"].startswith("/login")
    assert counts() == before


def test_a_private_thread_is_its_owners(browser, make_trip, alice, bob):
    trip = make_trip(alice, visibility=Thread.Visibility.PRIVATE)
    assert browser(alice).get(trip.page()).status_code == 200
    assert browser(bob).get(trip.page()).status_code == 404


@pytest.mark.parametrize("tab", TABS)
def test_a_viewer_reads_everything_and_can_change_nothing(browser, trip, viewer, tab):
    page = text(browser(viewer).get(trip.page(2), {"tab": tab}))
    assert "Board week New York" in page
    assert "Cancel run" not in page
    assert "/fork/" not in page
    assert "An operator of the workspace can send messages" in page


@pytest.mark.parametrize("pattern", [*POSTS, "/threads/{thread}/fork/{step}/"])
def test_what_a_viewer_sends_is_refused(browser, trip, viewer, pattern):
    client = browser(viewer)
    before = counts()
    sent = {"branch": trip.branch.pk, "message": "Hello", "request_key": trip.at(0)}
    response = client.post(address(pattern, trip), sent)
    assert response.status_code == 403
    assert "operator" in response.content.decode()
    *things, events = before  # that it was refused is one more event
    assert counts() == [*things, events + 1]


@pytest.mark.parametrize("tab", TABS)
def test_an_auditor_sees_structure_and_no_content(browser, trip, auditor, tab):
    page = text(browser(auditor).get(trip.page(2), {"tab": tab}))
    assert "The content is sealed" in page
    assert 'id="step-4"' in page
    assert "quote_fare" in page  # a registered tool's name is stored in clear
    for secret in ("Board week", ASKED, "cheaper-model", "TP 209", "1200.00", "Alice:"):
        assert secret not in page
    assert opened(trip.thread) == 0


@pytest.mark.parametrize("step", range(5))
def test_an_auditor_can_walk_through_the_steps(browser, trip, auditor, step):
    page = text(browser(auditor).get(trip.page(step)))
    assert f'id="step-{step}"' in page
    assert "sealed" in page


def test_an_auditor_may_not_fork(browser, trip, auditor):
    response = browser(auditor).get(f"{trip.page()}fork/{trip.at(2)}/")
    assert response.status_code == 403


def alter(sql, *values):
    """Write to the log as somebody would who has the database, past its guards."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(sql, values)
        cursor.execute("SET LOCAL session_replication_role = origin")


def test_an_altered_thread_says_so_and_still_shows_its_structure(
    browser, trip, make_trip, alice
):
    whole = make_trip(alice, title="Another trip")
    alter("UPDATE checkpoints_checkpoint SET cost = 0 WHERE id = %s", trip.at(1))
    client = browser(alice)
    response = client.get(trip.page())
    page = response.content.decode()
    assert response.status_code == 500
    assert "This thread cannot be opened" in page
    assert "Step 1 of branch" in page
    assert 'id="step-4"' in page
    assert ASKED not in page
    assert client.get(whole.page()).status_code == 200
    listed = text(client.get("/threads/"))
    assert "Another trip" in listed


def test_a_record_that_does_not_open_is_that_threads_problem(
    browser, trip, make_trip, alice
):
    make_trip(alice, title="Another trip")
    alter(
        "UPDATE checkpoints_thread SET title = %s WHERE id = %s",
        bytes(100),
        trip.thread.pk,
    )
    client = browser(alice)
    assert "cannot be opened" in client.get(trip.page()).content.decode()
    listed = text(client.get("/threads/"))
    assert "Another trip" in listed
    assert "cannot be opened" in listed


def test_a_shredded_thread_is_gone(browser, trip, alice):
    DataKey.objects.unscoped(Reason.TEST).filter(thread=trip.thread).update(
        wrapped=None, destroyed_at=trip.thread.created_at
    )
    response = browser(alice).get(trip.page())
    assert response.status_code == 410
    assert "This thread cannot be opened" in response.content.decode()


def test_hostile_text_stays_inert(browser, make_trip, alice):
    trip = make_trip(
        alice, title='<script>alert("x")</script> invoice\u202egnp.exe <img src=x>'
    )
    for page in (
        text(browser(alice).get(trip.page())),
        text(browser(alice).get("/threads/")),
        text(browser(alice).get(f"{trip.page()}fork/{trip.at(2)}/")),
    ):
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert "\u202e" not in page
        assert "U+202E" in page
