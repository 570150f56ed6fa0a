"""One worker process: it works off rings; the reaper and housekeeping go on beside it.

Without Redis it takes ready runs straight from PostgreSQL, a second apart; without
PostgreSQL it waits. Either way it says so once, and goes on when they are back.
"""

from __future__ import annotations

import logging
import random
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Protocol
from uuid import UUID

from django.db import (
    InterfaceError,
    OperationalError,
    close_old_connections,
    connections,
)
from redis import RedisError

from agents import queue
from agents.runs import reaper
from agents.runs.housekeeping import Housekeeper

logger = logging.getLogger(__name__)

SWEEP = 1.0  # seconds between two turns of the reaper, and of housekeeping
RETRY = 1.0  # seconds until Redis or PostgreSQL is tried again

Stopping = Callable[[], bool]


class Work(Protocol):
    """Takes a run as far as it goes (runs/runner.py)."""

    def __call__(self, run_id: UUID, *, worker: str, stopping: Stopping) -> object: ...


def attend(name: str, work: Work) -> None:
    """Work until SIGTERM or SIGINT; a run in hand is left between two steps."""
    _Worker(name, work).attend()


class _Worker:
    def __init__(self, name: str, work: Work) -> None:
        self.name = name
        self.work = work
        self.stop = threading.Event()
        self.database_away = False
        self.notice = threading.Lock()

    def attend(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._asked_to_stop)
        # Apart from each other: a store that hangs holds up no reaper.
        beside = [
            threading.Thread(target=self._repeat, args=each, name=each[0], daemon=True)
            for each in (("reaper", reaper.sweep), ("housekeeping", Housekeeper().turn))
        ]
        for thread in beside:
            thread.start()
        while not self.stop.is_set():
            try:
                # First what became ready while nobody listened.
                self._take_ready()
                queue.listen(self._take, name=self.name, stopping=self.stop.is_set)
            except (RedisError, OSError) as error:
                queue.outage_seen(error)
            except (OperationalError, InterfaceError) as error:
                self._database_away(error)
            self.stop.wait(RETRY)
        for thread in beside:
            thread.join(SWEEP)
        connections.close_all()

    def _asked_to_stop(self, number: int, frame: FrameType | None) -> None:
        self.stop.set()

    def _take(self, run_id: str) -> None:
        close_old_connections()
        try:
            self.work(UUID(run_id), worker=self.name, stopping=self.stop.is_set)
        finally:
            close_old_connections()

    def _take_ready(self) -> None:
        close_old_connections()
        for run_id in reaper.ready():
            if self.stop.is_set():
                return
            try:
                self._take(str(run_id))
            except (OperationalError, InterfaceError):
                raise
            except Exception:
                # The edge of the process, where there is no queue to be it.
                logger.exception("a run was left", extra={"ids": {"run": run_id}})
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
            self.stop.wait(SWEEP * random.uniform(0.8, 1.2))  # noqa: S311  # not a secret
        connections.close_all()

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
