"""Each protection is needed: without it, these tests find something; with it, nothing."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agents import queue
from agents.approvals import decide
from agents.models import Run
from agents.runs import stop
from checkpoints import clock
from checkpoints.clock import ClockTimestamp
from checkpoints.models import Branch, Membership
from tests.conftest import as_owner
from tests.faults import journal, judge
from tests.faults.conftest import Nursery
from tests.faults.mutants import (
    CLAIM,
    FENCE,
    FROZEN,
    HANGING,
    INTENT,
    LOCKS,
    ORDER,
    RECHECK,
    Mutant,
)
from tests.faults.people import Script
from tests.workers.conftest import (
    PATIENCE,
    ROOT,
    ended,
    idle_since,
    pending,
    surroundings,
    wait_until,
)

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.unmeasured,
]


def as_it_is_and(mutant: Mutant) -> Any:
    return pytest.mark.parametrize(
        "mutant", [None, mutant], ids=["as it is", f"without {mutant.breaks}"]
    )


@pytest.fixture
def tree(mutant, tmp_path) -> Path:
    if mutant is None:
        return ROOT
    (tmp_path / "tree").mkdir()
    return mutant.grow(tmp_path / "tree")


@pytest.fixture
def nursery(transactional_db, server, settings, tmp_path, tree):
    running = Nursery(surroundings(settings, server), tmp_path / "journal", root=tree)
    yield running
    running.stop()


class HeldBack(Script):
    """Answers the first two requests when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.may_go = (threading.Event(), threading.Event())

    def __call__(self, body):
        self.asked += 1
        if self.asked <= len(self.may_go):
            assert self.may_go[self.asked - 1].wait(PATIENCE)
        return super().__call__(body)


@as_it_is_and(FENCE)
def test_a_holder_that_wakes_up_late_appends_nothing(mutant, nursery, begin, server):
    memory = judge.Memory()
    server.services.answer = answers = HeldBack()
    first = nursery.start(1)
    run = begin("trip 1: look")
    wait_until(lambda: answers.asked == 1)
    [late] = nursery.children(first)
    os.kill(late, signal.SIGSTOP)
    Branch.objects.update(lease_until=ClockTimestamp())
    nursery.start(1)
    wait_until(lambda: answers.asked == 2)  # its successor is at the same step
    answers.may_go[0].set()
    time.sleep(0.2)  # the answer waits for it, or comes soon
    woken = clock.now()
    os.kill(late, signal.SIGCONT)
    if mutant is None:
        wait_until(lambda: idle_since(woken, late))
    else:
        wait_until(lambda: journal.read(nursery.log)[1])
    answers.may_go[1].set()
    wait_until(lambda: ended(run))
    found = judge.findings(ledger=server.ledger(), log=nursery.log, memory=memory)
    assert bool(found) == (mutant is not None), found


@as_it_is_and(CLAIM)
def test_what_is_over_is_not_begun_again(mutant, nursery, begin, server):
    memory = judge.Memory()
    server.services.answer = Script()
    pool = nursery.start(1)
    run = begin("trip 1: look")
    wait_until(lambda: ended(run))
    memory.look()
    queue.ring(run.pk, fence=0, n=1000)  # delivered once more
    following = begin("trip 2: look")
    wait_until(lambda: ended(following))

    def findings():
        return judge.findings(ledger=server.ledger(), log=nursery.log, memory=memory)

    if mutant is None:
        # What is ready is taken before what rings: who is idle has heard both. But a
        # worker that has just taken a ring from the queue seems idle for a moment.
        with queue.connect(timeout=5) as redis:
            wait_until(lambda: not queue.queue(redis).count)
        heard = clock.now()
        [worker] = nursery.children(pool)
        wait_until(lambda: idle_since(heard, worker))
    else:
        # Whoever takes what is ready in a ring's stead drops it: so it is delivered again.
        for again in range(1001, 1007):
            with suppress(AssertionError):
                wait_until(findings, 10)
                break
            queue.ring(run.pk, fence=0, n=again)
    found = findings()
    assert bool(found) == (mutant is not None), found


TIMES = 6  # two threads do not meet each time


@as_it_is_and(ORDER)
def test_deciding_and_cancelling_at_once_wait_for_one_another(
    mutant, at_once, begin, work, server
):
    server.services.answer = Script()
    runs = [begin(f"trip {n}: dear") for n in range(TIMES)]
    work()
    met = at_once(
        [[("approve", pending(run)[0].pk), ("cancel", run.pk)] for run in runs]
    )
    assert len(met) == 2 * TIMES
    fine = {"done", "AlreadyDecided"}
    assert bool(set(met) - fine) == (mutant is not None), met
    assert "done" in met


@as_it_is_and(LOCKS)
def test_of_the_last_two_decisions_at_once_one_wakes_the_run(
    mutant, at_once, begin, work, server
):
    server.services.answer = Script()
    runs = [begin(f"trip {n}: two") for n in range(TIMES)]
    work()
    met = at_once([[("approve", each.pk) for each in pending(run)] for run in runs])
    assert met == ["done"] * 2 * TIMES
    # Nobody works on them, and no reaper sweeps.
    left = Run.objects.filter(status="waiting").count()
    assert bool(left) == (mutant is not None)


