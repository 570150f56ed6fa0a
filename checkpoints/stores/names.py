"""Which names objects may have, and how large they may be."""

from __future__ import annotations

import re

from checkpoints.errors import BadObject

MAX_OBJECT = 512 * 1024 * 1024  # bytes; an object is in memory while it is handled
PROBE = 1024 * 1024  # bytes; with room for so much, a store counts as not full
MAX_NAME = 100  # characters; what the rows' column holds

_NAME = re.compile(r"[a-z0-9]+(?:[-._/][a-z0-9]+)*\Z")


def checked(name: str) -> str:
    """`name`, which leads nowhere else: no "..", no leading "/". Raises BadObject."""
    if not is_name(name):
        raise BadObject(f"{name[:MAX_NAME]!r} is not a name of an object.")
    return name


def is_name(name: str) -> bool:
    return len(name) <= MAX_NAME and bool(_NAME.match(name))


def check_size(size: int) -> None:
    """Raises BadObject."""
    if size > MAX_OBJECT:
        raise BadObject(
            f"{size} bytes are too many for one object; {MAX_OBJECT} are allowed."
        )
