"""Keeps the lease while a step takes long, and hears what others want of the run.

A side thread with a connection of its own: the runner's may be busy inside a model
call or a tool. Short steps never meet it, as each commit renews the lease.
"""

from __future__ import annotations

import logging
import threading
import time
from types import TracebackType
from typing import Any, Self

from django.db import DatabaseError, InterfaceError, connection

from agents.runs.claim import Claim

logger = logging.getLogger(__name__)

TICK = 0.5  # seconds between two looks
RENEWALS = 3  # a lease is renewed this many times before it would lapse

_RENEW = """
    UPDATE checkpoints_branch SET lease_until = clock_timestamp() + %s
    WHERE id = %s AND fence = %s
"""
_LOOK = """
    SELECT branch.fence = %s, run.cancel_requested
    FROM agents_run AS run JOIN checkpoints_branch AS branch ON branch.id = run.branch_id
    WHERE run.id = %s
"""


class Heartbeat:
    """While it is entered, `lost` and `cancel_requested` are at most a tick old."""

    def __init__(self, claim: Claim) -> None:
        self.lost = False  # another holder took the branch
        self.cancel_requested = claim.run.cancel_requested
        self._claim = claim
        self._over = threading.Event()
        self._thread = threading.Thread(
            target=self._beat, name="heartbeat", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        # Not for long: it may be waiting for a database that is away.
        self._thread.join(TICK)

    def _beat(self) -> None:
        due = time.monotonic() + self._claim.lease.total_seconds() / RENEWALS
        try:
            while not self._over.wait(TICK) and not self.lost:
                try:
                    self._look()
                    if time.monotonic() >= due:
                        self._renew()
                        due += self._claim.lease.total_seconds() / RENEWALS
                except (DatabaseError, InterfaceError) as error:
                    # The lease goes on running; the runner meets the same outage.
                    logger.warning(
                        "a heartbeat failed (%s)",
                        type(error).__name__,
                        extra={"ids": {"run": self._claim.run.pk}},
                    )
                    connection.close()
        finally:
            connection.close()

    def _look(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(_LOOK, [self._claim.branch.fence, self._claim.run.pk])
            held, self.cancel_requested = cursor.fetchone() or (False, False)
        self.lost = not held

    def _renew(self) -> None:
        branch = self._claim.branch
        with connection.cursor() as cursor:
            values: tuple[Any, ...] = (self._claim.lease, branch.pk, branch.fence)
            cursor.execute(_RENEW, values)
            self.lost = cursor.rowcount != 1
