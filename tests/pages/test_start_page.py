"""Start a run with a message: one form, one run, for those whom it is shared with."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest

from agents.models import Agent, Run
from checkpoints.access import Reason
from checkpoints.models import Group, Membership, Thread

pytestmark = pytest.mark.django_db(transaction=True)

ASKED = "Lisbon to New York on 30 November, for Helen Marsh"


@pytest.fixture
def send(browser):
    """Sends the form, as this person typed it."""

    def send(person, **typed):
        form = {
            "agent": "trip-planner",
            "message": ASKED,
            "visibility": "workspace",
            "request_key": str(uuid4()),
        }
        return browser(person).post("/runs/new", form | typed)

    return send


@pytest.fixture
def group(workspace, omar):
    """A group that Omar is in."""
    made = Group.objects.create(workspace=workspace, name="Board travel")
    made.members.add(Membership.objects.unscoped(Reason.TEST).get(user=omar.user_id))
    return made


def threads():
    return Thread.objects.unscoped(Reason.TEST)


def test_a_message_starts_a_run_and_leads_to_its_thread(send, alice):
    answer = send(alice)
    run = Run.objects.unscoped(Reason.TEST).get()
    assert answer.status_code == 303
    assert answer["Location"] == f"/threads/{run.thread_id}/"
    assert run.status == "ready"


def test_a_double_click_starts_one_run(send, alice):
    key = str(uuid4())
    first, second = send(alice, request_key=key), send(alice, request_key=key)
    assert first["Location"] == second["Location"]
    assert threads().count() == 1


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"message": "  "}, "The message is empty."),
        ({"agent": "nobody"}, "No agent is called"),
        ({"visibility": "everyone"}, "Select a valid choice."),
    ],
)
def test_what_is_wrong_is_said_and_what_was_typed_is_kept(send, alice, typed, said):
    answer = send(alice, title="Board week", **typed)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert said in page
    assert "Board week" in page
    assert not threads().exists()


def test_a_thread_of_a_group_is_seen_by_those_who_are_in_it(
    send, browser, omar, alice, group
):
    page = browser(omar).get("/runs/new").content.decode()
    assert "the group Board travel" in page
    path = send(omar, visibility=str(group.pk))["Location"]
    assert threads().get().visibility == "group"
    assert browser(omar).get(path).status_code == 200
    assert browser(alice).get(path).status_code == 404


def test_a_thread_is_not_shared_with_a_group_by_one_outside_it(send, alice, group):
    assert send(alice, visibility=str(group.pk)).status_code == 422
    assert not threads().exists()


def test_an_agent_that_is_switched_off_is_not_started(send, alice):
    send(alice)
    Agent.objects.unscoped(Reason.TEST).update(enabled=False)
    answer = send(alice, title="Board week")
    assert answer.status_code == 422
    page = answer.content.decode()
    assert "trip-planner is switched off in this workspace" in page
    assert "Board week" in page
    assert threads().count() == 1


def test_an_agent_that_is_switched_off_is_not_offered(browser, send, alice):
    radio = 'value="trip-planner"'
    send(alice)
    assert radio in browser(alice).get("/runs/new").content.decode()
    Agent.objects.unscoped(Reason.TEST).update(enabled=False)
    page = browser(alice).get("/runs/new").content.decode()
    assert radio not in page


def test_the_agent_that_was_declared_first_is_chosen(browser, alice):
    page = browser(alice).get("/runs/new").content.decode()
    offered = re.findall(r'name="agent" value="([^"]+)"([^>]*)>', page)
    assert [name for name, _ in offered][:2] == ["trip-planner", "handbook-editor"]
    assert [name for name, rest in offered if "checked" in rest] == ["trip-planner"]


def test_a_viewer_is_told_who_can(send, viewer):
    answer = send(viewer)
    assert answer.status_code == 403
    assert "Operators and admins" in answer.content.decode()
