"""JSON Pointers (RFC 6901): "" is the whole, "/messages/0" an item, "/a~1b" a key "a/b"."""

from __future__ import annotations

import re
from functools import lru_cache

from checkpoints.errors import BadOperation

_INDEX = re.compile(r"(0|[1-9][0-9]{0,8})\Z")


def pointer(*parts: str | int) -> str:
    """The path of these keys and indices: pointer("facts", "a/b") is "/facts/a~1b"."""
    return "".join(
        "/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts
    )


@lru_cache(maxsize=4096)
def split(path: str) -> tuple[str, ...]:
    """The parts of a path, unescaped. Raises BadOperation when it is none."""
    if path == "":
        return ()
    if path[0] != "/" or re.search(r"~(?![01])", path):
        raise BadOperation("path", path, 'a JSON Pointer begins with "/"')
    return tuple(
        part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")
    )


def is_path(text: str) -> bool:
    """Whether it is the path of something within a state."""
    return text != "/" and text[:1] == "/" and not re.search(r"~(?![01])", text)


def index(part: str) -> int | None:
    """The list index that a part names, if it does. "-", "01" and "+1" do not."""
    return int(part) if _INDEX.match(part) else None


def within(path: str, ancestor: str) -> bool:
    """Whether `path` is `ancestor` or lies below it."""
    return path == ancestor or path.startswith(ancestor + "/")
