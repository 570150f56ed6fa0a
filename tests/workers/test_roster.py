"""Worker processes come, serve, are recycled, killed and told to stop; the roster tells."""

from __future__ import annotations

import os
import signal
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command

from agents.models import Worker
from agents.runs import roster
from checkpoints import clock
from tests.workers.conftest import PATIENCE, ended, kinds, wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def endings() -> dict[str, list[str]]:
    """Ending → causes; "" for those that are there."""
    found: dict[str, list[str]] = {}
    for worker in Worker.objects.order_by("started_at"):
        found.setdefault(worker.ending, []).append(worker.cause)
    return found


def one() -> Worker:
    return Worker.objects.with_age().get()


def test_a_worker_is_idle_then_busy_then_gone():
    roster.beat("h:1:a", roster.Sign("agents"))
    assert (one().state, one().short_name) == ("idle", "a")
    roster.beat("h:1:a", roster.Sign("agents", turns=4, busy=timedelta(seconds=9)))
    assert (one().state, one().turns) == ("busy", 4)
    since = one().busy_since
    assert since is not None
    assert timedelta(seconds=9) <= clock.now() - since < timedelta(seconds=20)
    assert one().memory > 10 * roster.MB
    assert roster.end("h:1:a", Worker.Ending.STOPPED)
    assert not roster.end("h:1:a", Worker.Ending.LOST)  # the first is believed
    assert one().state == "stopped"


def test_one_that_is_not_heard_of_is_silent_then_given_up_then_forgotten():
    roster.beat("h:1:a", roster.Sign("agents"))
    heard(timedelta(minutes=1))
    roster.tidy()
    assert one().state == "silent"
    heard(timedelta(hours=1))
    roster.tidy()
    assert (one().state, one().cause) == ("lost", "silence")
    Worker.objects.update(ended_at=clock.now() - timedelta(days=2))
    roster.tidy()
    assert not Worker.objects.exists()


def test_one_that_was_given_up_and_speaks_again_is_there_again():
    roster.beat("h:1:a", roster.Sign("agents"))
    heard(timedelta(hours=1))
    roster.tidy()
    roster.beat("h:1:a", roster.Sign("agents"))
    assert (one().state, one().cause) == ("idle", "")


def heard(ago: timedelta) -> None:
    Worker.objects.update(beat_at=clock.now() - ago)


@pytest.mark.slow
def test_a_worker_that_served_its_span_is_replaced(workers, begin, server):
    server.always("Hello.")
    supervisor = workers.start(options=["--max-runs", "1"])
    runs = [begin(f"run {n}") for n in range(3)]
    wait_until(lambda: all(map(ended, runs)))
    wait_until(lambda: len(endings().get("recycled", [])) >= 3)
    assert set(endings()["recycled"]) == {"1 turns"}
    assert "lost" not in endings()
    wait_until(lambda: workers.children(supervisor))


@pytest.mark.slow
def test_a_worker_that_grew_too_large_is_replaced(workers, begin, server):
    server.always("Hello.")
    workers.start(options=["--max-mb", "1"])
    run = begin()
    wait_until(lambda: ended(run))
    wait_until(lambda: endings().get("recycled"))
    assert endings()["recycled"][0].endswith(" MB")


@pytest.mark.slow
def test_a_worker_that_dies_is_lost_and_its_supervisor_says_of_what(workers):
    supervisor = workers.start(pool=2)
    wait_until(lambda: Worker.objects.present().count() == 2)
    assert workers.kill_child(supervisor)
    wait_until(lambda: endings().get("lost"))
    assert endings()["lost"] == ["SIGKILL"]
    wait_until(lambda: Worker.objects.present().count() == 2)
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(PATIENCE) == 0
    assert endings() == {"lost": ["SIGKILL"], "stopped": ["", ""]}


@pytest.mark.slow
def test_a_step_that_outlasts_the_grace_is_left_and_its_run_is_free_at_once(
    workers, begin, server
):
    server.will_call("c1", "wait", seconds=2 * PATIENCE)
    server.will_say("Done.")
    supervisor = workers.start(options=["--grace", "0.5"], LEASE_SECONDS="60")
    run = begin()
    wait_until(lambda: "model" in kinds(run))
    (child,) = workers.children(supervisor)
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(PATIENCE) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    run.refresh_from_db()
    assert (run.status, run.branch.holder) == ("ready", None)
    assert endings() == {"lost": ["SIGKILL"]}


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"pool": 0}, "--pool 0 must be 1 or more"),
        ({"grace": -1.0}, "--grace -1 must be 0 or more"),
        ({"max_runs": -1}, "--max-runs -1 must be 0 or more"),
        ({"max_mb": -1}, "--max-mb -1 must be 0 or more"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(option, said):
    with pytest.raises(CommandError, match=said):
        call_command("worker", **option)
