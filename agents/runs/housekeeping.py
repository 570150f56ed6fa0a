"""Duties that any worker process may do: packing, retention, orphans, memory, tidying up.

They run in a thread of their own, one after another, so each does a small batch and
returns. Unless it says otherwise, a duty has one process at a time: a lock that ends with
its connection keeps the others out, and they try again when it is due again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta

from django.db import InterfaceError, OperationalError

from agents.delivery import tidy as deliveries
from agents.runs import retention, roster
from checkpoints import entries_care
from checkpoints.blobs.care import sweep_some
from checkpoints.db import locks
from checkpoints.db.locks import alone
from checkpoints.log.pack import Backlog

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Duty:
    name: str  # names its lock, too
    every: timedelta  # of one process
    act: Callable[[], object]  # a small batch; not called in a transaction
    alone: bool = True  # False: it sees to it itself that two at once do no harm


DUTIES: tuple[Duty, ...] = (
    Duty("pack", timedelta(seconds=1), Backlog().turn, alone=False),
    Duty("retention tasks", timedelta(seconds=2), retention.work_off),
    Duty("retention", timedelta(minutes=1), retention.sweep),
    Duty("orphans", timedelta(minutes=1), sweep_some),
    Duty("memory", timedelta(minutes=1), entries_care.sweep),
    Duty("roster", timedelta(minutes=1), roster.tidy),
    Duty("deliveries", timedelta(minutes=1), deliveries.tidy),
)


class Housekeeper:
    """One process's turns at the duties."""

    def __init__(
        self,
        duties: Sequence[Duty] = DUTIES,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._duties = duties
        self._clock = clock
        # Not at once: a worker that starts has runs to take first.
        self._due = {duty.name: self._after(duty) for duty in duties}

    def turn(self) -> list[str]:
        """Do what is due and no other process is at; the names of what was done.

        One that fails is logged, and the next one has its turn. Raises OperationalError
        and InterfaceError when the database is away.
        """
        return [duty.name for duty in self._duties if self._do(duty)]

    def _do(self, duty: Duty) -> bool:
        if self._clock() < self._due[duty.name]:
            return False
        self._due[duty.name] = self._after(duty)
        try:
            with (
                alone(locks.DUTY, duty.name) if duty.alone else nullcontext(True)
            ) as granted:
                if granted:
                    duty.act()
                return granted
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            # The edge of a duty: the others go on.
            logger.exception("a duty failed", extra={"ids": {"duty": duty.name}})
            return False

    def _after(self, duty: Duty) -> float:
        return self._clock() + duty.every.total_seconds()
