"""Slow duties: when they are due, one process at a time, and one by one."""

from __future__ import annotations

import logging
import os
from datetime import timedelta

import pytest
from django.db import OperationalError, connection

from agents.runs.housekeeping import Duty, Housekeeper
from checkpoints import audit
from checkpoints.db.locks import DUTY, alone
from checkpoints.log import tasks
from checkpoints.models import Archive, AuditPending
from checkpoints.stores import mark
from tests.workers.conftest import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE = timedelta(minutes=1)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_duty_is_done_when_it_is_due(clock):
    done: list[str] = []
    keeper = Housekeeper(
        [
            Duty("tidy", MINUTE, lambda: done.append("tidy")),
            Duty("sweep", 2 * MINUTE, lambda: done.append("sweep")),
        ],
        clock=clock,
    )
    assert keeper.turn() == []
    clock.now = 60
    assert keeper.turn() == ["tidy"]
    assert keeper.turn() == []
    clock.now = 120
    assert keeper.turn() == ["tidy", "sweep"]
    assert done == ["tidy", "tidy", "sweep"]


def test_a_duty_has_one_process_at_a_time(clock):
    done: list[str] = []
    keeper = Housekeeper(
        [
            Duty("tidy", MINUTE, lambda: done.append("tidy")),
            Duty("sweep", MINUTE, lambda: done.append("sweep")),
        ],
        clock=clock,
    )
    clock.now = 60
    with alone(DUTY, "tidy") as granted:
        assert granted
        assert keeper.turn() == ["sweep"]
    clock.now = 120
    assert keeper.turn() == ["tidy", "sweep"]
    assert done == ["sweep", "tidy", "sweep"]


def test_what_a_duty_does_commits_as_it_goes_along(clock):
    seen: list[bool] = []
    keeper = Housekeeper(
        [Duty("tidy", MINUTE, lambda: seen.append(connection.in_atomic_block))],
        clock=clock,
    )
    clock.now = 60
    keeper.turn()
    assert seen == [False]


def test_a_lock_is_free_once_its_block_has_ended():
    """Not when PostgreSQL has seen that its connection is gone: who came at once was told
    that another process is at it."""
    # Of this database: other tests' workers have theirs in the same server.
    held = """
        SELECT count(*) FROM pg_locks
        WHERE locktype = 'advisory' AND classid = %s AND database = (
            SELECT oid FROM pg_database WHERE datname = current_database())"""
    for _ in range(50):
        with connection.cursor() as cursor:
            with alone(DUTY, "at once") as granted:
                cursor.execute(held, [DUTY])
                assert (granted, cursor.fetchone()) == (True, (1,))
            cursor.execute(held, [DUTY])
            assert cursor.fetchone() == (0,)


def test_one_that_fails_is_logged_and_the_next_has_its_turn(clock, caplog):
    done: list[str] = []

    def fail() -> None:
        raise ValueError("no")

    keeper = Housekeeper(
        [Duty("bad", MINUTE, fail), Duty("good", MINUTE, lambda: done.append("good"))],
        clock=clock,
    )
    clock.now = 60
    with caplog.at_level(logging.ERROR):
        assert keeper.turn() == ["good"]
    [record] = caplog.records
    assert record.ids == {"duty": "bad"}
    assert done == ["good"]
    with alone(DUTY, "bad") as granted:  # it left no lock behind
        assert granted


def test_a_database_that_is_away_ends_the_turn(clock):
    def away() -> None:
        raise OperationalError("the server closed the connection")

    keeper = Housekeeper([Duty("any", MINUTE, away)], clock=clock)
    clock.now = 60
    with pytest.raises(OperationalError):
        keeper.turn()


def test_a_store_that_hangs_holds_up_no_reaper(workers, make_thread, alice, blob_dir):
    thread = make_thread(owner=alice).thread
    workers.start()
    wait_until(lambda: (blob_dir / mark.NAME).exists())  # a worker that starts looks
    os.mkfifo(blob_dir / "hangs")
    # In one move, lest another that starts writes the mark anew in between.
    os.replace(blob_dir / "hangs", blob_dir / mark.NAME)  # who reads it waits for ever
    tasks.ask("archive", by=alice, thread=thread)
    wait_until(Archive.objects.exists)  # it is at it, and about to read
    audit.record(alice, "message", obj=thread)
    wait_until(lambda: not AuditPending.objects.exists())
    assert Archive.objects.get().status == "writing"
