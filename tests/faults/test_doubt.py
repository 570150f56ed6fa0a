"""The connection breaks at COMMIT: nobody knows whether it got through, until one looks."""

from __future__ import annotations

import shutil
import tempfile
from itertools import count
from pathlib import Path

import pytest
from django.db import connection
from django.db.models import F

from agents import prices
from agents.models import ToolCall
from agents.runs import progress, runner, start
from checkpoints.access import Reason
from checkpoints.db.session import DatabaseRole
from checkpoints.models import Branch
from tests.faults.proxy import wired
from tests.workers.conftest import kinds, pending

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def wire(transactional_db):
    if not str(connection.settings_dict["HOST"]).startswith("/"):
        pytest.skip("PostgreSQL is not reached through a socket")
    folder = Path(tempfile.mkdtemp(prefix="hp-"))  # a socket's path must be short
    with wired(folder) as wire:
        yield wire
    shutil.rmtree(folder)


@pytest.mark.parametrize("delivered", [True, False])
def test_what_came_of_a_call_is_stored_though_the_answer_to_its_commit_is_lost(
    wire, begin, server, delivered
):
    server.will_call("c1", "send", text="Goodbye")  # must not go out twice
    server.will_say("Sent.")
    run = begin()
    wire.delivered = delivered
    wire.cut = lambda: bool(server.ledger("emails"))
    runner.work(run.pk)
    run.refresh_from_db()
    assert (wire.cuts, run.status) == (1, "succeeded")
    assert kinds(run) == ["input", "model", "tool", "model"]
    assert len(server.ledger("emails")) == 1
    assert run.branch.fence == 1  # by one claim


@pytest.mark.parametrize("delivered", [True, False])
@pytest.mark.parametrize("known", [True, False], ids=["priced", "unpriced"])
def test_what_is_asked_while_that_step_is_on_its_way_ends_nothing(
    wire, begin, server, monkeypatch, known, delivered
):
    """The prices, whose time was up just then: as they were, where they are known."""
    server.will_call("c1", "send", text="Goodbye")
    server.will_say("Sent.")
    run = begin()

    def cut() -> bool:
        if server.ledger("emails"):
            if not known:
                prices.forget()
            monkeypatch.setattr(prices, "FRESH", -1)
            return True
        return False

    wire.delivered, wire.cut = delivered, cut
    runner.work(run.pk)
    run.refresh_from_db()
    assert (wire.cuts, run.status) == (1, "succeeded")
    assert kinds(run) == ["input", "model", "tool", "model"]
    assert len(server.ledger("emails")) == 1
    assert len(server.requests) == 2  # the model was asked nothing twice
    assert run.branch.fence == 1


@pytest.mark.parametrize("delivered", [True, False])
def test_an_intent_in_doubt_is_looked_for_before_the_call(
    wire, begin, server, delivered
):
    server.will_call("c1", "send", text="Goodbye")
    server.will_say("Sent.")
    run = begin()
    proposed = ToolCall.objects.filter(run=run)  # with the reply, in one commit
    runner.work(run.pk, stopping=proposed.exists)
    wire.delivered = delivered
    wire.cut = lambda: b"WITH begun AS" in wire.said  # it is intended
    runner.work(run.pk)
    run.refresh_from_db()
    assert (wire.cuts, run.status) == (1, "succeeded")
    assert ToolCall.objects.get(run=run).attempts == 1
    assert len(server.ledger("emails")) == 1


@pytest.mark.parametrize("delivered", [True, False])
def test_a_reply_in_doubt_is_thought_once_and_its_calls_are_asked_about_once(
    wire, begin, server, bob, delivered
):
    server.will_call_all(
        ("c1", "book", {"item": "hotel", "price": "1500"}),
        ("c2", "book", {"item": "flight", "price": "100"}),
    )
    run = begin()
    wire.delivered = delivered
    wire.cut = lambda: len(server.requests) == 1
    runner.work(run.pk)
    run.refresh_from_db()
    assert (wire.cuts, run.status) == (1, "waiting")
    assert kinds(run) == ["input", "model", "tool", "interrupt"]
    assert len(pending(run)) == 1
    assert len(server.requests) == 1
    assert ToolCall.objects.filter(run=run).count() == 2


@pytest.mark.parametrize("delivered", [True, False])
def test_the_end_of_a_run_in_doubt_is_its_end(wire, begin, server, delivered):
    server.will_say("Hello.")
    run = begin()
    wire.delivered = delivered
    wire.cut = lambda: len(server.requests) == 1
    runner.work(run.pk)
    run.refresh_from_db()
    assert (wire.cuts, run.status) == (1, "succeeded")
    assert kinds(run) == ["input", "model"]


