"""Places where a test may kill the process: `failpoint("after intent")`.

A no-op unless the environment arms it, in a test's worker only. HOLDPOINT_FAILPOINTS
names points, separated by commas; the process dies with SIGKILL where it comes to one,
once: a file in HOLDPOINT_FAILPOINTS_REACHED remembers it for the next process.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

_armed = frozenset(filter(None, os.environ.get("HOLDPOINT_FAILPOINTS", "").split(",")))


def failpoint(name: str) -> None:
    if name in _armed:
        _die_once(name)


def _die_once(name: str) -> None:
    try:
        (Path(os.environ["HOLDPOINT_FAILPOINTS_REACHED"]) / name).touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
