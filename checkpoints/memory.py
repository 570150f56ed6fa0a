"""How a process that serves for long looks for garbage."""

from __future__ import annotations

import gc

# Python looks through what is new after 700 new containers. A thread of 1,000 steps has
# as many thousands, none of them garbage, and looking took a sixth of opening it.
NEW_CONTAINERS = 50_000


def settle() -> None:
    """Call once, when all is imported: nothing that is there now is looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_CONTAINERS, 20, 20)
