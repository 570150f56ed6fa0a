"""One worker process: it works off rings; beside it go on the reaper (leases, and apart
from them requests), housekeeping, and deliveries, so that no run waits for somebody's mail
server.

Without Redis it takes ready runs straight from PostgreSQL, a second apart; without
PostgreSQL it waits. Either way it says so once, and goes on when they are back.
"""

from __future__ import annotations

import logging
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import Protocol
from uuid import UUID

from django.db import (
    DatabaseError,
    InterfaceError,
    OperationalError,
    close_old_connections,
    connections,
)
from redis import RedisError

from agents import queue
from agents.approvals import guards
from agents.delivery import send
from agents.models import Worker
from agents.pure.queues import QUEUE
from agents.runs import looks, reaper, roster
from agents.runs.aside import left_behind
from agents.runs.claim import lease
from agents.runs.housekeeping import Housekeeper
from checkpoints.about import about
from checkpoints.db.session import idle_at_most
from checkpoints.failpoints import failpoint

logger = logging.getLogger(__name__)

SWEEP = 1.0  # seconds between two turns of the reaper, and of housekeeping
FROZEN = 4  # leases that a transaction may say nothing, until PostgreSQL ends it
ENDS = 0.5  # seconds that a call may still be at work which nobody waits for any more
RETRY = 1.0  # seconds until Redis or PostgreSQL is tried again

Stopping = Callable[[], bool]


class Work(Protocol):
    """Takes a run as far as it goes (runs/runner.py)."""

    def __call__(
        self, run_id: UUID, *, worker: str, queue: str, stopping: Stopping
    ) -> object: ...


@dataclass(frozen=True)
class Span:
    """How long a worker process serves before a fresh one takes its place."""

    turns: int = 10_000  # runs that it was asked to take on; 0: no matter how many
    memory: int = 1024 * roster.MB  # bytes; 0: no matter how much

    def is_over(self, turns: int) -> str:
        """Why it is, after so many turns; "" while it is not. Asked between two runs."""
        if left_behind(patience=ENDS):
            return "a call hangs"
        if self.turns and turns >= self.turns:
            return f"{turns} turns"
        if self.memory and (taken := roster.memory()) >= self.memory:
            return f"{taken // roster.MB} MB"
        return ""


def attend(name: str, work: Work, span: Span | None = None, *, on: str = QUEUE) -> None:
    """Work on the queue's runs until SIGTERM, SIGINT or the end of its span.

    A run in hand is left between two steps when a signal comes; the span's end comes
    between two runs.
    """
    _Worker(name, work, span or Span(), on).attend()


