"""Where a text first appears in the states of a branch: in keys, and in values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from checkpoints.pure.changes import ABSENT, Parts, Records, look, written
from checkpoints.pure.pointer import index, pointer, split
from checkpoints.pure.refs import is_ref


@dataclass(frozen=True)
class Hit:
    """A step after which something at `path` holds the text that did not before."""

    step: int
    path: str
    value: Any = field(repr=False)
    in_key: bool  # the last part of the path has it


def find(records: Records, text: str, *, path: str = "") -> Iterator[Hit]:
    """Each appearance of a text at or within `path`, whatever its case, by step.

    Of what is kept as a blob, its first words are looked at. A value that goes on
    holding it is named once; one that loses it and gets it again, twice.
    """
    wanted, top = text.casefold(), split(path)
    for step, parts, old, new in written(records, top[:1] or None):
        for place, value, in_key in _hits(parts, old, new, wanted):
            if place[: len(top)] == top:
                yield Hit(step, pointer(*place), value, in_key)


def holds(value: Any, wanted: str) -> bool:
    """Whether a plain value, or a reference, holds this casefolded text."""
    if value is ABSENT or (isinstance(value, dict | list) and not is_ref(value)):
        return False
    return wanted in said(value).casefold()


def appears(state: Any, wanted: str) -> bool:
    """Whether a key or a value anywhere in a state holds this casefolded text."""
    todo = [state]
    while todo:
        value = todo.pop()
        if isinstance(value, dict) and not is_ref(value):
            if any(wanted in key.casefold() for key in value):
                return True
            todo += value.values()
        elif isinstance(value, list):
            todo += value
        elif holds(value, wanted):
            return True
    return False


def said(value: Any) -> str:
    """A plain value as text; of a reference to a blob, its first words."""
    if is_ref(value):
        return str(value["digest"])
    return value if isinstance(value, str) else json.dumps(value)


def _hits(
    parts: Parts, old: Any, new: Any, wanted: str
) -> Iterator[tuple[Parts, Any, bool]]:
    # Whether the last part is a key: of a place in a list it is a number.
    todo: list[tuple[Parts, Any, Any, bool]] = [
        (parts, old, new, index(parts[-1]) is None)
    ]
    while todo:
        place, was, became, named = todo.pop()
        if became is ABSENT or was is became:
            continue
        has_it = named and was is ABSENT and wanted in place[-1].casefold()
        if has_it:
            yield place, became, True
        if isinstance(became, dict | list) and not is_ref(became):
            is_object = isinstance(became, dict)
            names = list(became) if is_object else list(map(str, range(len(became))))
            todo += (
                ((*place, name), look(was, [name]), look(became, [name]), is_object)
                for name in reversed(names)
            )
        elif not has_it and holds(became, wanted) and not holds(was, wanted):
            yield place, became, False
