"""Places where a test may kill the process: `failpoint("after intent")`.

A no-op unless the environment arms it, in a test's worker only. HOLDPOINT_FAILPOINTS
names points, separated by commas; the process dies with SIGKILL where it comes to one,
once: a file in HOLDPOINT_FAILPOINTS_REACHED remembers it for the next process. With
HOLDPOINT_FAILPOINTS_SIGNAL=SIGSTOP it stands still there until it gets SIGCONT.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

_armed = frozenset(filter(None, os.environ.get("HOLDPOINT_FAILPOINTS", "").split(",")))
_signal = signal.Signals[os.environ.get("HOLDPOINT_FAILPOINTS_SIGNAL", "SIGKILL")]


def failpoint(name: str) -> None:
    if name in _armed:
        _stop_once(name)


def _stop_once(name: str) -> None:
    try:
        (Path(os.environ["HOLDPOINT_FAILPOINTS_REACHED"]) / name).touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), _signal)
