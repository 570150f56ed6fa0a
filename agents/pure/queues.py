"""Which runs are taken first, and whose workers take them: the words that code uses."""

from __future__ import annotations

import re
from typing import Literal, get_args

QUEUE = "agents"  # of an agent that names none
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")

Priority = Literal["high", "normal", "low"]
PRIORITIES: tuple[Priority, ...] = get_args(Priority)


def is_name(queue: str) -> bool:
    """Whether a queue may be called so: up to 60 small letters, digits and -."""
    return _NAME.fullmatch(queue) is not None
