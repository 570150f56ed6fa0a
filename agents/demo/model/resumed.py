"""The facts that stand for earlier messages, as far as the persona can use them.

What people said and what came of calls, a line each; the plan and what was remembered. A
result that was cut is none: the call is made again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

# Of a run that was resumed, or of one whose messages went out of its window.
_OPENING = re.compile(
    r"You are resuming this work|[\d,]+ earlier messages of this conversation are not sent"
)
_TEXT = r'"(?:[^"\\]|\\.)*"'
_SAID = re.compile(rf"- a person said ({_TEXT})\Z")
_CALL = re.compile(rf"- you called ({_TEXT}) with (.*): ({_TEXT})\Z")
_CUT = re.compile(r"… \(cut: [\d,]+ characters\)\Z")


def told(text: str) -> Iterator[str | tuple[str, dict[str, Any], str]]:
    """What a user's message tells: what a person said; calls with arguments and result."""
    if not _OPENING.match(text):
        yield text
        return
    for line in text.split("\n"):
        if said := _SAID.match(line):
            yield json.loads(said[1])
        elif called := _CALL.match(line):
            arguments, result = called[2], " ".join(json.loads(called[3]).split())
            if not (_CUT.search(arguments) or _CUT.search(result)):
                given = json.loads(arguments)
                yield (
                    json.loads(called[1]),
                    given if isinstance(given, dict) else {},
                    result,
                )


def plan(text: str) -> list[dict[str, Any]]:
    """The plan that is told, if one is."""
    return [json.loads(line) for line in _part(text, "Plan") if line.startswith("{")]


def remembered(text: str) -> dict[str, Any]:
    """The facts that are told whole, by name."""
    found = {}
    for line in _part(text, "Facts"):
        name, end = json.JSONDecoder().raw_decode(line)
        if not _CUT.search(value := line[end:].removeprefix(": ")):
            found[name] = json.loads(value)
    return found


def _part(text: str, title: str) -> Iterator[str]:
    """The entries below a title."""
    if not _OPENING.match(text):
        return
    for part in text.split("\n\n"):
        if part.startswith(f"{title}:\n"):
            for line in part.split("\n"):
                if line.startswith("- "):
                    yield line[2:]
