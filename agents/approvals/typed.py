"""What was typed into the fields of a form, as arguments again.

A field that comes back as it was shown keeps its argument, byte for byte: nobody
changes "1200.00" into 1200 by opening a form. What is typed is read by the field's
kind; whether the whole fits the tool is for `decide.edit` to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from datetime import date, datetime, time
from typing import Any

from agents.approvals.fields import ABSENT, Field, Kind, describe
from agents.errors import InvalidDecision
from agents.tools.schema import Schema
from checkpoints.errors import NotJson
from checkpoints.pure.codec import load_strict
from checkpoints.pure.pointer import split


def parse(
    schema: Schema,
    posted: Mapping[str, str],
    arguments: Mapping[str, Any],
    *,
    locked: Collection[str] = (),
    misfits: Callable[[dict[str, Any]], Mapping[str, str]] = lambda read: {},
) -> dict[str, Any]:
    """The arguments as edited. A field that was not posted stays as it is.

    Raises InvalidDecision with a message for each path that cannot be read; with those go
    the `misfits` of what could be, so that everything that is wrong is said at once.
    """
    edited: dict[str, Any] = deepcopy(dict(arguments))
    problems: dict[str, str] = {}
    for shown in describe(schema, arguments, locked=locked):
        text = posted.get(shown.name)
        if text is None:
            continue
        text = text.replace("\r\n", "\n")
        if text == shown.value.replace("\r\n", "\n"):
            continue
        if shown.locked:
            problems[shown.path] = "cannot be changed"
            continue
        try:
            _put(edited, split(shown.path), _read(shown, text))
        except ValueError as error:
            problems[shown.path] = str(error)
    if problems:
        others = {
            path: text
            for path, text in misfits(edited).items()
            if not any(_touch(path, unread) for unread in problems)
        }
        raise InvalidDecision(others | problems)
    return edited


def _touch(path: str, other: str) -> bool:
    """Whether one is the other, or within it: what is not read yet has no say there."""
    one, two = split(path), split(other)
    return one[: len(two)] == two or two[: len(one)] == one


def _read(shown: Field, text: str) -> Any:
    """The argument that was typed; ABSENT for none. Raises ValueError with the problem."""
    if shown.kind == "lines":
        lines = [line.strip() for line in text.split("\n")]
        return [_scalar_of(shown.item, line) for line in lines if line]
    if shown.kind == "text" and (text or not shown.required):
        return text or ABSENT
    if not text.strip():
        if shown.required:
            raise ValueError("is needed")
        return ABSENT
    if shown.kind == "choice":
        for word, option in shown.choices:
            if word == text:
                return option
        words = ", ".join(word for word, _ in shown.choices)
        raise ValueError(f"is one of: {words}")
    if shown.kind == "json":
        try:
            return load_strict(text)
        except NotJson as error:
            raise ValueError(f"is not JSON. {error}") from None
    return _scalar_of(shown.kind, text.strip())


def _scalar_of(kind: Kind, text: str) -> Any:
    """Raises ValueError, which says how to write it."""
    match kind:
        case "integer":
            if not re.fullmatch(r"-?[0-9]{1,19}", text):
                raise ValueError("is a whole number, such as 2")
            return int(text)
        case "number":
            if not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?", text):
                raise ValueError("is a number, such as 2.5")
            return int(text) if re.fullmatch(r"-?[0-9]{1,19}", text) else float(text)
        case "decimal":
            if not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text):
                raise ValueError("is a number without separators, such as 1200.00")
            return text
        case "boolean":
            if text not in ("true", "false"):
                raise ValueError("is true or false")
            return text == "true"
        case "date":
            return _moment(date, text, "is a date, such as 2026-11-21")
        case "datetime":
            return _moment(
                datetime, text, "is a date and time, such as 2026-11-21T14:30"
            )
        case "time":
            return _moment(time, text, "is a time, such as 14:30")
    return text


def _moment(kind: type[date] | type[datetime] | type[time], text: str, how: str) -> str:
    try:
        kind.fromisoformat(text)
    except ValueError:
        raise ValueError(how) from None
    return text


def _put(arguments: dict[str, Any], parts: tuple[str, ...], value: Any) -> None:
    """Set the argument there, or take it away; objects on the way come into being."""
    node = arguments
    for part in parts[:-1]:
        if value is ABSENT and part not in node:
            return
        node = node.setdefault(part, {})
    if value is ABSENT:
        node.pop(parts[-1], None)
    else:
        node[parts[-1]] = value
