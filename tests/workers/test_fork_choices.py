"""What becomes of single recorded calls in a fork, where that was chosen call by call."""

from __future__ import annotations

from uuid import uuid4

import pytest

from agents.approvals import decide
from agents.errors import InvalidEdit
from agents.models import Approval, Run, ToolCall
from agents.runs import start
from agents.runs.edits import ForkEdits
from checkpoints.models import Branch, Checkpoint
from tests.workers.conftest import pending

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def booked(begin, work, server) -> Run:
    """Looked, booked the same hotel twice, said so."""
    server.will_call("c1", "look", what="hotels")
    server.will_call("c2", "book", item="hotel", price="100")
    server.will_call("c3", "book", item="hotel", price="100")
    server.will_say("Both booked.")
    run = begin("Book both.")
    work()
    return run


@pytest.fixture
def calls(booked) -> dict[str, ToolCall]:
    look, first, second = ToolCall.objects.filter(run=booked).order_by("created_at")
    return {"look": look, "first": first, "second": second}


@pytest.fixture
def fork(booked, alice):
    """A fork from the first message, with these choices by call."""

    def fork(choices, *, by=alice, calls="recorded") -> Run:
        branch = start.fork_run(
            Checkpoint.objects.get(branch=booked.branch, step=0),
            edits=ForkEdits(system="Be brief."),
            name="",
            by=by,
            calls=calls,
            call_choices={call.pk: choice for call, choice in choices.items()},
        )
        return Run.objects.get(branch=branch)

    return fork


def made(run: Run) -> list[tuple[str, str, bool]]:
    """Its calls: tool, status, and whether it got a recorded result."""
    rows = ToolCall.objects.filter(run=run).order_by("created_at")
    return [(row.tool, row.status, bool(row.recorded_from_id)) for row in rows]


def ask_the_same(server) -> None:
    server.will_call("d1", "look", what="hotels")
    server.will_call("d2", "book", item="hotel", price="100")
    server.will_call("d3", "book", item="hotel", price="100")
    server.will_say("As before.")


def test_each_of_two_equal_calls_has_its_own_choice(fork, calls, work, server):
    before = len(server.ledger())
    ask_the_same(server)
    forked = fork({calls["first"]: "simulate"})
    work()
    assert made(forked) == [
        ("look", "succeeded", False),
        ("book", "simulated", False),
        ("book", "succeeded", True),
    ]
    used = ToolCall.objects.get(run=forked, recorded_from__isnull=False)
    assert used.recorded_from_id == calls["second"].pk
    assert len(server.ledger()) == before


def test_a_recorded_call_that_is_to_be_made_asks_a_person(
    fork, calls, work, server, bob
):
    before = len(server.ledger())
    ask_the_same(server)
    forked = fork({calls["first"]: "live"})
    work()
    [approval] = pending(forked)
    assert len(server.ledger()) == before
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    work()
    forked.refresh_from_db()
    assert forked.status == "succeeded"
    assert len(server.ledger()) == before + 1
    assert made(forked)[-1] == ("book", "succeeded", True)  # the second: its result


def test_a_read_can_get_what_the_source_read(fork, calls, work, server):
    ask_the_same(server)
    forked = fork({calls["look"]: "recorded"})
    work()
    assert made(forked)[0] == ("look", "succeeded", True)


def test_a_choice_can_be_safer_than_the_branchs(fork, calls, work, server):
    before = len(server.ledger())
    ask_the_same(server)
    forked = fork(
        {calls["first"]: "recorded", calls["second"]: "simulate"}, calls="live"
    )
    work()
    assert [status for _, status, _ in made(forked)] == [
        "succeeded",
        "succeeded",
        "simulated",
    ]
    assert len(server.ledger()) == before


def test_other_calls_are_treated_as_the_branchs_are(fork, calls, work, server):
    server.will_call("d1", "book", item="hostel", price="20")
    server.will_say("A hostel.")
    forked = fork({calls["first"]: "simulate"})
    work()
    assert len(pending(forked)) == 1


def test_only_what_differs_is_kept(fork, calls):
    forked = fork({calls["look"]: "live", calls["first"]: "recorded"})
    assert forked.branch.call_choices is None


def test_who_may_not_approve_makes_nothing_live(fork, calls, omar):
    for choices, usual in (({calls["first"]: "live"}, "recorded"), ({}, "live")):
        with pytest.raises(InvalidEdit, match="right to approve"):
            fork(choices, by=omar, calls=usual)
    assert not Branch.objects.filter(parent__isnull=False).exists()


@pytest.mark.parametrize(
    ("call", "choice"), [("look", "simulate"), ("first", "yolo"), ("none", "simulate")]
)
def test_what_cannot_become_of_a_call_is_refused(fork, calls, call, choice):
    calls["none"] = ToolCall(pk=uuid4())
    with pytest.raises(InvalidEdit, match="calls"):
        fork({calls[call]: choice})
    assert not Branch.objects.filter(parent__isnull=False).exists()


@pytest.fixture
def approved(begin, work, server, bob) -> Run:
    """A booking that asked, was approved by bob, and was made."""
    server.will_call("c1", "book", item="flight", price="1200")
    server.will_say("Booked.")
    run = begin("Book the flight.")
    work()
    [approval] = pending(run)
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    work()
    return run


def test_a_request_that_was_approved_is_rejected_in_a_fork(
    approved, work, server, alice, bob, omar
):
    before = len(server.ledger())
    call = ToolCall.objects.get(run=approved)
    source = Checkpoint.objects.get(branch=approved.branch, kind="interrupt")
    server.will_say("Not booked, then.")
    branch = start.fork_run(
        source, edits=ForkEdits(), name="", by=omar, call_choices={call.pk: "live"}
    )
    forked = Run.objects.get(branch=branch)
    work()
    [new] = pending(forked)
    first = Approval.objects.get(call=call)
    assert new.pk != first.pk
    with pytest.raises(decide.NotEligible):
        decide.approve(new, seen=new.as_shown(), by=omar)
    decide.reject(new, seen=new.as_shown(), by=alice, reason="Too dear.")
    work()
    forked.refresh_from_db()
    assert forked.status == "succeeded"
    assert len(server.ledger()) == before
    assert list(new.decisions.values_list("by_id", "verdict")) == [
        (alice.user_id, "reject")
    ]
    first.refresh_from_db()
    assert first.status == "approved"
    assert list(first.decisions.values_list("by_id", flat=True)) == [bob.user_id]
