"""Worker processes: found work, killed at any point, stopped, restarted."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from django.db import transaction

from agents.approvals import decide
from agents.models import Run, Worker
from agents.runs import stop
from checkpoints import clock
from checkpoints.models import Branch, Checkpoint
from tests.workers.conftest import (
    PATIENCE,
    ended,
    idle_since,
    kinds,
    pending,
    wait_until,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def gone(pid: int) -> bool:
    """Whether the process has ended; one that nobody has waited for yet counts."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] == "Z"


def test_a_worker_takes_a_run_as_soon_as_it_is_started(workers, begin, server):
    server.always("Hello.")
    supervisor = workers.start()
    wait_until(lambda: workers.children(supervisor))
    first = begin()
    wait_until(lambda: ended(first))
    second = begin()
    wait_until(lambda: ended(second))
    assert second.status == "succeeded"
    assert second.worker == second.branch.worker == ""


HANGS = 1.0  # seconds
TURNS = 4
KILLS = 8


def script(server, name: str) -> None:
    """A conversation of `name`: in each turn a booking, then an answer."""
    for turn in range(TURNS):
        function = {
            "name": "book",
            "arguments": f'{{"item": "{name} {turn}", "price": "100"}}',
        }
        call = {"id": "same-each-time", "type": "function", "function": function}
        server.always(
            {"role": "assistant", "content": None, "tool_calls": [call]},
            match=name,
            turn=turn,
        )
    server.always(f"{name} is done.", match=name, turn=TURNS)


EXPECTED = ["input", *["model", "tool"] * TURNS, "model"]


@pytest.mark.unmeasured
def test_killed_again_and_again_no_step_is_lost_and_each_booking_is_made_once(
    workers, begin, server
):
    names = [f"trip-{letter}" for letter in "abcdef"]
    for name in names:
        script(server, name)
    # Tools and model take a while, so that kills meet them, too.
    server.fault("slow", times=None, seconds=0.05)
    server.ledger_fault("slow", times=None, seconds=0.05)
    supervisor = workers.start()
    runs = [begin(name) for name in names]
    seen, kills, deadline = 0, 0, time.monotonic() + PATIENCE
    while kills < KILLS and time.monotonic() < deadline and not all(map(ended, runs)):
        steps = Checkpoint.objects.count()
        # A run that several workers in a row got nowhere with is given up, so each
        # gets to store something.
        if steps > seen and all(run.attempts < 3 for run in runs):
            time.sleep(random.uniform(0, 0.25))
            seen = Checkpoint.objects.count()
            kills += workers.kill_child(supervisor)
        time.sleep(0.01)
    wait_until(lambda: all(map(ended, runs)))
    assert kills >= KILLS / 2
    assert {run.status for run in runs} == {"succeeded"}
    for run in runs:
        assert kinds(run) == EXPECTED
    applied = Counter(e["body"]["item"] for e in server.ledger() if e["applied"])
    assert applied == {f"{name} {turn}": 1 for name in names for turn in range(TURNS)}


POINTS = [
    "after claim",
    "before step",
    "before commit",
    "after commit",
    "after intent",
    "after effect",
    "before ask",
    "after ask",
    "after decision",
    "before end",
]


@pytest.mark.unmeasured
def test_killed_once_at_every_point_a_run_books_once_and_waits_through_restarts(
    workers, begin, server, bob, tmp_path
):
    server.will_call("c1", "book", item="hotel", price="100")
    server.will_call("c2", "book", item="flight", price="1200")
    server.will_say("Booked.")
    arm = {
        "HOLDPOINT_FAILPOINTS": ",".join(POINTS),
        "HOLDPOINT_FAILPOINTS_REACHED": str(tmp_path),
    }
    first = workers.start(**arm)
    run = begin()
    (approval,) = wait_until(lambda: pending(run))
    first.kill()
    first.wait()
    # Nobody is there when it is decided, and the ring is lost.
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    workers.forget_rings()
    workers.start(**arm)
    wait_until(lambda: ended(run))
    assert {point for point in POINTS if not (tmp_path / point).exists()} == set()
    assert run.status == "succeeded"
    assert kinds(run) == [
        *["input", "model", "tool"],
        *["model", "interrupt", "decision", "tool", "model"],
    ]
    applied = [e["body"]["item"] for e in server.ledger() if e["applied"]]
    assert applied == ["hotel", "flight"]


