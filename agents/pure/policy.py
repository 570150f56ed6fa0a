"""Rules over a call's arguments, written as data and never evaluated as code.

    {"path": "/price", "op": "gt", "value": "1000"}
    {"all": [rule, ...]}    {"any": [rule, ...]}    {"not": rule}

`path` is a JSON Pointer. Ops: eq ne gt gte lt lte in not_in starts_with contains
exists matches. Numbers and decimal strings compare by value ("1000" is 1000.00),
ISO dates and times by time, other text only by equality.

A policy's rule may also count and sum what went before, this call included:

    {"count": true, "over_hours": 24, "op": "gte", "value": 10}
    {"sum": "/amount", "over_hours": 24, "op": "gt", "value": 5000}

What cannot be answered (a missing path, another type, NaN, a date with a zone
against one without, a pattern that is none, or a text that is too long for one) is
unknown, unknown stays unknown through `not`, and a rule that comes out unknown requires
a person: it fails closed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from agents.pure import pattern
from checkpoints.errors import BadOperation
from checkpoints.pure.codec import same
from checkpoints.pure.pointer import index, split

Predicate = Mapping[str, Any]

# What a count or a sum comes to; None: nobody knows.
Total = Callable[[Predicate], Decimal | None]

DEEPEST = 20  # rules within rules
LONGEST_HOURS = 30 * 24  # of a window

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
    return answer(predicate, arguments) is not False


def answer(
    predicate: object, arguments: Mapping[str, Any], total: Total | None = None
) -> bool | None:
    """Whether the rule holds; None: it cannot be answered. Whatever it is, it does not
    raise. `total` is asked about counts and sums.
    """
    return _holds(predicate, arguments, total, DEEPEST)


def number_at(path: str, arguments: Mapping[str, Any]) -> Decimal | None:
    """The number, or decimal string, at this path; None: there is none."""
    return number(_at(path, arguments))


def windows(predicate: object) -> list[Predicate]:
    """The counts and sums within a rule."""
    return [one for one in conditions(predicate) if "sum" in one or "count" in one]


def conditions(predicate: object, deepest: int = DEEPEST) -> list[Predicate]:
    """What is asked within a rule, counts and sums included."""
    if not isinstance(predicate, Mapping) or not deepest:
        return []
    if "sum" in predicate or "count" in predicate:
        return [predicate]
    within: list[object] = []
    for name in ("all", "any"):
        rules = predicate.get(name)
        within += rules if isinstance(rules, list) else []
    if "not" in predicate:
        within.append(predicate["not"])
    if not within:
        return [predicate]
    return [found for rule in within for found in conditions(rule, deepest - 1)]


def problem(
    predicate: object, *, counts: bool = False, deepest: int = DEEPEST
) -> str | None:
    """What is wrong with a rule as written; None when it is one.

    `counts`: it may count and sum what went before.
    """
    if not isinstance(predicate, Mapping):
        return "a rule is an object"
    if not deepest:
        return f"rules may be {DEEPEST} deep"
    match dict(predicate):
        case {"all": list(rules)} | {"any": list(rules)} if len(predicate) == 1:
            inner = (
                problem(rule, counts=counts, deepest=deepest - 1) for rule in rules
            )
            return next(filter(None, inner), None)
        case {"not": rule} if len(predicate) == 1:
            return problem(rule, counts=counts, deepest=deepest - 1)
        case {"sum": _} | {"count": _}:
            return _window_problem(predicate, counts)
        case {"path": str(path), "op": "exists"} if len(predicate) == 2:
            return _path_problem(path)
        case {"path": str(path), "op": str(op), "value": value}:
            if len(predicate) != 3 or op not in _OPS:
                return f"{op!r} is none of {', '.join(sorted(_OPS))}"
            if op in ("in", "not_in") and not isinstance(value, list):
                return f"{op} needs a list"
            if op in _ORDER and _ordered(value) is None:
                return f"{op} needs a number, a decimal string or an ISO date"
            if op == "matches" and (wrong := pattern.problem(value)):
                return f"{value!r} {wrong}"
            return _path_problem(path)
    return "a rule is a path, an op and a value, or all, any or not"


def _window_problem(predicate: Predicate, counts: bool) -> str | None:
    if not counts:
        return "only a policy's rule may count or sum"
    what = "count" if "count" in predicate else "sum"
    if set(predicate) != {what, "over_hours", "op", "value"}:
        return f"a {what} has over_hours, an op and a value"
    hours = predicate["over_hours"]
    if type(hours) is not int or not 1 <= hours <= LONGEST_HOURS:
        return f"over_hours is a whole number from 1 to {LONGEST_HOURS}"
    op = predicate["op"]
    if not isinstance(op, str) or op not in _ORDER:
        return f"a {what} is compared by {', '.join(sorted(_ORDER))}"
    if number(predicate["value"]) is None:
        return f"a {what} is compared with a number"
    if what == "count":
        return None if predicate["count"] is True else "count is true"
    path = predicate["sum"]
    return _path_problem(path) if isinstance(path, str) else "sum is a JSON Pointer"


def _path_problem(path: str) -> str | None:
    try:
        split(path)
    except BadOperation:
        return f'{path!r} is not a JSON Pointer, such as "/price"'
    return None


def _holds(
    predicate: object, arguments: Mapping[str, Any], total: Total | None, deepest: int
) -> bool | None:
    if not isinstance(predicate, Mapping) or not deepest:
        return None

    def within(rule: object) -> bool | None:
        return _holds(rule, arguments, total, deepest - 1)

    match dict(predicate):
        case {"all": list(rules)}:
            answers = list(map(within, rules))
            return False if False in answers else None if None in answers else True
        case {"any": list(rules)}:
            answers = list(map(within, rules))
            return True if True in answers else None if None in answers else False
        case {"not": rule}:
            inner = within(rule)
            return None if inner is None else not inner
        case {"sum": _} | {"count": _}:
            found = None
            if total is not None and _window_problem(predicate, counts=True) is None:
                found = total(predicate)
            return _compare(predicate.get("op", ""), found, predicate.get("value"))
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
        elif (
            isinstance(node, list)
            and (place := index(part)) is not None
            and place < len(node)
        ):
            node = node[place]
        else:
            return _ABSENT
    return node


def _compare(op: Any, found: Any, value: Any) -> bool | None:
    if not isinstance(op, str):
        return None
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
        if not isinstance(value, list):
            return None
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
    if op == "matches":
        return pattern.is_in(value, found)
    return None


def _equal(one: Any, other: Any) -> bool | None:
    if same(one, other):
        return True
    numbers = number(one), number(other)
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
    amount = number(value)
    if amount is not None or not isinstance(value, str):
        return amount
    for kind in (date, datetime):
        try:
            return kind.fromisoformat(value)
        except ValueError:
            continue
    return None


def number(value: Any) -> Decimal | None:
    """The number that a value is, or is the text of; None for any other."""
    if isinstance(value, Decimal):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        text = value if isinstance(value, str) else repr(value)
        return Decimal(text) if _DECIMAL.match(text) else None
    except (InvalidOperation, ValueError):  # longer than Python writes numbers
        return None
