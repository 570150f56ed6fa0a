"""Plain JSON, strictly: what may be stored, and its one canonical form.

Canonical bytes are the standard library's: sorted keys, no blanks, UTF-8. Two
values are the same when their canonical bytes are, so 1, 1.0 and true differ.
What a parser elsewhere would mistake is refused here, when it is written:
NaN and infinities, integers beyond 64 bits, keys that are not text, and lone
surrogates (`clean` replaces those in values, since language models emit them).
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Iterator
from typing import Any, Never

import orjson

from checkpoints.errors import NotJson, NotStorable
from checkpoints.pure.strict import (
    MAX_DEPTH,
    MAX_INT,
    MIN_INT,
    first_problem,
    has_surrogate,
    shortened,
)

State = dict[str, Any]

MAX_BYTES = 16 * 1024 * 1024  # canonical bytes of one value, so of one step

_encoder = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False
)
_PLAIN = frozenset({str, int, float, bool, type(None)})
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

# Where a value is, as a linked list: built for containers only, read on errors only.
_Place = tuple["_Place", str | int] | None


def canonical(value: object, *, most: int = MAX_BYTES) -> bytes:
    """The one form in which this value is stored, hashed and compared.

    Raises NotStorable when it is not plain JSON, or takes more than `most` bytes.
    """
    has_floats = check_structure(value)
    # The same bytes, ten times as fast; but orjson writes 1e16 where Python has 1e+16.
    data = (
        _encoder.encode(value).encode()
        if has_floats
        else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    )
    if len(data) > most:
        _too_large(most)
    return data


def check(value: object) -> None:
    """Raises NotStorable, which names the place, when `value` cannot be stored."""
    canonical(value)


def parse(data: bytes) -> State:
    """What these canonical bytes say. For bytes that we stored; never for input."""
    state: State = orjson.loads(data)
    return state


def same(one: object, other: object) -> bool:
    """Whether the canonical bytes are equal, without making them.

    Both must be storable.
    """
    return one is other or (one == other and _no_twins(one, other))


def text(value: object) -> str:
    """The canonical form of a value that is known to be storable, not yet as bytes."""
    return _encoder.encode(value)


def size(value: object) -> int:
    """About how much a storable value takes, in characters. Checks nothing."""
    return len(text(value))


def depth(value: object) -> int:
    """Containers within containers: 0 for a text or a number, 1 for []."""
    if type(value) is dict:
        return 1 + max(map(depth, value.values()), default=0)
    if type(value) is list:
        return 1 + max(map(depth, value), default=0)
    return 0


def clean(value: Any) -> tuple[Any, list[str]]:
    """`value` with lone surrogates in its texts as U+FFFD, and the paths of those texts.

    Copies only what it changes. Surrogates in keys are left for `check` to refuse:
    two keys could become one.
    """
    flagged: list[str] = []
    return _clean(value, None, 0, flagged), flagged


def load_strict(text: str) -> Any:
    """The value of JSON that a person or a model wrote.

    Raises NotJson, with line and column, for bad syntax and for what JSON parsers
    disagree about: a key given twice, NaN, numbers out of range, over-deep nesting.
    The text may still hold lone surrogates (as escapes): see `clean`.
    """
    problem = first_problem(text)
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        # "Expecting value", "Unterminated string starting at", …
        complaint = error.msg[0].lower() + error.msg[1:].removesuffix(" at")
        raise NotJson(error.lineno, error.colno, complaint) from None
    except (ValueError, RecursionError):
        # Thousands of digits, or of brackets: the scan has seen them, too.
        if problem is None:
            raise
    if problem is not None:
        raise problem
    return value


def check_structure(root: object) -> bool:
    """Whether there are floats in it. Raises NotStorable where it is no plain JSON.

    Long texts count for nothing here.
    """
    has_floats = False
    # What is left of MAX_BYTES, counting brackets, commas and empty keys only: enough
    # to stop at a small value that holds itself so often that its text is huge.
    room = MAX_BYTES
    # Each with its depth; the list around the root is not part of it.
    todo: list[tuple[Any, _Place, int]] = [([root], None, 0)]
    while todo:
        holder, place, depth = todo.pop()
        if depth > MAX_DEPTH:
            raise NotStorable(
                _path(place),
                f"is more than {MAX_DEPTH} levels deep",
                "keep less nested data",
            )
        room -= 1 + len(holder) * (4 if type(holder) is dict else 1)
        if room < 0:
            _too_large()
        pairs: Iterator[tuple[Any, Any]]
        if type(holder) is dict:
            for key in holder:
                if type(key) is not str:
                    raise NotStorable(
                        _path(place),
                        f"has a key that is {_named(key)}",
                        "keys are text",
                    )
                if not key.isascii() and has_surrogate(key):
                    raise NotStorable(
                        _path((place, key)),
                        "has a key with a lone surrogate",
                        "keys are well-formed text",
                    )
            pairs = iter(holder.items())
        else:
            pairs = enumerate(holder)
        for key, value in pairs:
            kind = type(value)
            if kind is str:
                if not value.isascii() and has_surrogate(value):
                    raise NotStorable(
                        _at(place, key, depth),
                        "has a lone surrogate",
                        "clean() replaces them",
                    )
            elif kind is dict or kind is list:
                todo.append((value, (place, key) if depth else None, depth + 1))
            elif kind is int:
                if not MIN_INT <= value <= MAX_INT:
                    raise NotStorable(
                        _at(place, key, depth),
                        "is an integer beyond 64 bits",
                        "store it as text",
                    )
            elif kind is float:
                has_floats = True
                if not math.isfinite(value):
                    raise NotStorable(
                        _at(place, key, depth),
                        f"is {value}",
                        "JSON has no such number",
                    )
            elif kind not in _PLAIN:
                raise NotStorable(_at(place, key, depth), f"is {_named(value)}")
    return has_floats


def _no_twins(one: Any, other: Any) -> bool:
    """Whether values that are == are so in JSON as well (0 == False == -0.0)."""
    kind = type(one)
    if one is other:
        return True
    if kind is not type(other):
        return False
    if kind is dict:
        return all(_no_twins(value, other[key]) for key, value in one.items())
    if kind is list:
        return all(map(_no_twins, one, other))
    if kind is float:
        return one != 0 or math.copysign(1, one) == math.copysign(1, other)
    return True


def _clean(value: Any, place: _Place, depth: int, flagged: list[str]) -> Any:
    kind = type(value)
    if kind is str:
        if value.isascii() or not has_surrogate(value):
            return value
        flagged.append(_path(place))
        # By way of UTF-16, which joins two halves that do belong together.
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if depth >= MAX_DEPTH:
        return value  # for check() to refuse
    if kind is dict:
        changed = {
            key: fresh
            for key, old in value.items()
            if (fresh := _clean(old, (place, key), depth + 1, flagged)) is not old
        }
        return {**value, **changed} if changed else value
    if kind is list:
        items = [
            _clean(old, (place, index), depth + 1, flagged)
            for index, old in enumerate(value)
        ]
        return value if all(map(operator.is_, items, value)) else items
    return value


def _too_large(most: int = MAX_BYTES) -> Never:
    raise NotStorable(
        "$",
        f"is larger than {most // 1024**2} MB",
        "store large values as blobs",
    )


def _named(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _at(place: _Place, key: str | int, depth: int) -> str:
    return _path((place, key) if depth else None)


def _path(place: _Place) -> str:
    """`$.messages[3].at`: the place as people write it."""
    steps: list[str] = []
    while place is not None:
        place, key = place
        if isinstance(key, int):
            steps.append(f"[{key}]")
        elif _WORD.match(key):
            steps.append(f".{shortened(key)}")
        else:
            steps.append(f"[{json.dumps(shortened(key))}]")
    return "$" + "".join(reversed(steps))