@pytest.mark.unmeasured
def test_what_must_not_happen_twice_is_left_to_a_person(
    workers, begin, server, bob, tmp_path
):
    server.always(_send("one"), match="first", turn=0)
    server.always(_send("two"), match="second", turn=0)
    workers.start(
        HOLDPOINT_FAILPOINTS="after intent,after effect",
        HOLDPOINT_FAILPOINTS_REACHED=str(tmp_path),
    )
    first = begin("first")
    wait_until(lambda: pending(first))
    second = begin("second")
    wait_until(lambda: pending(second))
    for run in (first, second):
        (asked,) = pending(run)
        assert (asked.kind, asked.call.status) == ("unknown", "unknown")
    # The first worker died before the effect, the second after it. Neither knows.
    assert [effect["body"]["text"] for effect in server.ledger()] == ["two"]
    # People look. The first is done now, the second is not done again.
    (asked,) = pending(first)
    decide.approve(asked, seen=asked.as_shown(), by=bob)
    (asked,) = pending(second)
    decide.respond(asked, seen=asked.as_shown(), by=bob, response="It is there.")
    wait_until(lambda: ended(first) and ended(second))
    assert first.status == second.status == "succeeded"
    assert [effect["body"]["text"] for effect in server.ledger()] == ["two", "one"]


@pytest.mark.parametrize("point", ["after intent", "after effect"])
@pytest.mark.unmeasured
def test_a_tool_that_can_find_out_is_asked_what_came_of_its_call(
    workers, begin, server, tmp_path, history, point
):
    server.will_call("c1", "deliver", text="the tickets")
    server.will_say("Delivered.")
    workers.start(
        HOLDPOINT_FAILPOINTS=point, HOLDPOINT_FAILPOINTS_REACHED=str(tmp_path)
    )
    run = begin()
    wait_until(lambda: ended(run))
    assert run.status == "succeeded"
    assert [effect["body"]["text"] for effect in server.ledger()] == ["the tickets"]
    assert [effect["applied"] for effect in server.ledger()] == [True]
    found_out = bool((history(run.branch).record(2).context or {}).get("reconciled"))
    assert found_out == (point == "after effect")


@pytest.mark.unmeasured
def test_a_holder_that_was_only_slow_is_fenced(workers, begin, server):
    server.will_call_all(
        ("c1", "quote", {"item": "x"}), ("c2", "book", {"item": "x", "price": "1"})
    )
    server.ledger_fault("hang", seconds=HANGS)
    server.will_say("Done.")
    supervisor = workers.start(LEASE_SECONDS="1")
    run = begin()
    wait_until(lambda: server.ledger("quotes"))  # into the call
    over = time.monotonic() + HANGS
    (slow,) = workers.children(supervisor)
    os.kill(slow, signal.SIGSTOP)
    workers.start(LEASE_SECONDS="1")
    # Its call is over by then: one that is still at work when it is given up costs the
    # worker its place (agents/runs/worker.py, ENDS).
    wait_until(lambda: ended(run) and time.monotonic() > over)
    woken = clock.now()
    os.kill(slow, signal.SIGCONT)
    # It finds itself fenced, and leaves everything alone.
    wait_until(lambda: idle_since(woken, slow))
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert kinds(run) == ["input", "model", "tool", "tool", "model"]
    assert len(server.ledger("bookings")) == 1
    assert not gone(slow)
    # And it goes on with the next.
    server.will_say("Hello.")
    following = begin()
    wait_until(lambda: ended(following))


