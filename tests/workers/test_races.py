"""Two of everything at once: one wins, and the other knows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.db import connections

from agents.approvals import decide
from agents.errors import AlreadyDecided, BranchBusy, NotRetryable
from agents.models import Run, ToolCall
from agents.runs import runner, start
from agents.runs.claim import claim
from agents.runs.edits import ForkEdits
from agents.runs.ledger import Ledger
from checkpoints.access import Reason, unscoped
from checkpoints.errors import Fenced
from checkpoints.models import Branch, Checkpoint, Thread, ThreadInput
from tests.workers.conftest import PATIENCE, kinds, pending

pytestmark = pytest.mark.django_db(transaction=True)

RACERS = 4


def at_once(act: Callable[[], Any], racers: int = RACERS) -> list[Any]:
    """What each racer got: a value, or the exception it met."""
    barrier = threading.Barrier(racers, timeout=PATIENCE)
    got: list[Any] = []

    def race() -> None:
        with unscoped(Reason.TEST):
            try:
                barrier.wait()
                got.append(act())
            except Exception as error:
                got.append(error)
            finally:
                connections.close_all()

    threads = [threading.Thread(target=race) for _ in range(racers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return got


def test_a_form_sent_many_times_starts_one_run(begin):
    key = uuid4()
    runs = at_once(lambda: begin("Book it.", request_key=key))
    assert len({run.pk for run in runs}) == 1
    assert Run.objects.count() == Thread.objects.count() == 1
    assert begin("Book it.", request_key=key) == runs[0]


def test_a_message_sent_many_times_is_said_once(begin, work, server, bob):
    server.will_say("Hello.")
    run = begin()
    work()
    key = uuid4()
    said = at_once(
        lambda: start.send_message(run.branch, message="And?", by=bob, request_key=key)
    )
    assert len({each.pk for each in said}) == 1
    assert ThreadInput.objects.count() == 1
    assert Run.objects.filter(branch=run.branch, status="ready").count() == 1


def test_different_messages_at_once_all_arrive_in_one_run(begin, work, server, bob):
    server.will_say("Hello.")
    run = begin()
    work()
    server.will_say("All of it.")
    at_once(lambda: start.send_message(run.branch, message="More.", by=bob))
    work()
    assert kinds(run) == ["input", "model", *["input"] * RACERS, "model"]
    assert Run.objects.filter(branch=run.branch).count() == 2


def test_a_fork_asked_for_many_times_is_made_once(begin, work, server, alice):
    server.will_say("Hello.")
    run = begin()
    work()
    source = Checkpoint.objects.get(branch=run.branch, step=0)
    key = uuid4()
    made = at_once(
        lambda: start.fork_run(
            source,
            edits=ForkEdits(temperature=0.5),
            name="warmer",
            by=alice,
            request_key=key,
        )
    )
    assert len({branch.pk for branch in made}) == 1
    assert Branch.objects.count() == 2
    assert Run.objects.filter(branch=made[0]).count() == 1


def test_a_run_tried_again_many_times_is_tried_once(begin, work, server, alice):
    server.will_call("c1", "give_up")
    run = begin()
    work()
    again = at_once(lambda: start.retry(run, by=alice))
    assert len({each.pk for each in again}) == 1
    assert Run.objects.filter(retry_of=run).count() == 1


def test_a_branch_has_one_live_run(begin, work, server, alice, bob):
    server.will_call("c1", "give_up")
    run = begin()
    with pytest.raises(NotRetryable, match="ready"):
        start.retry(run, by=alice)
    work()
    start.send_message(run.branch, message="Go on.", by=bob)
    with pytest.raises(BranchBusy):
        start.retry(run, by=alice)


def test_of_many_workers_one_gets_the_run(begin):
    run = begin()
    claims = at_once(lambda: claim(run.pk, "worker"), racers=6)
    assert sum(found is not None for found in claims) == 1
    run.branch.refresh_from_db()
    assert run.branch.fence == 1


def test_of_two_holders_that_judged_a_call_alike_one_makes_it(begin, server):
    server.will_call("c1", "send", text="Goodbye")
    run = begin()
    proposed = ToolCall.objects.filter(run=run)  # with the reply, in one commit
    runner.work(run.pk, stopping=proposed.exists)
    held = claim(run.pk, "worker")
    assert held is not None
    call = ToolCall.objects.get(run=run).pk
    first, second = Ledger(held, known=set()), Ledger(held, known=set())
    judged = first[call], second[call]
    first.intend(judged[0])
    with pytest.raises(Fenced):
        second.intend(judged[1])
    assert ToolCall.objects.get(pk=call).attempts == 1


def test_the_last_two_decisions_at_once_wake_the_run_once(begin, work, server, bob):
    server.will_call_all(
        ("c1", "book", {"item": "hotel", "price": "1500"}),
        ("c2", "book", {"item": "flight", "price": "1600"}),
    )
    server.will_say("Done.")
    run = begin()
    work()
    approvals = pending(run)
    waiting = list(approvals)
    at_once(
        lambda: decide.approve(
            approval := waiting.pop(), seen=approval.as_shown(), by=bob
        ),
        racers=2,
    )
    run.refresh_from_db()
    assert run.status == "ready"
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert len(server.ledger()) == 2


def test_one_decision_counts_when_several_people_give_it(begin, work, server, bob):
    server.will_call("c1", "book", item="TP 209", price="1200")
    server.will_say("Booked.")
    run = begin()
    work()
    (approval,) = pending(run)
    got = at_once(
        lambda: decide.approve(approval, seen=approval.as_shown(), by=bob), racers=4
    )
    assert sum(isinstance(each, AlreadyDecided) for each in got) == 3
    work()
    assert len(server.ledger()) == 1
