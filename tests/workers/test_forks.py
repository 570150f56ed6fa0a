"""A fork goes on from an old step, and repeats no effect unasked."""

from __future__ import annotations

import pytest

from agents.approvals import decide
from agents.errors import InvalidEdit
from agents.models import Run, ToolCall
from agents.runs import start, stop
from agents.runs.edits import ForkEdits
from checkpoints.access import Role
from checkpoints.errors import NotPermitted
from checkpoints.models import Checkpoint
from tests.workers.conftest import kinds, pending

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def booked(begin, work, server) -> Run:
    """Looked, booked a hotel, booked a flight, said so."""
    server.will_call("c1", "look", what="hotels")
    server.will_call("c2", "book", item="hotel", price="100")
    server.will_call("c2", "book", item="flight", price="200")
    server.will_say("Both booked.")
    run = begin("Book both.")
    work()
    return run


@pytest.fixture
def fork(alice):
    def fork(run: Run, step: int, by=alice, calls="recorded", **edits):
        source = Checkpoint.objects.get(branch=run.branch, step=step)
        branch = start.fork_run(
            source, edits=ForkEdits(**edits), name="", by=by, calls=calls
        )
        return Run.objects.get(branch=branch)

    return fork


def test_the_same_calls_use_what_was_recorded(booked, fork, work, server):
    before = len(server.ledger())
    server.will_call("c2", "book", item="hotel", price="100")
    server.will_call("c3", "book", item="flight", price="200")
    server.will_say("Both booked, again.")
    forked = fork(booked, 2, system="Be brief.")
    work()
    forked.refresh_from_db()
    assert forked.status == "succeeded"
    assert kinds(forked) == ["edit", "model", "tool", "model", "tool", "model"]
    assert len(server.ledger()) == before
    calls = ToolCall.objects.filter(run=forked).order_by("created_at")
    sources = calls.values_list("recorded_from__run", flat=True)
    assert list(sources) == [booked.pk] * 2


def test_what_a_recorded_call_remembered_is_remembered_in_the_fork(
    begin, fork, work, server, history
):
    server.will_call("c1", "hold", item="seat")
    server.will_say("Held.")
    run = begin("Hold a seat.")
    work()
    server.will_call("c1", "hold", item="seat")
    server.will_say("Held, as before.")
    forked = fork(run, 0, system="Be brief.")
    work()
    forked.refresh_from_db()
    assert len(server.ledger()) == 1
    made = history(forked.branch)
    assert made.state_at(forked.branch.head_step)["vars"] == {"seat": 1}


def test_any_other_effect_asks_a_person_whatever_the_rule(
    booked, fork, work, server, bob
):
    before = len(server.ledger())
    server.will_call("c2", "book", item="hostel", price="20")
    server.will_say("A hostel.")
    forked = fork(booked, 2, message="Something cheap.")
    work()
    (approval,) = pending(forked)
    assert len(server.ledger()) == before
    assert approval.rule == "every call with effects on a fork"
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    work()
    assert len(server.ledger()) == before + 1


def test_calls_that_were_open_at_the_fork_are_other_calls_there(
    begin, fork, work, server, bob
):
    server.will_call("c1", "book", item="flight", price="1200")
    server.will_say("Booked.")
    run = begin()
    work()
    forked = fork(run, 1)  # at the reply that made the call
    work()
    forked.refresh_from_db()
    assert forked.status == "waiting"
    (first,), (second,) = pending(run), pending(forked)
    assert first.call_id != second.call_id
    decide.approve(first, seen=first.as_shown(), by=bob)
    decide.reject(second, seen=second.as_shown(), by=bob, reason="once is enough")
    work()
    assert len(server.ledger()) == 1
    for each in (run, forked):
        each.refresh_from_db()
        assert each.status == "succeeded"


def test_edits_reach_the_model(booked, fork, work, server):
    server.will_say("As you say.")
    fork(
        booked, 0, system="Be terse.", temperature=0.5, seed=3, message="Just a hotel."
    )
    work()
    asked = server.requests[-1]
    assert asked["messages"][0]["content"] == "Be terse."
    assert asked["messages"][1]["content"] == "Just a hotel."
    assert (asked["temperature"], asked["seed"]) == (0.5, 3)


def test_a_fork_without_changes_begins_without_an_edit(booked, fork, work):
    forked = fork(booked, 0, message="Book both.")
    work()
    assert kinds(forked) == kinds(booked)[1:]  # the model says the same again


def test_edits_that_do_not_fit_name_their_fields(booked, fork):
    with pytest.raises(InvalidEdit) as refused:
        fork(booked, 0, temperature=7, top_p=0, model=" ", message="  ")
    assert set(refused.value.fields) == {"temperature", "top_p", "model", "message"}


def test_a_viewer_changes_nothing(booked, fork, viewer):
    assert viewer.role == Role.VIEWER
    with pytest.raises(NotPermitted):
        fork(booked, 0, by=viewer)
    with pytest.raises(NotPermitted):
        start.send_message(booked.branch, message="Hello", by=viewer)
    with pytest.raises(NotPermitted):
        stop.cancel(booked, by=viewer)


def test_a_simulated_fork_makes_no_call_and_says_so(
    booked, fork, work, server, alice, history
):
    before = len(server.ledger())
    server.will_call("c2", "book", item="hotel", price="100")  # recorded
    server.will_call("c3", "book", item="hostel", price="2000")  # not, and dear
    server.will_say("A hostel, as if.")
    forked = fork(booked, 2, message="Something dear.", calls="simulate")
    assert forked.branch.calls == "simulate"
    work()
    forked.refresh_from_db()
    assert forked.status == "succeeded"
    assert len(server.ledger()) == before
    assert "was not made" in server.requests[-1]["messages"][-1]["content"]
    calls = ToolCall.objects.filter(run=forked).order_by("created_at")
    assert list(calls.values_list("status", flat=True)) == ["succeeded", "simulated"]
    # What was made up is nothing that a fork of the fork could have recorded.
    server.will_call("c3", "book", item="hostel", price="2000")
    source = Checkpoint.objects.get(branch=forked.branch, step=5)
    again = start.fork_run(source, edits=ForkEdits(system="x"), name="", by=alice)
    work()
    assert len(pending(Run.objects.get(branch=again))) == 1


def test_a_live_fork_asks_about_each_call_recorded_or_not(
    booked, fork, work, server, bob
):
    before = len(server.ledger())
    server.will_call("c2", "book", item="hotel", price="100")
    server.will_say("Booked once more.")
    forked = fork(booked, 2, system="Be brief.", calls="live")
    work()
    (approval,) = pending(forked)
    assert len(server.ledger()) == before
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    work()
    forked.refresh_from_db()
    assert forked.status == "succeeded"
    assert len(server.ledger()) == before + 1
    # A message to the branch later: as it was forked.
    server.will_call("c4", "book", item="hotel", price="100")
    start.send_message(forked.branch, message="And again.", by=bob)
    work()
    assert len(pending(Run.objects.filter(branch=forked.branch).latest("pk"))) == 1
