"""Buttons that hold runs: pause and resume of one, and the kill switch for all."""

from __future__ import annotations

import pytest

from checkpoints.access import Reason, Role
from checkpoints.models import Membership
from tests.pages.test_runs_page import page, press, runs

pytestmark = pytest.mark.django_db

STOPPED = "All runs of this workspace are stopped"


@pytest.fixture
def chief(alice):
    """Alice, as an admin of the workspace."""
    Membership.objects.unscoped(Reason.TEST).filter(user_id=alice.user_id).update(
        role=Role.ADMIN
    )
    return alice


def test_a_run_is_paused_and_resumed_where_it_is_shown(browser, trip, alice):
    client = browser(alice)
    resume = f"/runs/{trip.run.pk}/resume"
    assert resume not in page(client)
    shown = press(client, trip.run, "pause")
    assert "Paused." in shown
    assert resume in shown  # the thread's page
    assert "paused, waits for a person" in shown
    assert "paused by a person" in page(client)
    assert "It is paused already" in press(client, trip.run, "pause")
    assert "The run goes on." in press(client, trip.run, "resume")
    assert "It was not paused." in press(client, trip.run, "resume")


def test_a_run_at_work_says_that_it_pauses_after_its_step(browser, trip, alice):
    runs().filter(pk=trip.run.pk).update(status="running")
    client = browser(alice)
    assert "It pauses after this step." in press(client, trip.run, "pause")
    assert "pauses after this step" in page(client)


def test_an_admin_stops_all_runs_and_every_page_says_so(browser, trip, chief, bob):
    client = browser(chief)
    assert "/runs/halt" in page(client)
    answer = client.post("/runs/halt")
    assert STOPPED in page(client, answer["Location"])
    for path in ("/inbox/", "/threads/", f"/threads/{trip.thread.pk}/", "/audit/"):
        assert STOPPED in page(client, path)
    theirs = page(browser(bob))
    assert STOPPED in theirs
    assert "/runs/lift" not in theirs
    answer = client.post("/runs/lift")
    assert STOPPED not in page(client, answer["Location"])


def test_an_operator_has_no_kill_switch(browser, trip, bob):
    client = browser(bob)
    assert "/runs/halt" not in page(client)
    assert client.post("/runs/halt").status_code == 403
