"""A warm parent of workers that are there to be killed, and an outside that judges."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from django.db import OperationalError, connection, transaction
from django.db.models import Max, QuerySet

from agents.models import Approval, Run, ToolCall
from checkpoints import clock
from checkpoints.clock import ClockTimestamp
from checkpoints.models import Branch
from tests.faults import judge
from tests.faults.people import UNDER_WAY, People, Script
from tests.workers.conftest import (
    PATIENCE,
    ROOT,
    Workers,
    begin,
    everything_visible,
    own_redis,
    server,
    surroundings,
    wait_until,
    work,
)

__all__ = ["begin", "everything_visible", "own_redis", "server", "work"]  # fixtures

# `FAULTS=10 ./dev test tests/faults` goes on ten times as long.
FAULTS = float(os.environ.get("FAULTS", "1"))
LONGEST_AIM = 0.5  # seconds that a kill waits for a call
SLOW = 0.1  # seconds until an effect takes place
SOON = str(UNDER_WAY.total_seconds())


class Nursery(Workers):
    command = ("tests/faults/nursery.py",)


@pytest.fixture
def nursery(transactional_db, server, settings, tmp_path) -> Iterator[Nursery]:
    running = Nursery(surroundings(settings, server), tmp_path / "journal")
    yield running
    running.stop()


def _left() -> str:
    """What is not over, and what PostgreSQL is at: of a storm that does not end."""
    columns = (
        "status",
        "branch__holder",
        "branch__lease_until",
        "wake_at",
        "paused_at",
    )
    more = ("rings", "rung_at", "cancel_requested", "error_class")
    runs = list(Run.objects.filter(status__in=Run.LIVE).values("pk", *columns, *more))
    asked = list(Approval.objects.pending().values("run_id", "kind", "asked_at"))
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid, state, wait_event, now() - xact_start, left(query, 80)"
            " FROM pg_stat_activity WHERE datname = current_database()"
        )
        return f"now {clock.now()}, {runs=} {asked=} sessions={cursor.fetchall()}"


class Storm:
    """Runs, people and faults at once; afterwards, the findings."""

    AT_ONCE = 6  # runs that are not over
    ATTEMPTS = 3  # a run that is given up was killed too often: not what is tested

    def __init__(self, nursery: Nursery, server, who, seed: int) -> None:
        self.nursery = nursery
        self.server = server
        self.dice = random.Random(seed)
        self.memory = judge.Memory()
        self.people = People(who, self.memory, self.dice, server.ledger)
        self.supervisor = nursery.start(2, DESK_ARRIVES=SOON)
        self.aims = False
        self.stopped: list[tuple[float, int]] = []  # when it goes on, which process
        server.services.answer = Script()
        # Some deliveries get lost, and of some nobody hears: their tool finds out.
        server.ledger_fault("drop", times=2, match="deliveries")
        server.ledger_fault("drop_after", times=2, match="deliveries")
        # Effects take a while, so that faults meet calls, too.
        server.ledger_fault("slow", times=None, seconds=SLOW)

    def rage(self, times: int, fault: Callable[[], bool], pace: float) -> None:
        """`fault` until it has happened so often, while runs are at work."""
        happened, looked = 0, 0.0
        while happened < times:
            for _ in range(self.AT_ONCE - self._moving()):
                self.people.begin()
            if self.dice.random() < 0.3:
                self.people.act()
            self.people.decide()
            self.people.go_on()
            if time.monotonic() - looked > 1:
                self.memory.look()
                looked = time.monotonic()
            if self._attempts() < self.ATTEMPTS:
                happened += fault()
            self._wake_stopped()
            time.sleep(self.dice.expovariate(1 / pace))

    def kill(self) -> bool:
        """Every other one while a call with effects is under way: they take a moment."""
        self.aims = not self.aims
        if self.aims:
            with suppress(AssertionError):  # nobody calls anything just now
                wait_until(self._calling().exists, LONGEST_AIM)
        children = self.nursery.children(self.supervisor)
        if not children:
            return False
        return _signal(self.dice.choice(children), signal.SIGKILL)

    def stop_for_long(self) -> bool:
        """SIGSTOP past the lease, then SIGCONT: a holder that was only slow."""
        children = set(self.nursery.children(self.supervisor))
        awake = sorted(children - {pid for _, pid in self.stopped})
        if len(awake) < 2 or not _signal(awake[0], signal.SIGSTOP):
            return False
        self.people.holders_are_dead = False
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '200ms'")
                self.clock_jumps()
        except OperationalError:
            # Within a transaction: it keeps its locks until it goes on, or dies.
            _signal(awake[0], signal.SIGCONT)
            return False
        self.stopped.append((time.monotonic() + self.dice.uniform(0.1, 0.6), awake[0]))
        return True

    def clock_jumps(self) -> bool:
        """The database's clock goes forward by more than a lease."""
        return bool(
            Branch.objects.exclude(holder=None).update(lease_until=ClockTimestamp())
        )

    def forget_rings(self) -> bool:
        self.nursery.forget_rings()
        return True

    def findings(self) -> list[str]:
        """What is wrong once everything had the time to come to an end."""
        self.stopped = [(0.0, pid) for _, pid in self.stopped]
        self._wake_stopped()
        try:
            wait_until(self._quiet, 3 * PATIENCE)
        except AssertionError as late:
            raise AssertionError(f"{late}: {_left()}") from None
        return judge.findings(
            ledger=self.server.ledger(), log=self.nursery.log, memory=self.memory
        )

    def _quiet(self) -> bool:
        self.people.decide()
        self.people.go_on()
        return not Run.objects.filter(status__in=Run.LIVE).exists()

    def _wake_stopped(self) -> None:
        now = time.monotonic()
        for _, pid in [each for each in self.stopped if each[0] <= now]:
            _signal(pid, signal.SIGCONT)
        self.stopped = [each for each in self.stopped if each[0] > now]

    def _calling(self) -> QuerySet[ToolCall]:
        return ToolCall.objects.filter(status="executing", run__status="running")

    def _moving(self) -> int:
        return Run.objects.filter(status__in=["ready", "running"]).count()

    def _attempts(self) -> int:
        most = Run.objects.filter(status__in=Run.LIVE).aggregate(n=Max("attempts"))
        return most["n"] or 0