@pytest.fixture
def unhurried(wire, monkeypatch):
    """However long a step takes here, the next one begins while it is on its way.

    As in a worker that has credentials of its own: nothing has to be told first.
    """
    monkeypatch.setattr(progress, "FRESH", 60)
    settings, was = connection.settings_dict, connection.settings_dict["USER"]
    connection.close()
    settings["USER"] = DatabaseRole.WORKER.in_postgres
    yield
    connection.close()
    settings["USER"] = was


@pytest.mark.parametrize("delivered", [True, False])
@pytest.mark.parametrize("commits", [6, 7])  # until a reply is cut off, or a result
def test_a_step_that_the_next_has_gone_on_from_is_stored_once(
    wire, begin, server, unhurried, delivered, commits
):
    """Its answer is missed when the next step has been made already."""
    for n in range(4):
        server.will_call(f"c{n}", "look", what=str(n))
    server.will_call("c4", "send", text="Goodbye")
    server.will_say("Sent.")
    run = begin()
    wire.delivered = delivered
    left = count(commits, -1)
    wire.cut = lambda: next(left) == 0
    runner.work(run.pk)
    run.refresh_from_db()
    assert (wire.cuts, run.status) == (1, "succeeded")
    assert kinds(run) == ["input", *["model", "tool"] * 5, "model"]
    assert (run.steps, run.branch.fence) == (11, 1)
    assert len(server.requests) == 6
    assert len(server.ledger("emails")) == 1


@pytest.mark.parametrize("delivered", [True, False])
def test_what_came_of_a_call_is_stored_though_the_loss_is_met_elsewhere(
    wire, begin, server, alice, unhurried, delivered
):
    """By who looks for messages, while the step with the result is on its way."""
    server.will_call("c1", "send", text="Goodbye")
    server.will_say("Sent.")
    run = begin()
    said: list[object] = []

    def cut() -> bool:
        if len(server.requests) == 1 and not said:  # the reply is being stored
            said.append(None)
            said.append(start.send_message(run.branch, message="Well?", by=alice))
            connection.close()  # this thread's own
        return bool(server.ledger("emails"))

    wire.delivered, wire.cut = delivered, cut
    runner.work(run.pk)
    call = ToolCall.objects.get(run=run)
    assert (wire.cuts, call.status) == (1, "succeeded")
    runner.work(run.pk)
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert kinds(run) == ["input", "model", "tool", "input", "model"]
    assert len(server.ledger("emails")) == 1


@pytest.mark.parametrize("delivered", [True, False])
def test_a_large_value_in_doubt_is_stored_once(
    wire, begin, server, unhurried, delivered
):
    server.will_call("c1", "fetch", size=100_000)
    server.will_call("c2", "fetch", size=200_000)
    server.will_say("Fetched.")
    run = begin()
    wire.delivered = delivered
    wire.cut = lambda: len(server.requests) == 2 and b"_blob" in wire.said
    runner.work(run.pk)
    run.refresh_from_db()
    assert (wire.cuts, run.status) == (1, "succeeded")
    assert kinds(run) == ["input", *["model", "tool"] * 2, "model"]
    assert run.branch.fence == 1


def test_nothing_with_effects_follows_a_step_that_is_not_stored(
    wire, begin, server, unhurried
):
    server.will_call("c1", "look", what="the weather")
    server.will_call("c2", "send", text="Goodbye")
    run = begin()

    def another_takes_it() -> None:
        Branch.objects.unscoped(Reason.TEST).update(
            fence=F("fence") + 1, worker="another"
        )
        connection.close()

    wire.delivered = False
    wire.cut = lambda: len(server.requests) == 2  # the reply that asks for it
    wire.then = another_takes_it
    runner.work(run.pk)
    assert wire.cuts == 1
    assert kinds(run) == ["input", "model", "tool"]
    assert not server.ledger("emails")


def test_whoever_lost_the_branch_in_the_meantime_stops(wire, begin, server, settings):
    server.will_call("c1", "send", text="Goodbye")
    run = begin()
    wire.delivered = False

    def another_takes_it() -> None:
        Branch.objects.unscoped(Reason.TEST).update(
            fence=F("fence") + 1, worker="another"
        )
        connection.close()  # this thread's own

    wire.cut = lambda: bool(server.ledger("emails"))
    wire.then = another_takes_it
    runner.work(run.pk)
    assert kinds(run) == ["input", "model"]
    assert Branch.objects.get(pk=run.branch_id).worker == "another"
    # Whoever has it knows that the call may have happened.
    assert ToolCall.objects.get(run=run).status == "executing"
