"""Which processor two threads share that take turns.

The runner waits while its act is at work. On one processor the hand-overs of a step took
0.3 ms less than where the scheduler chose freely, and chose badly
(docs/decisions/0028-who-waits-and-who-works-share-a-processor.md). A hint only: nothing
depends on it, and where the system has no such call nothing happens.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable


def _getcpu() -> Callable[[], int] | None:
    if sys.platform != "linux":
        return None
    try:
        found: Callable[[], int] = ctypes.CDLL(None).sched_getcpu
    except (OSError, AttributeError):  # a C library that has none
        return None
    return found


_cpu = _getcpu()


class Near:
    """Keeps one thread on the processor of whoever hands it something, for a while.

    Of Linux's numbers of threads: `threading.Thread.native_id`.
    """

    def __init__(self, native_id: int) -> None:
        self._thread = native_id
        self._at: int | None = None  # None: wherever it likes

    def come(self) -> None:
        """To the processor that the caller is on."""
        if _cpu is not None and (here := _cpu()) != self._at and here >= 0:
            self._at = here if self._move({here}) else None

    def go(self) -> None:
        """Wherever the caller may be, as what it does takes longer."""
        if self._at is not None:
            self._at = None
            self._move(os.sched_getaffinity(0))

    def _move(self, where: set[int]) -> bool:
        if sys.platform != "linux":
            return False
        try:
            os.sched_setaffinity(self._thread, where)
        except OSError:  # forbidden here, or the thread is gone
            return False
        return True
