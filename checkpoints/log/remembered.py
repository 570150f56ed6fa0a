"""Segments that this process opened a moment ago, for who looks at step after step.

A page of a long thread folds all of its operations, whichever step it shows. What a record
opens to depends on its bytes, its key and its place, and on nothing else: where all three
are those of a moment ago, so is what was found. That is all that is left out. Each time a
pass is asked for and recorded, the statement reads the records and whether their keys
live, and what was found has to go on from the step before it.

Plain text lies in this process's memory for it: for OPENED_SECONDS, less long than the
keys that open it (keys/cache.py), and then it goes though nobody asks. With 0, none does.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings

from checkpoints.log.line import SealedSegment
from checkpoints.pure.segment import Packed

MOST = (
    16 * 1024 * 1024
)  # bytes of segments' plain text; as objects, about three times that


class Found(NamedTuple):
    """An opened segment: which steps it has, and what they say. Not to be changed."""

    packed: Packed  # without its texts
    texts: list[dict[str, Any]]


class _Kept(NamedTuple):
    until: float
    sealed: SealedSegment
    secret: bytes  # the key's
    thread: UUID
    size: int  # bytes
    found: Found


class Remembered:
    """The oldest goes first where there are too many, and each when its time is over."""

    def __init__(
        self,
        *,
        most: int = MOST,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self.forget()

    def __repr__(self) -> str:
        return f"Remembered({len(self)} segments)"

    def __len__(self) -> int:
        return len(self._kept)

    def forget(self) -> None:
        """Everything, as in a child, which has none of its parent's threads either."""
        self._lock = threading.Lock()
        self._kept: dict[UUID, _Kept] = {}  # in the order in which they came
        self._size = 0
        self._sweeping = False

    def get(self, sealed: SealedSegment, secret: bytes, thread: UUID) -> Found | None:
        """What these very bytes opened to, with this key, in this thread."""
        with self._lock:
            kept = self._kept.get(sealed.id)
        if (
            kept is None
            or kept.until <= self._clock()
            or kept.sealed != sealed
            or kept.secret != secret
            or kept.thread != thread
        ):
            return None
        return kept.found

    def put(
        self,
        sealed: SealedSegment,
        secret: bytes,
        thread: UUID,
        size: int,
        found: Found,
    ) -> None:
        """`size`: of the plain text, in bytes."""
        if not self._seconds:
            return
        until = self._clock() + self._seconds
        with self._lock:
            self._drop(sealed.id)
            self._kept[sealed.id] = _Kept(until, sealed, secret, thread, size, found)
            self._size += size
            while self._size > self._most:
                self._drop(next(iter(self._kept)))
            if not self._sweeping:
                self._sweep_later()

    def _drop(self, segment: UUID) -> None:
        if (kept := self._kept.pop(segment, None)) is not None:
            self._size -= kept.size

    def _sweep_later(self) -> None:
        self._sweeping = True
        timer = threading.Timer(self._seconds, self.sweep)
        timer.daemon = True
        timer.start()

    def sweep(self) -> None:
        """Forget what is too old; once more, later, where something is left."""
        now = self._clock()
        with self._lock:
            for segment in [pk for pk, kept in self._kept.items() if kept.until <= now]:
                self._drop(segment)
            self._sweeping = False
            if self._kept:
                self._sweep_later()


segments = Remembered(seconds=settings.OPENED_SECONDS)
os.register_at_fork(after_in_child=segments.forget)
