"""Places where a test may kill the process: `failpoint("after intent")`.

A no-op unless the environment arms it, in a test's worker only:
`HOLDPOINT_FAILPOINT="after intent"` kills the process there, `"after intent:3"` the
third time it gets there. `HOLDPOINT_FAILPOINT_ONCE=path` names a file whose existence
disarms it, and which the death leaves: the next worker passes.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

_name, _, _nth = os.environ.get("HOLDPOINT_FAILPOINT", "").partition(":")
_left = int(_nth or 1)


def failpoint(name: str) -> None:
    if name == _name:
        _reach()


def _reach() -> None:
    global _left
    once = os.environ.get("HOLDPOINT_FAILPOINT_ONCE")
    if once and Path(once).exists():
        return
    _left -= 1
    if _left > 0:
        return
    if once:
        Path(once).touch()
    os.kill(os.getpid(), signal.SIGKILL)
