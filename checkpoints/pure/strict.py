"""What JSON parsers disagree about, found in text before it is parsed."""

from __future__ import annotations

import json
import math
import re

from checkpoints.errors import NotJson

MAX_DEPTH = 64  # containers within containers, the outermost included
MIN_INT, MAX_INT = -(2**63), 2**64 - 1  # what orjson reads back exactly

_TOKEN = re.compile(
    r"""
      "(?P<string>(?:[^"\\]|\\.)*+)["\\]?  # to the end where it is left open: no second try
    | -?[0-9]{1,18}[\s,]+  # a small number of a list: nothing to say
    | (?P<mark>[{}\[\]:])
    | (?P<word>[^\s"{}\[\]:,]+)
    """,
    re.VERBOSE | re.DOTALL,
)


def first_problem(text: str) -> NotJson | None:
    """What is wrong with text that may otherwise parse. Says nothing about syntax."""
    open_keys: list[set[str] | None] = []  # per container: keys so far; None in a list
    last_string: re.Match[str] | None = None
    for token in _TOKEN.finditer(text):
        if token.lastgroup is None:
            last_string = None
            continue
        match token["mark"], token["word"]:
            case "{" | "[" as mark, _:
                open_keys.append(set() if mark == "{" else None)
                if len(open_keys) > MAX_DEPTH:
                    return _problem(text, token, f"more than {MAX_DEPTH} levels deep")
            case "}" | "]", _:
                if open_keys:
                    open_keys.pop()
            case ":", _:
                keys = open_keys[-1] if open_keys else None
                if keys is None or last_string is None:
                    continue
                try:
                    key = json.loads(last_string[0])
                except ValueError:
                    return None  # json.loads() says what is wrong with it
                if has_surrogate(key):
                    return _problem(text, last_string, "a lone surrogate in a key")
                if key in keys:
                    shown = json.dumps(shortened(key), ensure_ascii=False)
                    return _problem(
                        text, last_string, f"the key {shown} is given twice"
                    )
                keys.add(key)
            case _, str(word):
                if complaint := _bad_number(word):
                    return _problem(text, token, complaint)
        last_string = token if token["string"] is not None else None
    return None


def _bad_number(word: str) -> str | None:
    if word in ("NaN", "Infinity", "-Infinity"):
        return f"{word} is not a number in JSON"
    if re.fullmatch(r"-?[0-9]+", word):
        # Python refuses to read integers of more than 4,300 digits.
        if len(word) > 20 or not MIN_INT <= int(word) <= MAX_INT:
            return "an integer beyond 64 bits; write it as text"
    elif re.fullmatch(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?", word) and math.isinf(
        float(word)
    ):
        return "a number too large for a float; write it as text"
    return None


def _problem(text: str, token: re.Match[str], problem: str) -> NotJson:
    start = token.start()
    line = text.count("\n", 0, start) + 1
    return NotJson(line, start - text.rfind("\n", 0, start), problem)


def has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def shortened(key: str) -> str:
    return key if len(key) <= 40 else key[:39] + "…"