def _signal(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def storm(nursery, server, alice, bob) -> Callable[..., Storm]:
    def storm(seed: int) -> Storm:
        return Storm(nursery, server, [alice, bob], seed)

    return storm


@pytest.fixture
def tree() -> Path:
    """The code that other processes run."""
    return ROOT


@pytest.fixture
def at_once(transactional_db, server, settings, tmp_path, tree, alice, bob):
    """What two people met who did this at once: at_once([[("approve", pk), …]]).

    Their process dies at the points of `dies_at`, once each.
    """

    def at_once(pairs, *, dies_at: str = "") -> list[str]:
        who = [
            {"id": by.user_id, "workspace": str(by.workspace_id), "name": by.name}
            for by in (alice, bob)
        ]
        orders = [
            [(verb, str(pk), by) for (verb, pk), by in zip(pair, who, strict=True)]
            for pair in pairs
        ]
        (tmp_path / "pairs").write_text(json.dumps(orders))
        done = subprocess.run(
            [sys.executable, "tests/faults/deciders.py", str(tmp_path / "pairs")],
            cwd=tree,
            env=surroundings(settings, server)
            | {
                "HOLDPOINT_FAILPOINTS": dies_at,
                "HOLDPOINT_FAILPOINTS_REACHED": str(tmp_path),
            },
            text=True,
            stdout=subprocess.PIPE,
        )
        assert done.returncode == (-signal.SIGKILL if dies_at else 0)
        return done.stdout.split()

    return at_once
