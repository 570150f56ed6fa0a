"""Rules over a call's arguments, written as data and never evaluated as code.

    {"path": "/price", "op": "gt", "value": "1000"}
    {"all": [rule, ...]}    {"any": [rule, ...]}    {"not": rule}

`path` is a JSON Pointer. Ops: eq ne gt gte lt lte in not_in starts_with contains
exists matches. Numbers and decimal strings compare by value ("1000" is 1000.00),
ISO dates and times by time, other text only by equality.

What cannot be answered (a missing path, another type, NaN, a date with a zone
against one without) is unknown, unknown stays unknown through `not`, and a rule
that comes out unknown requires a person: it fails closed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from checkpoints.errors import BadOperation
from checkpoints.pure.codec import same
from checkpoints.pure.pointer import split

Predicate = Mapping[str, Any]

MATCHED_CHARACTERS = 10_000  # a pattern is not tried on longer text: unknown

_ORDER = {
    "gt": lambda sign: sign > 0,
    "gte": lambda sign: sign >= 0,
    "lt": lambda sign: sign < 0,
    "lte": lambda sign: sign <= 0,
}
_OPS = frozenset(
    {
        *_ORDER,
        "eq",
        "ne",
        "in",
        "not_in",
        "starts_with",
        "contains",
        "exists",
        "matches",
    }
)
_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?\Z")
_ABSENT = object()


def evaluate(predicate: Predicate, arguments: Mapping[str, Any]) -> bool:
    """Whether a person is required: the rule holds, or cannot be answered."""
    return _holds(predicate, arguments) is not False


def problem(predicate: object) -> str | None:
    """What is wrong with a rule as written; None when it is one."""
    if not isinstance(predicate, Mapping):
        return "a rule is an object"
    match dict(predicate):
        case {"all": list(rules)} | {"any": list(rules)} if len(predicate) == 1:
            return next(filter(None, map(problem, rules)), None)
        case {"not": rule} if len(predicate) == 1:
            return problem(rule)
        case {"path": str(path), "op": "exists"} if len(predicate) == 2:
            return _path_problem(path)
        case {"path": str(path), "op": str(op), "value": value}:
            if len(predicate) != 3 or op not in _OPS:
                return f"{op!r} is none of {', '.join(sorted(_OPS))}"
            if op in ("in", "not_in") and not isinstance(value, list):
                return f"{op} needs a list"
            if op in _ORDER and _ordered(value) is None:
                return f"{op} needs a number, a decimal string or an ISO date"
            if op == "matches":
                try:
                    re.compile(value)
                except (re.error, TypeError):
                    return f"{value!r} is not a regular expression"
            return _path_problem(path)
    return "a rule is a path, an op and a value, or all, any or not"


def _path_problem(path: str) -> str | None:
    try:
        split(path)
    except BadOperation:
        return f'{path!r} is not a JSON Pointer, such as "/price"'
    return None


def _holds(predicate: Predicate, arguments: Mapping[str, Any]) -> bool | None:
    match dict(predicate):
        case {"all": list(rules)}:
            answers = [_holds(rule, arguments) for rule in rules]
            return False if False in answers else None if None in answers else True
        case {"any": list(rules)}:
            answers = [_holds(rule, arguments) for rule in rules]
            return True if True in answers else None if None in answers else False
        case {"not": rule}:
            inner = _holds(rule, arguments)
            return None if inner is None else not inner
        case {"path": str(path), "op": str(op), **rest}:
            return _compare(op, _at(path, arguments), rest.get("value"))
    return None


def _at(path: str, arguments: Mapping[str, Any]) -> Any:
    node: Any = arguments
    try:
        parts = split(path)
    except BadOperation:
        return _ABSENT
    for part in parts:
        if isinstance(node, Mapping) and part in node:
            node = node[part]
        elif isinstance(node, list) and part.isdecimal() and int(part) < len(node):
            node = node[int(part)]
        else:
            return _ABSENT
    return node


def _compare(op: str, found: Any, value: Any) -> bool | None:
    if op == "exists":
        return (found is not _ABSENT) == (value is not False)
    if found is _ABSENT:
        return None
    if op in _ORDER:
        sign = _sign(found, value)
        return None if sign is None else _ORDER[op](sign)
    if op in ("eq", "ne"):
        equal = _equal(found, value)
        return equal if equal is None or op == "eq" else not equal
    if op in ("in", "not_in"):
        answers = [_equal(found, item) for item in value]
        inside = True if True in answers else None if None in answers else False
        return inside if inside is None or op == "in" else not inside
    if op == "contains" and isinstance(found, list):
        answers = [_equal(item, value) for item in found]
        return True if True in answers else None if None in answers else False
    if not isinstance(found, str) or not isinstance(value, str):
        return None
    if op == "starts_with":
        return found.startswith(value)
    if op == "contains":
        return value in found
    if op == "matches" and len(found) <= MATCHED_CHARACTERS:
        try:
            return re.search(value, found) is not None
        except re.error:
            return None
    return None


def _equal(one: Any, other: Any) -> bool | None:
    if same(one, other):
        return True
    numbers = _number(one), _number(other)
    if None not in numbers:
        equal = numbers[0] == numbers[1]
        # "007" and "7": one number, two texts. Which was meant is for a person.
        both_text = isinstance(one, str) and isinstance(other, str)
        return None if equal and both_text else equal
    return False if type(one) is type(other) else None


def _sign(one: Any, other: Any) -> int | None:
    left, right = _ordered(one), _ordered(other)
    if left is None or right is None or type(left) is not type(right):
        return None
    try:
        return int(left > right) - int(left < right)
    except TypeError:  # one time has a zone, the other none
        return None


def _ordered(value: Any) -> Any:
    number = _number(value)
    if number is not None or not isinstance(value, str):
        return number
    for kind in (date, datetime):
        try:
            return kind.fromisoformat(value)
        except ValueError:
            continue
    return None


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    text = value if isinstance(value, str) else repr(value)
    if not _DECIMAL.match(text):
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None
