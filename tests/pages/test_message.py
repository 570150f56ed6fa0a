"""The composer: a message to the agent, and why it sometimes cannot be sent."""

from __future__ import annotations

from uuid import uuid4

import pytest

from agents.models import Agent, Run
from checkpoints.access import Reason
from checkpoints.models import ThreadInput
from tests.pages.test_thread_page import text


@pytest.fixture
def message(trip):
    return {
        "branch": trip.branch.pk,
        "message": "Aisle, please",
        "request_key": str(uuid4()),
    }


def waiting():
    return ThreadInput.objects.unscoped(Reason.TEST).count()


def test_a_message_waits_for_the_decision(browser, trip, alice, message):
    client = browser(alice)
    response = client.post(f"{trip.page()}message", message)
    assert response.status_code == 303
    shown = text(client.get(response["Location"]))
    assert "Message sent" in shown
    assert "delivered after the decision" in shown
    assert "Aisle, please" in shown  # queued
    assert Run.objects.unscoped(Reason.TEST).count() == 1


def test_a_double_click_sends_one_message(browser, trip, alice, message):
    client = browser(alice)
    client.post(f"{trip.page()}message", message)
    client.post(f"{trip.page()}message", message)
    assert waiting() == 1


def test_an_empty_message_is_not_sent(browser, trip, alice, message):
    response = browser(alice).post(f"{trip.page()}message", message | {"message": " "})
    assert response.status_code == 422
    assert "Write what the agent should know" in response.content.decode()
    assert waiting() == 0


def test_what_was_typed_is_kept_when_it_cannot_be_sent(browser, trip, alice, message):
    Run.objects.unscoped(Reason.TEST).update(status="failed")
    Agent.objects.unscoped(Reason.TEST).update(name="retired")
    response = browser(alice).post(f"{trip.page()}message", message)
    shown = response.content.decode()
    assert response.status_code == 422
    assert "No agent is called" in shown
    assert "Aisle, please</textarea>" in shown
    assert waiting() == 0


def test_with_script_only_the_form_comes_back(browser, trip, alice, message):
    response = browser(alice).post(
        f"{trip.page()}message",
        message | {"message": ""},
        headers={"HX-Request": "true"},
    )
    assert response.status_code == 422
    assert response.content.decode().lstrip().startswith("<form")


def test_an_imported_thread_asks_for_an_agent(browser, make_thread, alice):
    branch = make_thread(owner=alice, origin="import")
    shown = text(browser(alice).get(f"/threads/{branch.thread_id}/"))
    assert "imported" in shown
    assert 'id="say-agent"' in shown
