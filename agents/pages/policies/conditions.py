"""A rule's predicate as rows of a form, and back.

Rows say what most rules need: all of, or any of, simple conditions. What nests is for the
JSON tab. A value that comes back as it was shown stays what it was, type and all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from checkpoints.errors import NotJson
from checkpoints.pure.codec import load_strict, same

What = Literal["path", "sum", "count"]
WHAT = {"path": "argument", "sum": "sum of", "count": "number of calls"}
LISTS = ("in", "not_in")
MOST_ROWS = 20
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})\Z")


@dataclass(frozen=True)
class Row:
    """One condition, as typed."""

    what: What = "path"
    path: str = ""
    hours: str = ""
    op: str = "gt"
    value: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.path.strip() or self.value.strip())


def rows_of(when: Any) -> tuple[str, list[Row]] | None:
    """("all" or "any", rows); None for what rows cannot say."""
    match when:
        case None:
            return "all", []
        case {"all": list(rules)} | {"any": list(rules)} if len(when) == 1:
            mode = next(iter(when))
        case _:
            mode, rules = "all", [when]
    if not rules or len(rules) > MOST_ROWS:
        return None
    found = [_row(rule) for rule in rules]
    if any(row is None for row in found):
        return None
    return mode, [row for row in found if row is not None]


def read(mode: str, rows: list[Row]) -> tuple[Any, list[Row]]:
    """The predicate that the rows say, None for no condition; and the rows, each with
    what is wrong with it. Empty rows do not count."""
    rules: list[dict[str, Any]] = []
    checked: list[Row] = []
    for row in rows:
        if row.is_empty:
            continue
        rule, errors = _rule(row)
        rules.append(rule)
        checked.append(Row(row.what, row.path, row.hours, row.op, row.value, errors))
    if not rules:
        return None, checked
    return (rules[0] if len(rules) == 1 else {mode: rules}), checked


def shown(value: Any) -> str:
    """A value as one types it."""
    if isinstance(value, str) and same(typed(value), value):
        return value
    return json.dumps(value, ensure_ascii=False)


def typed(text: str) -> Any:
    """`1000` is a number, `"1000"` and all else is text. Exact decimals stay text, which
    compares by value."""
    text = text.strip()
    if text in ("true", "false", "null") or _WHOLE.match(text):
        return json.loads(text)
    if text[:1] in ('"', "[", "{"):
        try:
            return load_strict(text)
        except NotJson:
            return text
    return text


def _row(rule: Any) -> Row | None:
    match rule:
        case {"path": str(path), "op": "exists", **rest} if set(rest) <= {"value"}:
            absent = rest.get("value") is False
            return Row("path", path, "", "exists", "no" if absent else "")
        case {"path": str(path), "op": str(op), "value": value} if len(rule) == 3:
            if op in LISTS and not isinstance(value, list):
                return None
            text = _listed(value) if op in LISTS else shown(value)
            row = Row("path", path, "", op, text)
            # Where it would not be read as it is stored, JSON says it better.
            return row if same(_rule(row)[0], rule) else None
        case {
            "sum": str(path),
            "over_hours": int(hours),
            "op": str(op),
            "value": value,
        }:
            return Row("sum", path, str(hours), op, shown(value))
        case {"count": True, "over_hours": int(hours), "op": str(op), "value": value}:
            return Row("count", "", str(hours), op, shown(value))
    return None


def _rule(row: Row) -> tuple[dict[str, Any], dict[str, str]]:
    errors: dict[str, str] = {}
    path = row.path.strip()
    if row.what != "count":
        if not path:
            errors["path"] = "Which argument? Such as /price."
        elif not path.startswith("/"):
            errors["path"] = "Begins with /, such as /price."
    if row.what == "path" and row.op == "exists":
        absent = row.value.strip().lower() in ("no", "false")
        rule = {"path": path, "op": "exists"}
        return ({**rule, "value": False} if absent else rule), errors
    text = row.value.strip()
    value: Any = _list(text) if row.op in LISTS else typed(text)
    if not text:
        errors["value"] = "Compared with what?"
    if row.what == "path":
        return {"path": path, "op": row.op, "value": value}, errors
    hours = row.hours.strip()
    if not re.fullmatch(r"[0-9]{1,4}", hours):
        errors["hours"] = "Over how many hours? Such as 24."
    of: dict[str, Any] = {"sum": path} if row.what == "sum" else {"count": True}
    over = int(hours) if "hours" not in errors else hours
    return {**of, "over_hours": over, "op": row.op, "value": value}, errors


def _list(text: str) -> Any:
    whole = typed(text)
    if isinstance(whole, list):
        return whole
    return [typed(item) for item in text.split(",") if item.strip()]


def _listed(values: list[Any]) -> str:
    text = ", ".join(map(shown, values))
    return text if same(_list(text), values) else json.dumps(values, ensure_ascii=False)
