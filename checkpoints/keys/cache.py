"""Unwrapped keys, for a short while, in this process only."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

SECONDS = 5 * 60  # how long a key that was revoked elsewhere may linger here
SIZE = 4096  # keys; about a megabyte


class KeyCache(Generic[T]):
    """The least recently used goes first, and everything goes when its time is over.

    Whether a key may still be used is not asked here: a key can be destroyed while it
    is in another process's cache.
    """

    def __init__(
        self,
        *,
        size: int = SIZE,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._size = size
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()

    def __repr__(self) -> str:
        return f"KeyCache({len(self._entries)} entries)"

    def get(self, name: Hashable) -> T | None:
        with self._lock:
            until, value = self._entries.get(name, (0.0, None))
            if value is None:
                return None
            if until <= self._clock():
                del self._entries[name]
                return None
            self._entries.move_to_end(name)
            return value

    def put(self, name: Hashable, value: T) -> None:
        with self._lock:
            self._entries[name] = (self._clock() + self._seconds, value)
            self._entries.move_to_end(name)
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)

    def drop(self, name: Hashable) -> None:
        with self._lock:
            self._entries.pop(name, None)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
