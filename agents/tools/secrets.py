"""Credentials by name: resolved when a tool asks, and kept out of what is stored.

A secret NAME is the environment variable `HOLDPOINT_SECRET_NAME` of the workers, or the
file that `HOLDPOINT_SECRET_NAME_FILE` names, read anew each time. State, calls and
approvals hold the name at most.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from agents.errors import SecretUnusable
from agents.pure.redact import redact

PREFIX = "HOLDPOINT_SECRET_"
FILE = "_FILE"
_PREFIX = PREFIX.encode()
SHORTEST = 8  # characters; a shorter text would be found where it is no secret

_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,63}\Z")


def resolve(name: str) -> str:
    """The secret of this name. Raises SecretUnusable."""
    variable = f"{PREFIX}{name}"
    if not _NAME.match(name) or name.endswith(FILE):
        raise SecretUnusable(
            f"{name!r} is no name of a secret: capital letters, digits and _."
        )
    value = _read(variable)
    if value is None:
        raise SecretUnusable(
            f"The secret {name} is not there. Its value belongs into {variable}, or the "
            f"path of a file with it into {variable}{FILE}, of the workers."
        )
    if len(value) < SHORTEST:
        raise SecretUnusable(
            f"The secret {name} has {len(value)} characters; it needs {SHORTEST} or "
            "more, to be recognised where it must not be."
        )
    _given[value] = name
    return value


def capture(value: Any) -> tuple[Any, list[str]]:
    """The JSON value as it may be stored, and the names of secrets that were in it.

    The same object when there were none. Of secrets by name, those that this process's
    environment has now, and those that it gave out before.
    """
    return redact(value, _known())


def captured(text: str) -> str:
    """As `capture`, of a text that flags no secrets but says so itself."""
    kept: str = capture(text)[0]
    return kept


# Text → name: what tools of this process were given, which may have been replaced since.
_given: dict[str, str] = {}


def _known() -> dict[str, str]:
    known = dict(_given)
    for raw in os.environb:
        if raw.startswith(_PREFIX):
            name = os.fsdecode(raw).removeprefix(PREFIX).removesuffix(FILE)
            value = _read(f"{PREFIX}{name}")
            if value is not None and len(value) >= SHORTEST:
                known[value] = name
    return known


def _read(variable: str) -> str | None:
    if value := os.environ.get(variable):
        return value
    if path := os.environ.get(f"{variable}{FILE}"):
        try:
            return Path(path).read_text(encoding="utf-8").strip() or None
        except (OSError, UnicodeDecodeError):
            return None
    return None
