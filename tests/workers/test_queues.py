"""Queues, each with workers of its own, and which of the ready runs goes first."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents import queue
from agents.errors import BadDeclaration
from agents.models import Run
from agents.runs import control, reaper, runner, start, stop
from agents.runs.claim import claim
from agents.tools import register
from agents.tools.registry import registry
from checkpoints.clock import ClockTimestamp
from checkpoints.errors import NotPermitted
from tests.elsewhere import Elsewhere, uncommitted
from tests.workers.conftest import ended, wait_until
from tests.workers.desk.agents import desk

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def queues(settings) -> list[str]:
    """Two are listed."""
    settings.QUEUES = ["agents", "slow"]
    agents = settings.RQ_QUEUES["agents"]
    settings.RQ_QUEUES = dict.fromkeys(settings.QUEUES, agents)
    return settings.QUEUES


def rings(on: str = "agents") -> list[str]:
    """The runs that ring on the queue, in order; nobody hears it."""
    with queue.connect(timeout=10) as redis:
        jobs = queue.queue(redis, on).jobs
        return [job.args[0] for job in jobs]


def hear(name: str, *, on: str = "agents") -> None:
    """Works as a worker would, until nothing rings."""

    def work(run_id: str) -> None:
        runner.work(UUID(run_id), worker=name, queue=on)

    queue.listen(work, name=name, stopping=lambda: False, on=on, burst=True)


def order(runs: list[Run]) -> list[Run]:
    """As they were begun."""
    begun = Run.objects.filter(pk__in=[run.pk for run in runs]).order_by("started_at")
    return list(begun)


def wait_for(run: Run, minutes: float) -> None:
    """As if it had been ready for so long."""
    since = ClockTimestamp() - timedelta(minutes=minutes)
    Run.objects.filter(pk=run.pk).update(ready_at=since)


# Priorities


def test_what_has_a_higher_priority_goes_first_whenever_it_rang(begin, server):
    server.always("Hello.")
    low, normal, high = (begin(priority=p) for p in ("low", "normal", "high"))
    assert rings() == [str(run.pk) for run in (low, normal, high)]
    hear("w")
    assert order([low, normal, high]) == [high, normal, low]
    assert not Run.objects.exclude(status="succeeded").exists()
    assert rings() == []


def test_of_one_priority_each_ring_is_for_the_run_that_it_names(begin, server):
    server.always("Hello.")
    runs = [begin() for _ in range(3)]
    hear("w")
    assert order(runs[::-1]) == runs


def test_what_has_been_ready_for_five_minutes_lets_nobody_go_first(begin, server):
    server.always("Hello.")
    low, high = begin(priority="low"), begin(priority="high")
    wait_for(low, minutes=6)
    assert reaper.ready() == [low.pk, high.pk]
    hear("w")
    assert order([high, low]) == [low, high]


def test_what_cannot_be_taken_holds_nobody_up(begin, server, alice):
    server.always("Hello.")
    normal = begin()
    paused, later, elsewhere = (begin(priority="high") for _ in range(3))
    control.pause(paused, by=alice)
    later_at = ClockTimestamp() + timedelta(hours=1)
    Run.objects.filter(pk=later.pk).update(wake_at=later_at)
    Run.objects.filter(pk=elsewhere.pk).update(queue="slow")
    hear("w")
    assert ended(normal)
    assert Run.objects.filter(status="ready").count() == 3


def test_who_comes_second_to_what_goes_first_takes_what_rang(begin, server):
    normal, high = begin(), begin(priority="high")
    with uncommitted(lambda: claim(high.pk, "one")):
        other = Elsewhere(lambda: claim(normal.pk, "two"))
        other.wait_until_it_waits()  # for the branch's lock
    second = other.result()
    assert second is not None
    assert second.run.pk == normal.pk
    assert claim(normal.pk, "three") is None
    assert claim(high.pk, "three") is None


def test_what_is_paused_as_it_is_to_go_first_holds_nobody_up(begin, server, alice):
    normal, high = begin(), begin(priority="high")
    with uncommitted(lambda: control.pause(high, by=alice)):
        other = Elsewhere(lambda: claim(normal.pk, "two"))
        other.wait_until_it_waits()  # for the run's lock
    taken = other.result()
    assert taken is not None
    assert taken.run.pk == normal.pk
    high.branch.refresh_from_db()
    assert high.branch.holder is None


def test_a_branch_that_was_taken_for_nothing_rings_for_what_came_meanwhile(
    begin, server, alice
):
    first = begin()

    def end_and_begin() -> None:
        stop.cancel(first, by=alice)
        start.send_message(first.branch, message="Again.", by=alice)

    with uncommitted(end_and_begin):
        other = Elsewhere(lambda: claim(first.pk, "two"))
        other.wait_until_it_waits()  # for the branch's lock
    assert other.result() is None
    following = Run.objects.get(branch=first.branch_id, status="ready")
    # Its own ring, which somebody may have heard while the branch was held, and ours.
    assert rings().count(str(following.pk)) == 2
    assert claim(following.pk, "three") is not None


def test_taking_a_run_is_one_statement_whatever_its_priority(begin, server):
    for priority in ("high", "normal", "low"):
        run = begin(priority=priority)
        with CaptureQueriesContext(connection) as asked:
            assert claim(run.pk, "w") is not None
        assert len(asked) == 1


def test_without_redis_they_are_taken_in_order(begin):
    low, normal, high = (begin(priority=p) for p in ("low", "normal", "high"))
    assert reaper.ready() == [high.pk, normal.pk, low.pk]
    wait_for(normal, minutes=6)
    assert reaper.ready() == [normal.pk, high.pk, low.pk]


def test_an_operator_changes_the_priority_and_a_viewer_does_not(
    begin, server, alice, join
):
    server.always("Hello.")
    first, second = begin(), begin()
    assert control.prioritise(second, "high", by=alice)
    assert not control.prioritise(second, "high", by=alice)
    hear("w")
    assert order([first, second]) == [second, first]
    assert not control.prioritise(second, "low", by=alice)  # it is over
    with pytest.raises(NotPermitted):
        control.prioritise(first, "low", by=join("vera", "viewer"))


def test_what_is_tried_again_keeps_its_priority(begin, alice):
    run = begin(priority="high")
    stop.cancel(run, by=alice)
    assert start.retry(run, by=alice).priority == Run.Priority.HIGH


# Queues


@pytest.fixture
def in_slow(queues, monkeypatch):
    """An agent whose runs are in the other queue, and of low priority."""
    agent = dataclasses.replace(
        desk, name="test-slow-queue", queue="slow", priority="low"
    )
    monkeypatch.setitem(registry._agents, agent.name, agent)
    return agent


def test_a_run_rings_on_its_agents_queue_and_is_taken_from_there_alone(
    in_slow, begin, server, alice
):
    server.always("Hello.")
    here = begin()
    there = start.start_run(agent=in_slow.name, message="Hello", by=alice)
    assert (there.queue, there.priority) == ("slow", Run.Priority.LOW)
    assert (rings(), rings("slow")) == ([str(here.pk)], [str(there.pk)])
    assert reaper.ready("slow") == [there.pk]
    runner.work(there.pk, worker="w", queue="agents")  # a ring that went astray
    assert not ended(there)
    hear("w", on="slow")
    assert ended(there)
    assert not ended(here)
    hear("w")
    assert ended(here)


def test_the_reaper_rings_again_on_the_runs_queue(in_slow, begin, alice):
    there = start.start_run(agent=in_slow.name, message="Hello", by=alice)
    with queue.connect(timeout=10) as redis:
        redis.flushdb()
    Run.objects.update(rung_at=None)
    assert reaper.sweep().rung == 1
    assert rings("slow") == [str(there.pk)]


def test_a_run_whose_queue_is_not_listed_any_more_waits(in_slow, settings, alice):
    settings.QUEUES = ["agents"]
    settings.RQ_QUEUES = {"agents": settings.RQ_QUEUES["agents"]}
    there = start.start_run(agent=in_slow.name, message="Hello", by=alice)
    assert there.status == "ready"
    assert rings() == []


def test_an_agent_in_a_queue_that_is_not_listed_is_not_offered():
    with pytest.raises(
        BadDeclaration, match="'mail' is not in QUEUES, which has agents"
    ):
        register(dataclasses.replace(desk, name="mailer", queue="mail"))
    with pytest.raises(BadDeclaration, match="small letters"):
        dataclasses.replace(desk, queue="Mail!")
    with pytest.raises(BadDeclaration, match="high, normal, low"):
        dataclasses.replace(desk, priority="urgent")  # type: ignore[arg-type]  # as a caller without types


def test_a_worker_listens_to_a_queue_that_is_listed():
    with pytest.raises(CommandError, match="--queue mail is not in QUEUES"):
        call_command("worker", "--queue", "mail")


@pytest.mark.slow
def test_workers_take_the_runs_of_their_queue_with_redis_and_without(
    queues, workers, begin, server
):
    server.always("Hello.")
    here, there = begin(), begin()
    Run.objects.filter(pk=there.pk).update(queue="slow")
    workers.forget_rings()  # it is found in PostgreSQL
    workers.start(QUEUES="agents,slow", options=["--queue", "slow"])
    wait_until(lambda: ended(there))
    here.refresh_from_db()
    assert here.status == "ready"
    workers.start(QUEUES="agents,slow")
    wait_until(lambda: ended(here))
