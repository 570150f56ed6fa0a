"""One worker process: it works off rings, and keeps the reaper going beside that.

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

SWEEP = 1.0  # seconds between two sweeps of the reaper
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

    def attend(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._asked_to_stop)
        sweeper = threading.Thread(target=self._sweep, name="reaper", daemon=True)
        sweeper.start()
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
        sweeper.join(SWEEP)
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

    def _sweep(self) -> None:
        """The reaper's thread, with a connection of its own."""
        housekeeper = Housekeeper()
        while not self.stop.is_set():
            try:
                reaper.sweep()
                housekeeper.turn()
                self._database_back()
            except (OperationalError, InterfaceError) as error:
                self._database_away(error)
            except Exception:
                # The edge of a thread: without this it would end unseen.
                logger.exception("the reaper's sweep failed")
            close_old_connections()
            # Apart from the other processes: any one suffices.
            self.stop.wait(SWEEP * random.uniform(0.8, 1.2))  # noqa: S311  # not a secret
        connections.close_all()

    def _database_away(self, error: Exception) -> None:
        if not self.database_away:
            self.database_away = True
            logger.warning("PostgreSQL does not answer (%s)", type(error).__name__)

    def _database_back(self) -> None:
        if self.database_away:
            self.database_away = False
            logger.warning("PostgreSQL answers again")