def test_a_holder_that_froze_inside_a_transaction_keeps_no_locks(
    workers, begin, server, bob, tmp_path
):
    server.will_call("c1", "book", item="flight", price="1200")
    server.will_say("Booked.")
    supervisor = workers.start(
        LEASE_SECONDS="1",
        HOLDPOINT_FAILPOINTS="before ask",
        HOLDPOINT_FAILPOINTS_REACHED=str(tmp_path),
        HOLDPOINT_FAILPOINTS_SIGNAL="SIGSTOP",
    )
    run = begin()
    wait_until((tmp_path / "before ask").exists)
    [frozen] = workers.children(supervisor)
    workers.start(LEASE_SECONDS="1")
    (asked,) = wait_until(lambda: pending(run))  # PostgreSQL ended its transaction
    assert kinds(run) == ["input", "model", "interrupt"]
    os.kill(frozen, signal.SIGCONT)
    wait_until(lambda: "a commit is in doubt" in workers.log.read_text())
    time.sleep(0.5)  # it looks, finds itself fenced, and leaves everything alone
    assert pending(run) == [asked]
    assert "failed for a reason of ours" not in workers.log.read_text()
    decide.approve(asked, seen=asked.as_shown(), by=bob)
    wait_until(lambda: ended(run))
    assert run.status == "succeeded"
    assert kinds(run) == ["input", "model", "interrupt", "decision", "tool", "model"]
    assert len(server.ledger()) == 1


@pytest.mark.unmeasured
def test_a_dead_workers_lease_ends_as_soon_as_nobody_has_its_branch(
    workers, begin, server
):
    server.will_call("c1", "wait", seconds=PATIENCE)
    supervisor = workers.start(LEASE_SECONDS="600")
    run = begin()
    wait_until(lambda: "model" in kinds(run))
    [child] = workers.children(supervisor)
    with transaction.atomic():
        branch = Branch.objects.select_for_update().get(pk=run.branch_id)
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: "a worker died" in workers.log.read_text())
        assert branch.holder == run.pk

    def is_taken() -> bool:
        run.branch.refresh_from_db()
        held = run.branch.holder is not None
        return held and run.branch.fence > branch.fence

    wait_until(is_taken)


def test_a_long_call_keeps_its_lease(workers, begin, server):
    server.will_call("c1", "wait", seconds=7.0)
    server.will_say("Done.")
    workers.start(pool=2, LEASE_SECONDS="3")
    run = begin()
    wait_until(lambda: ended(run))
    assert run.status == "succeeded"
    assert run.branch.fence == 1


def test_told_to_stop_a_worker_leaves_its_run_between_two_steps(workers, begin, server):
    server.will_call_all(
        *(("c", "wait", {"seconds": 0.3 + n / 1000}) for n in range(10))
    )
    server.will_say("Done.")
    supervisor = workers.start()
    run = begin()
    wait_until(lambda: "tool" in kinds(run))
    children = workers.children(supervisor)
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(PATIENCE) == 0
    assert all(map(gone, children))
    run.refresh_from_db()
    assert run.status == "ready"
    assert (run.attempts, run.branch.holder) == (0, None)
    workers.start()
    wait_until(lambda: ended(run))
    assert run.status == "succeeded"
    assert kinds(run) == ["input", "model", *["tool"] * 10, "model"]


def test_an_idle_pool_stops_quickly_and_its_children_die_with_it(workers):
    idle = workers.start(pool=2)
    wait_until(lambda: Worker.objects.present().count() == 2)
    children = workers.children(idle)
    idle.send_signal(signal.SIGINT)
    assert idle.wait(PATIENCE) == 0
    assert all(map(gone, children))
    killed = workers.start(pool=2)
    children = wait_until(
        lambda: workers.children(killed)[1:] and workers.children(killed)
    )
    killed.kill()
    killed.wait()
    wait_until(lambda: all(map(gone, children)))


def test_a_running_run_is_cancelled_after_its_step(workers, begin, server, alice):
    server.will_call_all(
        *(("c", "wait", {"seconds": 0.3 + n / 1000}) for n in range(10))
    )
    workers.start()
    run = begin()
    wait_until(lambda: "tool" in kinds(run))
    assert stop.cancel(run, by=alice)
    wait_until(lambda: ended(run))
    assert run.status == "cancelled"
    assert kinds(run)[-1] == "error"
    assert kinds(run).count("tool") < 10
    assert Run.objects.get(pk=run.pk).calls.filter(status="superseded").exists()


def _send(text: str) -> dict[str, object]:
    function = {"name": "send", "arguments": f'{{"text": "{text}"}}'}
    call = {"id": "c", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}
