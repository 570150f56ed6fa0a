"""The connection breaks at COMMIT: nobody knows whether it got through, until one looks."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from django.db import connection
from django.db.models import F

from agents.models import ToolCall
from agents.runs import runner
from checkpoints.access import Reason
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
def test_an_intent_in_doubt_is_looked_for_before_the_call(
    wire, begin, server, delivered
):
    server.will_call("c1", "send", text="Goodbye")
    server.will_say("Sent.")
    run = begin()
    answers = iter([False, True])  # stopped once the reply is stored
    runner.work(run.pk, stopping=lambda: next(answers))
    wire.delivered = delivered
    commits = iter(range(100))
    wire.cut = lambda: next(commits) == INTENT
    runner.work(run.pk)
    run.refresh_from_db()
    assert (wire.cuts, run.status) == (1, "succeeded")
    assert ToolCall.objects.get(run=run).attempts == 1
    assert len(server.ledger("emails")) == 1


INTENT = 2  # the commits of a claim: taken, admitted, intended


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