class _Worker:
    def __init__(self, name: str, work: Work, span: Span, on: str) -> None:
        self.name = name
        self.on = on
        self.work = work
        self.span = span
        self.stop = threading.Event()
        self.database_away = False
        self.notice = threading.Lock()
        self.rung = threading.Event()  # for a delivery
        self.turns = 0
        self.busy_since: float | None = None  # time.monotonic()
        self.over = ""  # why its span is
        self.beat_due = 0.0  # time.monotonic()

    def attend(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._asked_to_stop)
        # Apart from each other: a store that hangs holds up no reaper.
        beside = [
            threading.Thread(target=self._repeat, args=each, name=each[0], daemon=True)
            for each in (
                ("leases", self._sweep_leases),
                ("reaper", self._sweep_requests),
                ("housekeeping", Housekeeper().turn),
                ("delivery", self._deliver),
            )
        ]
        for thread in beside:
            thread.start()
        while not self.stop.is_set():
            try:
                # First what became ready while nobody listened.
                self._take_ready()
                queue.listen(
                    self._take,
                    name=self.name,
                    stopping=self.stop.is_set,
                    on=self.on,
                    check=self._check,
                    deliver=lambda of: self.rung.set(),
                )
            except (RedisError, OSError) as error:
                queue.outage_seen(error)
            except (OperationalError, InterfaceError) as error:
                self._database_away(error)
            self.stop.wait(RETRY)
        self.rung.set()  # nobody rests any more
        for thread in beside:
            thread.join(SWEEP)
        how = Worker.Ending.RECYCLED if self.over else Worker.Ending.STOPPED
        with suppress(DatabaseError, InterfaceError):
            roster.end(self.name, how, cause=self.over)
        connections.close_all()

    def _asked_to_stop(self, number: int, frame: FrameType | None) -> None:
        # Not from here: this thread may hold the event's lock, in `set` or `wait`.
        threading.Thread(target=self.stop.set, name="stop").start()

    def _take(self, run_id: str) -> None:
        with self._turn(), about(run=run_id, worker=self.name):
            self.work(
                UUID(run_id),
                worker=self.name,
                queue=self.on,
                stopping=self.stop.is_set,
            )

    def _check(self, approval_id: str) -> None:
        with self._turn(), about(approval=approval_id, worker=self.name):
            looks.check(UUID(approval_id))

    @contextmanager
    def _turn(self) -> Iterator[None]:
        close_old_connections()
        self.busy_since = time.monotonic()
        try:
            with idle_at_most(lease() * FROZEN):
                yield
            failpoint("before ack")
        finally:
            self.busy_since = None
            self.turns += 1
            self.over = self.span.is_over(self.turns)
            if self.over:
                self.stop.set()
            close_old_connections()

    def _take_ready(self) -> None:
        close_old_connections()
        due = [(self._take, run_id) for run_id in reaper.ready(self.on)]
        late = guards.unheard(older_than=timedelta(0), on=self.on)
        for act, pk in [*due, *((self._check, row.pk) for row in late)]:
            if self.stop.is_set():
                return
            try:
                act(str(pk))
            except (OperationalError, InterfaceError):
                raise
            except Exception:
                # The edge of the process, where there is no queue to be it.
                logger.exception("a ring was left", extra={"ids": {"row": pk}})
        self._database_back()

    def _repeat(self, name: str, act: Callable[[], object]) -> None:
        """A thread beside the runs, with a connection of its own."""
        while not self.stop.is_set():
            try:
                act()
                self._database_back()
            except (OperationalError, InterfaceError) as error:
                self._database_away(error)
            except Exception:
                # The edge of a thread: without this it would end unseen.
                logger.exception("a turn of the %s thread failed", name)
            close_old_connections()
            # Apart from the other processes: any one suffices.
            # A ring ends the rest of whoever delivers; the others look at the clock alone.
            rest = self.rung if name == "delivery" else self.stop
            rest.wait(SWEEP * random.uniform(0.8, 1.2))  # noqa: S311  # not a secret
        connections.close_all()

    def _deliver(self) -> None:
        self.rung.clear()
        send.work_off(stopping=self.stop.is_set)

    def _sweep_leases(self) -> None:
        with idle_at_most(lease() * FROZEN):
            reaper.sweep(reaper.LEASES)

    def _sweep_requests(self) -> None:
        with idle_at_most(lease() * FROZEN):
            reaper.sweep(reaper.REQUESTS)
        self._beat()

    def _beat(self) -> None:
        if time.monotonic() < self.beat_due or self.stop.is_set():
            return
        self.beat_due = time.monotonic() + roster.BEAT
        since = self.busy_since  # the other thread's
        busy = None if since is None else timedelta(seconds=time.monotonic() - since)
        roster.beat(self.name, roster.Sign(self.on, self.turns, busy))

    def _database_away(self, error: Exception) -> None:
        with self.notice:  # said once, whichever thread sees it first
            if not self.database_away:
                self.database_away = True
                logger.warning("PostgreSQL does not answer (%s)", type(error).__name__)

    def _database_back(self) -> None:
        with self.notice:
            if self.database_away:
                self.database_away = False
                logger.warning("PostgreSQL answers again")
