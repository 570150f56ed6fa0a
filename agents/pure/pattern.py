"""Regular expressions that people write, looked for in a time that is bounded.

They are Rust's (which pydantic brings): a text is gone through once, without going back,
so `(a+)+$` takes no longer than any other. What a look takes grows with the pattern, its
repetitions written out, so that has a bound, too. There is no look-around and there are
no back-references, which nobody knows how to bound.
"""

from __future__ import annotations

import re
from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema

TEXT_CHARACTERS = 10_000  # a pattern is not tried on longer text
LONGEST = 500  # characters of a pattern
LARGEST = 1_000  # parts, repetitions written out; the slowest take half a second
CLASS = 5  # parts that one of many characters counts for: \w, ., [^a]

_TIMES = re.compile(r"\{\s*([0-9]*)\s*(?:,\s*([0-9]*)\s*)?\}")
_VERBOSE = re.compile(r"\(\?[a-wyzA-Z-]*x")  # spaces would mean nothing: not measured


def problem(pattern: object) -> str | None:
    """What is wrong with a pattern, for whoever wrote it; None when it can be tried."""
    found = _compiled(pattern) if isinstance(pattern, str) else "is no text"
    return found if isinstance(found, str) else None


def is_in(pattern: object, text: str) -> bool | None:
    """Whether the pattern is found in the text; None: it is not one that is tried."""
    found = _compiled(pattern) if isinstance(pattern, str) else None
    if not isinstance(found, SchemaValidator) or len(text) > TEXT_CHARACTERS:
        return None
    if not _is_text(text):
        return None
    return found.isinstance_python(text)


@lru_cache(maxsize=500)
def _compiled(pattern: str) -> SchemaValidator | str:
    if not _is_text(pattern):
        return _NONE
    if len(pattern) > LONGEST:
        return f"is longer than {LONGEST} characters"
    if _VERBOSE.search(pattern) or _size(pattern) > LARGEST:
        return "repeats too much to be tried in bounded time"
    try:
        return SchemaValidator(
            core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")
        )
    except SchemaError as error:
        said = str(error).rpartition("error: ")[2].strip()
        return f"is not a regular expression: {said}" if "\n" not in said else _NONE


_NONE = "is not a regular expression"


def _size(pattern: str) -> int:
    """About how many parts it has with its counted repetitions written out."""
    whole, last, at = [0], 0, 0  # parts of each open group; of what is before `at`
    while at < len(pattern):
        if times := _TIMES.match(pattern, at):
            most = max(*(int(each or 0) for each in times.groups(default="0")), 1)
            whole[-1] += last * (most - 1)
            last *= most
            at = times.end()
            continue
        char = pattern[at]
        if char == "(":
            whole.append(0)
        elif char == ")" and len(whole) > 1:
            last = whole.pop()
            whole[-1] += last
        elif char not in "*+?":
            last = CLASS if _is_many(pattern[at : at + 2]) else 1
            whole[-1] += last
            at = _class_end(pattern, at) if char == "[" else at + 1 + (char == "\\")
            continue
        at += 1
    return sum(whole)


def _is_many(start: str) -> bool:
    """Whether this begins what stands for many characters: an escape, a dot, [^a]."""
    return (
        start[0] == "." or start == "[^" or (start[0] == "\\" and start[1:].isalnum())
    )


def _class_end(pattern: str, at: int) -> int:
    """Just after the class of characters that begins here."""
    deep, at = 1, at + 1
    if pattern[at : at + 1] == "^":
        at += 1
    if pattern[at : at + 1] == "]":  # as itself
        at += 1
    while at < len(pattern) and deep:
        deep += {"[": 1, "]": -1}.get(pattern[at], 0)
        at += 1 + (pattern[at] == "\\")
    return at


def _is_text(text: str) -> bool:
    """Whether it has no half of a pair (U+D800 and on), which UTF-8 cannot say."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
