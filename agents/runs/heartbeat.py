"""Keeps the lease while a step takes long, and hears what others want of the run.

A side thread with a connection of its own: the runner's may be busy inside a model
call or a tool. Short steps never meet it, as each commit renews the lease.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from django.db import DatabaseError, InterfaceError, connection

from agents.models import Run
from agents.runs.claim import Claim
from checkpoints.models import Branch

logger = logging.getLogger(__name__)

TICK = 0.3  # seconds between two looks: what is cancelled ends within one second
TELL = 1.0  # seconds, at least, between two rows that tell how far a reply has come
RENEWALS = 3  # a lease is renewed this many times before it would lapse


class Heartbeat:
    """While it is entered, `lost` and `cancel_requested` are at most a tick old."""

    def __init__(self, claim: Claim) -> None:
        self.lost = False  # another holder took the branch
        self.cancel_requested = claim.run.cancel_requested
        self.held = False  # by a person, or by the workspace's kill switch
        self._claim = claim
        self._answering: Callable[[], Mapping[str, object] | None] = lambda: None
        self._told: Mapping[str, object] | None = None
        self._tell_at = 0.0  # time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(
            target=self._beat, name="heartbeat", daemon=True
        )

    @property
    def is_over(self) -> bool:
        """Whether what is being done is not wanted any more."""
        return self.lost or self.cancel_requested or self.held

    def follow(self, answering: Callable[[], Mapping[str, object] | None]) -> None:
        """Tell of this, where it gives something: as Run.answering."""
        self._answering = answering

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
                    if not self._look():
                        continue
                    self._tell()
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

    def _look(self) -> bool:
        """False: the run is not committed yet, as a transaction of the caller's made it;
        so there is no lease to renew, and none to lose."""
        now = (
            Run.objects.for_run(self._claim.principal)
            .filter(pk=self._claim.run.pk)
            .values_list(
                "branch__fence", "cancel_requested", "paused_at", "workspace__halted_at"
            )
            .first()
        )
        if now is None:
            return False
        fence, self.cancel_requested, paused_at, halted_at = now
        self.held = paused_at is not None or halted_at is not None
        self.lost = fence != self._claim.branch.fence
        return True

    def _tell(self) -> None:
        """How far the model's reply has come. The next step makes it out of date."""
        now, answering = time.monotonic(), self._answering()
        if answering is None or answering == self._told or now < self._tell_at:
            return
        Run.objects.for_run(self._claim.principal).filter(
            pk=self._claim.run.pk, branch__fence=self._claim.branch.fence
        ).update(answering=dict(answering))
        self._told, self._tell_at = answering, now + TELL

    def _renew(self) -> None:
        claim = self._claim
        self.lost = not Branch.objects.for_run(claim.principal).renew(
            claim.branch.pk, fence=claim.branch.fence, lease=claim.lease
        )
