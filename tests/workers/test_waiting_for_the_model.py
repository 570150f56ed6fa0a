"""A model that takes its time: given up at once, followed meanwhile, never in silence."""

from __future__ import annotations

import re
import signal
import time
from functools import partial

import pytest

from agents.models import Run
from agents.runs import control, stop
from checkpoints.models import Checkpoint
from tests.workers.conftest import PATIENCE, ended, kinds, wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

LONG = "Word by word, and then some more. " * 20
SECOND = 1  # until nobody waits any more, whatever else the machine does


def running(run: Run) -> bool:
    run.refresh_from_db()
    return run.status == "running"


def longer(run: Run, *, than: int) -> bool:
    return len(kinds(run)) > than


def test_a_run_is_cancelled_within_a_second_while_the_model_is_asked(
    workers, begin, server, alice
):
    server.always(LONG)
    server.fault("hang", times=None, match="silent", seconds=30)
    server.fault("trickle", times=None, match="slow", seconds=1.0)
    server.fault("429", times=None, match="busy", retry_after="30")
    supervisor = workers.start()
    asked = []
    for n, message in enumerate(("silent", "slow", "busy"), start=1):
        run = begin(message)
        wait_until(lambda: len(server.requests) == n)  # noqa: B023  # at once
        asked.append(workers.children(supervisor))
        began = time.monotonic()
        assert stop.cancel(run, by=alice)
        wait_until(partial(ended, run))
        took = time.monotonic() - began
        assert (run.status, kinds(run)) == ("cancelled", ["input", "error"])
        assert took < SECOND
        assert run.tokens == 0
        step = Checkpoint.objects.get(branch=run.branch_id, kind="error")
        assert (step.error_class, step.tokens_in) == ("cancelled", None)
    # What was given up ends, too: the same process takes the next run.
    run = begin("Hello")
    wait_until(lambda: ended(run))
    assert run.status == "succeeded"
    asked.append(workers.children(supervisor))
    assert asked == asked[:1] * 4


def test_a_paused_run_leaves_its_model_call_and_asks_anew(
    workers, begin, server, alice
):
    server.fault("hang", seconds=30)
    server.always("Hello.")
    workers.start()
    run = begin()
    wait_until(lambda: server.requests)
    control.pause(run, by=alice)
    wait_until(lambda: not running(run), seconds=2)  # it would hang for 30
    assert (run.status, run.attempts, kinds(run)) == ("ready", 0, ["input"])
    control.resume(run, by=alice)
    wait_until(lambda: ended(run))
    assert (run.status, kinds(run)) == ("succeeded", ["input", "model"])


def test_a_worker_that_is_stopped_gives_up_what_would_outlast_its_grace(
    workers, begin, server
):
    server.fault("hang", seconds=60)
    server.always("Hello.")
    # Long, as the machine may be busy: what is given up is neither killed nor lapsed.
    supervisor = workers.start(options=["--grace", "30"], LEASE_SECONDS="30")
    run = begin()
    wait_until(lambda: server.requests)
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(PATIENCE) == 0
    run.refresh_from_db()
    # Given back, not taken from a worker that was killed: that would be an attempt.
    assert (run.status, run.attempts, kinds(run)) == ("ready", 0, ["input"])
    workers.start()
    wait_until(lambda: ended(run))
    assert run.status == "succeeded"


def test_whoever_looks_on_sees_how_far_the_reply_has_come(workers, begin, server):
    server.always(LONG)
    server.fault("429", retry_after="3")
    server.fault("trickle", seconds=0.05)
    workers.start()
    run = begin()

    def answering(**wanted):
        run.refresh_from_db()
        found = run.answering
        return found if found and wanted.items() <= found.items() else None

    waits = wait_until(lambda: answering(outcome="429"))
    assert waits == {
        "step": 1,
        "attempt": 2,
        "attempts": 2,
        "characters": 0,
        "outcome": "429",
        "wait": 3.0,
    }
    wait_until(lambda: answering(outcome="", attempt=2))
    some = wait_until(lambda: (found := answering()) and found["characters"])
    wait_until(lambda: run.answering["characters"] > some or answering() is None)
    wait_until(lambda: ended(run))
    assert run.status == "succeeded"


def test_a_long_call_says_so_in_steps_that_do_not_count(
    workers, begin, server, history
):
    server.always("Hello.")
    server.fault("500")
    server.fault("slow", seconds=4.5)
    workers.start(PROGRESS_SECONDS="1")
    run = begin()
    wait_until(lambda: ended(run))
    assert run.status == "succeeded"
    steps = history(run.branch).records
    progress = [step for step in steps if step.kind == "progress"]
    assert [step.step for step in steps] == list(range(len(steps)))
    assert [step.kind for step in steps] == [
        "input",
        *["progress"] * len(progress),
        "model",
    ]
    waited = (steps[-1].created_at - steps[0].created_at).total_seconds()
    assert 2 <= len(progress) <= waited
    assert run.steps == 1  # what was waited for in between is not the agent's doing
    assert all(step.run == run.pk and not step.ops for step in progress)
    said = re.compile(r"Still waiting for the model, attempt 2 of 2: \d+ s")
    assert said.fullmatch(progress[-1].label)


def test_progress_does_not_hide_that_workers_get_nowhere(workers, begin, server):
    """A call that kills its worker each time, after a step that only says it waits."""
    server.always("Hello.")
    server.fault("hang", times=None, seconds=60)
    supervisor = workers.start(PROGRESS_SECONDS="1", LEASE_SECONDS="1")
    run = begin()
    for _ in range(2):
        wait_until(partial(longer, run, than=len(kinds(run))))
        assert workers.kill_child(supervisor)
        wait_until(lambda: not running(run) or run.attempts > 1)
    wait_until(lambda: running(run) and run.attempts >= 3)
