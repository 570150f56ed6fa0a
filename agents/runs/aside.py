"""An act that may take long, in a thread beside the one that waits for it.

Whoever waits can give up. Nothing can stop a thread, so what was begun then goes on
until it ends by itself, and nobody learns of what it gives: only acts whose outcome may
be lost, or is looked for elsewhere, are given up.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from django.db import connections

from agents.runs.near import Near

LOOK = 0.1  # seconds between two looks whether to give up
MOMENT = 0.005  # seconds between two looks whether what was given up has ended

T = TypeVar("T")


class TookTooLong(Exception):
    """The act was not over in time. It may still be at work."""


class GivenUp(Exception):
    """Whoever waited does not want it any more. The act may still be at work."""


def aside(
    act: Callable[[], T],
    *,
    seconds: float | None = None,
    enough: Callable[[], bool] = lambda: False,
) -> T:
    """What `act` gives, or raises. It sees the context variables of its caller.

    Raises TookTooLong after `seconds` (None: there is no limit), and GivenUp soon after
    `enough()` says so.
    """
    job = _Job(act, copy_context())
    hand = _take_hand()
    hand.near.come()
    hand.jobs.put(job)
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        left = LOOK if deadline is None else deadline - time.monotonic()
        try:
            result, error = job.outcome.get(timeout=max(min(LOOK, left), 0.0))
        except Empty:
            hand.near.go()
            if left <= 0:
                raise TookTooLong from None
            if enough():
                raise GivenUp from None
            continue
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]  # of the act


def left_behind(*, patience: float = 0.0) -> int:
    """How many acts of this process are at work, but for those that are waited for:
    asked between two of them, how many were given up and go on.

    One that ends within `patience` seconds does not count.
    """
    until = time.monotonic() + patience
    while (left := sum(hand.is_busy for hand in _hands)) and time.monotonic() < until:
        time.sleep(MOMENT)
    return left


@dataclass(frozen=True)
class _Job:
    act: Callable[[], Any]
    context: Context
    outcome: SimpleQueue[tuple[Any, BaseException | None]] = field(
        default_factory=SimpleQueue
    )


class _Hand:
    """A thread that is kept from one act to the next; a database connection is not: few
    acts need one, and the thread may not be needed again."""

    def __init__(self) -> None:
        self.is_busy = True
        self.jobs: SimpleQueue[_Job] = SimpleQueue()
        # A process that ends does not wait for it.
        thread = threading.Thread(target=self._work, name="aside", daemon=True)
        thread.start()
        assert thread.native_id is not None  # it has begun
        self.near = Near(thread.native_id)

    def _work(self) -> None:
        while True:
            self._do(self.jobs.get())

    def _do(self, job: _Job) -> None:
        result, raised = None, None
        try:
            result = job.context.run(job.act)
        except BaseException as error:
            raised = error  # for whoever waits
        connections.close_all()
        self.is_busy = False
        job.outcome.put((result, raised))


_hands: list[_Hand] = []
_taking = threading.Lock()


def _take_hand() -> _Hand:
    with _taking:
        for hand in _hands:
            if not hand.is_busy:
                hand.is_busy = True
                return hand
        _hands.append(_Hand())
        return _hands[-1]


# Threads do not come along into a child.
os.register_at_fork(after_in_child=_hands.clear)
