"""Fields of a state that threads are found by: which there are, and what they hold."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from checkpoints.pure.changes import look
from checkpoints.pure.codec import State
from checkpoints.pure.pointer import split

MOST = 10  # fields of an agent
LONGEST = 200  # characters of a value; a longer one is a text, and nobody types it


def is_name(text: str) -> bool:
    """Whether a field may be called that: up to 40 small letters, digits and _."""
    return re.fullmatch(r"[a-z][a-z0-9_]{0,39}", text) is not None


def values(state: State, fields: Mapping[str, str]) -> dict[str, str]:
    """What the state holds at these paths, by name; without those that hold nothing."""
    found = {name: as_text(look(state, split(path))) for name, path in fields.items()}
    return {name: text for name, text in found.items() if text}


def as_text(value: Any) -> str:
    """As a person types it: a text without blanks around it, a number or truth as JSON.

    Nothing for what is none of these, or is too long.
    """
    if isinstance(value, str):
        text = value.strip()
    elif isinstance(value, bool | int | float):
        text = json.dumps(value)
    else:
        return ""
    return text if len(text) <= LONGEST else ""
