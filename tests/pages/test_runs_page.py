"""The Runs page: what it lists, and what Retry and Cancel answer."""

from __future__ import annotations

import pytest
from django.db import connection

from agents.models import Run
from checkpoints.access import Reason

pytestmark = pytest.mark.django_db


def runs():
    return Run.objects.unscoped(Reason.TEST)


def page(client, path: str = "/runs/") -> str:
    return client.get(path).content.decode()


def press(client, run: Run, verb: str) -> str:
    """The page that pressing the run's button leads to."""
    answer = client.post(f"/runs/{run.pk}/{verb}")
    assert answer.status_code == 303
    return page(client, answer["Location"])


def test_a_failed_run_says_where_and_why_and_offers_a_retry(browser, trip, alice):
    runs().filter(pk=trip.run.pk).update(
        status="failed", failed_step=4, error_class="tool_stopped"
    )
    listed = page(browser(alice), "/runs/?show=failed")
    assert "step 4: " in listed
    assert "tool_stopped" in listed
    assert f"/runs/{trip.run.pk}/retry" in listed


@pytest.mark.parametrize("status", ["waiting", "succeeded"])
def test_a_run_that_cannot_be_tried_again_says_so(browser, trip, alice, status):
    runs().filter(pk=trip.run.pk).update(status=status)
    assert f"This run is {status}" in press(browser(alice), trip.run, "retry")
    assert not runs().filter(retry_of=trip.run).exists()


def test_a_run_whose_agent_no_app_registers_any_more_says_so(browser, trip, alice):
    runs().filter(pk=trip.run.pk).update(status="failed")
    agent = trip.run.agent_version.agent
    agent.name = "retired"
    agent.save(update_fields=["name"])
    assert "No agent is called" in press(browser(alice), trip.run, "retry")


def test_a_waiting_run_is_cancelled_at_once(browser, trip, alice):
    assert "Cancelled." in press(browser(alice), trip.run, "cancel")
    assert runs().get(pk=trip.run.pk).status == "cancelled"
    assert "It was over already" in press(browser(alice), trip.run, "cancel")


def test_one_record_that_does_not_open_hides_no_other(browser, trip, make_trip, alice):
    make_trip(alice, title="Another trip")
    with connection.cursor() as cursor:
        for table, column in (
            ("agents_toolcall", "title"),
            ("checkpoints_thread", "title"),
        ):
            key = "thread_id" if table == "agents_toolcall" else "id"
            cursor.execute(
                f"UPDATE {table} SET {column} = %s WHERE {key} = %s",  # noqa: S608
                [bytes(100), trip.thread.pk],
            )
    client = browser(alice)
    assert "Another trip" in page(client)
    inbox = client.get(f"/inbox/{trip.approval.pk}/")
    assert inbox.status_code == 200
    assert "This request cannot be opened." in inbox.content.decode()
    assert client.get("/inbox/").status_code == 200


def test_another_workspace_can_neither_retry_nor_cancel(browser, trip, other):
    for verb in ("retry", "cancel"):
        assert browser(other).post(f"/runs/{trip.run.pk}/{verb}").status_code == 404


def test_a_viewer_can_neither_retry_nor_cancel(browser, trip, viewer):
    for verb in ("retry", "cancel"):
        assert browser(viewer).post(f"/runs/{trip.run.pk}/{verb}").status_code == 403