@as_it_is_and(INTENT)
def test_what_a_worker_had_begun_when_it_died_is_not_begun_again(
    mutant, nursery, begin, server, tmp_path, alice
):
    memory = judge.Memory()
    server.will_call("c1", "send", text="Goodbye")
    server.will_say("Sent.")
    nursery.start(
        1,
        HOLDPOINT_FAILPOINTS="after effect",
        HOLDPOINT_FAILPOINTS_REACHED=str(tmp_path),
    )
    run = begin()
    if mutant is None:
        (asked,) = wait_until(lambda: pending(run))
        assert asked.kind == "unknown"
        stop.cancel(run, by=alice)
    assert wait_until(lambda: ended(run))
    assert (tmp_path / "after effect").exists()
    assert len(server.ledger("emails")) == 1 + (mutant is not None)
    found = judge.findings(ledger=server.ledger(), log=nursery.log, memory=memory)
    assert bool(found) == (mutant is not None), found


@as_it_is_and(RECHECK)
def test_what_was_approved_and_is_not_so_any_more_is_asked_about_anew(
    mutant, nursery, begin, work, server, alice, bob
):
    """Whoever approved the one may not any more; the other costs more by now."""
    server.will_call("c1", "book", item="hotel", price="1200")
    server.will_call("c2", "reserve", item="booth", price="100")
    first, second = begin("first"), begin("second")
    work()
    for run, by in ((first, bob), (second, alice)):
        (asked,) = pending(run)
        decide.approve(asked, seen=asked.as_shown(), by=by)
    with as_owner():
        Membership.objects.filter(user_id=bob.user_id).update(can_approve=False)
    server.charge({"booth": {"any": {"price": "900"}}})
    server.always("Done.")
    nursery.start(1)
    runs = (first, second)
    if mutant is None:
        wait_until(lambda: all(map(pending, runs)))
        assert [asked.revision for run in runs for asked in pending(run)] == [2, 2]
    else:
        wait_until(lambda: all(map(ended, runs)))
    done = sorted(effect["kind"] for effect in server.ledger())
    assert done == (["bookings", "reservations"] if mutant else [])


@as_it_is_and(HANGING)
def test_whoever_gives_a_call_up_and_dies_before_it_says_so_leaves_it_in_doubt(
    mutant, nursery, begin, server, tmp_path, alice
):
    """Its tool says that it did not happen. It is yet to."""
    memory = judge.Memory()
    server.will_call("c1", "deliver", text="the tickets")
    server.will_say("Delivered.")
    server.ledger_fault("slow", seconds=8)
    nursery.start(
        1,
        TOOL_TIMEOUT_SECONDS="1",
        HOLDPOINT_FAILPOINTS="after giving up",
        HOLDPOINT_FAILPOINTS_REACHED=str(tmp_path),
    )
    run = begin()
    if mutant is None:
        (asked,) = wait_until(lambda: pending(run))
        assert (asked.kind, server.ledger()) == ("unknown", [])
        stop.cancel(run, by=alice)
    assert wait_until(lambda: ended(run))
    wait_until(lambda: len(server.ledger("deliveries")) == 1 + (mutant is not None))
    assert (tmp_path / "after giving up").exists()
    found = judge.findings(ledger=server.ledger(), log=nursery.log, memory=memory)
    assert bool(found) == (mutant is not None), found


@as_it_is_and(FROZEN)
def test_a_call_whose_worker_stands_still_is_not_made_by_its_successor(
    mutant, nursery, begin, server, tmp_path, alice
):
    """Its tool says that it did not happen. It does as soon as the worker goes on."""
    memory = judge.Memory()
    server.will_call("c1", "deliver", text="the tickets")
    server.will_say("Delivered.")
    first = nursery.start(
        1,
        HOLDPOINT_FAILPOINTS="after intent",
        HOLDPOINT_FAILPOINTS_REACHED=str(tmp_path),
        HOLDPOINT_FAILPOINTS_SIGNAL="SIGSTOP",
    )
    run = begin()
    wait_until((tmp_path / "after intent").exists)
    [frozen] = nursery.children(first)
    Branch.objects.update(lease_until=ClockTimestamp())
    nursery.start(1)
    if mutant is None:
        (asked,) = wait_until(lambda: pending(run))
        assert (asked.kind, asked.call.error_class) == ("unknown", "worker_silent")
        assert server.ledger() == []
    else:
        assert wait_until(lambda: ended(run))
    os.kill(frozen, signal.SIGCONT)
    times = 1 + (mutant is not None)
    wait_until(lambda: len(server.ledger("deliveries")) == times)
    if mutant is None:
        stop.cancel(run, by=alice)
        assert wait_until(lambda: ended(run))
    found = judge.findings(ledger=server.ledger(), log=nursery.log, memory=memory)
    assert bool(found) == (mutant is not None), found
