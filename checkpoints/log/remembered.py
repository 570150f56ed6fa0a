"""Segments that this process opened a moment ago, for who looks at step after step.

A page of a long thread folds all of its operations, whichever step it shows. What a record
opens to depends on its bytes, its key and its place, and on nothing else: where all three
are those of a moment ago, so is what was found. That is all that is left out. Each time a
pass is asked for and recorded, the statement reads the records and whether their keys
live, and what was found has to go on from the step before it. The state after a segment is a
function of what its last MAC covers: a few are kept with their segments, under that MAC.

Plain text lies in this process's memory for it: for OPENED_SECONDS, not longer than the
keys that open it (keys/cache.py), and then it goes though nobody asks. With 0, none does.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.conf import settings

from checkpoints.log.line import SealedSegment
from checkpoints.pure.codec import State
from checkpoints.pure.segment import Packed

STATES = 8  # that were folded; each has little of its own
MOST = 64 * 1024 * 1024  # bytes, as `weight` counts them
OBJECT = 64  # bytes of a number, a text or a list, beside what it says


@dataclass(frozen=True)
class Found:
    """An opened segment: which steps it has, and what they say. Not to be changed."""

    packed: Packed  # without its texts
    texts: list[dict[str, Any]] = field(repr=False)


@dataclass(frozen=True)
class Place:
    """What a record is bound to, beside its own id and its first step."""

    workspace: UUID
    thread: UUID


@dataclass(frozen=True)
class End:
    """The last step of a remembered segment that a line has whole."""

    step: int
    segment: UUID
    mac: bytes = field(repr=False)  # of the step: it covers all before it


@dataclass(frozen=True)
class _Kept:
    until: float
    size: int  # bytes
    place: Place
    sealed: SealedSegment = field(repr=False)
    secret: bytes = field(repr=False)  # the key's
    found: Found = field(repr=False)


def weight(sealed: SealedSegment, plain: bytes) -> int:
    """About how many bytes it takes to keep both, and what the text says as objects: a
    short text may say hundreds of thousands of empty lists."""
    objects = sum(map(plain.count, (b",", b"[", b"{")))
    return len(sealed.record) + len(plain) + OBJECT * objects


class Remembered:
    """Each goes when its time is over. Where there is no room, what is there stays: a
    thread is opened from its start on, so the oldest is what is asked for next."""

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
        self.begin()

    def __repr__(self) -> str:
        return f"Remembered({len(self)} segments)"

    def __len__(self) -> int:
        return len(self._kept)

    def begin(self) -> None:
        """With nothing, as in a child, which has none of its parent's threads either."""
        self._lock = threading.Lock()
        self._kept: dict[UUID, _Kept] = {}  # in the order in which they came
        self._states: dict[UUID, tuple[bytes, State]] = {}  # by segment
        self._size = 0
        self._is_swept = False

    def forget(self) -> None:
        with self._lock:
            self._clear()

    def get(self, sealed: SealedSegment, secret: bytes, place: Place) -> Found | None:
        """What these very bytes opened to, with this key, at this place."""
        with self._lock:
            kept = self._kept.get(sealed.id)
        if (
            kept is None
            or kept.until <= self._clock()
            or kept.sealed != sealed
            or kept.secret != secret
            or kept.place != place
        ):
            return None
        return kept.found

    def folded(self, ends: Iterable[End]) -> tuple[End, State] | None:
        """The first of these ends whose state is kept; not to be changed."""
        with self._lock:
            for end in ends:
                mac, state = self._states.get(end.segment, (b"", {}))
                if mac == end.mac and self._kept[end.segment].until > self._clock():
                    return end, state
        return None

    def keep_folded(self, end: End, state: State) -> None:
        """For as long as its segment, and until STATES others came."""
        with self._lock:
            if end.segment not in self._kept:
                return
            self._states.pop(end.segment, None)
            self._states[end.segment] = end.mac, state
            if len(self._states) > STATES:
                del self._states[next(iter(self._states))]

    def put(
        self,
        sealed: SealedSegment,
        secret: bytes,
        place: Place,
        size: int,
        found: Found,
    ) -> None:
        """`size`: its `weight`. Where there is no room for it, it is not kept."""
        if not self._seconds:
            return
        until = self._clock() + self._seconds
        with self._lock:
            self._drop(sealed.id)
            if self._size + size > self._most:
                return
            self._kept[sealed.id] = _Kept(until, size, place, sealed, secret, found)
            self._size += size
            if not self._is_swept:
                self._sweep_after(self._seconds)

    def _drop(self, segment: UUID) -> None:
        if (kept := self._kept.pop(segment, None)) is not None:
            self._size -= kept.size
            self._states.pop(segment, None)

    def _clear(self) -> None:
        self._kept.clear()
        self._states.clear()
        self._size = 0

    def _sweep_after(self, seconds: float) -> None:
        timer = threading.Timer(max(seconds, 0.0), self._sweep)
        timer.daemon = True
        try:
            timer.start()
        except RuntimeError:  # the system has no thread to give: then nothing is kept
            self._clear()
        else:
            self._is_swept = True

    def _sweep(self) -> None:
        """Forget what is too old; once more when the oldest that is left will be."""
        now = self._clock()
        with self._lock:
            for segment, kept in list(self._kept.items()):
                if kept.until > now:
                    break
                self._drop(segment)
            self._is_swept = False
            if self._kept:
                self._sweep_after(next(iter(self._kept.values())).until - now)


segments = Remembered(seconds=settings.OPENED_SECONDS)
os.register_at_fork(after_in_child=segments.begin)
