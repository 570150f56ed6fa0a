"""The facts that a resumed run is told, as far as the persona can use them.

What people said and what came of calls, a line each. A result that was cut is none: the
call is made again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

OPENING = "You are resuming this work"
_TEXT = r'"(?:[^"\\]|\\.)*"'
_SAID = re.compile(rf"- a person said ({_TEXT})\Z")
_CALL = re.compile(rf"- you called ({_TEXT}) with (.*): ({_TEXT})\Z")
_CUT = re.compile(r"… \(cut: [\d,]+ characters\)\Z")


def told(text: str) -> Iterator[str | tuple[str, dict[str, Any], str]]:
    """What a user's message tells: what a person said; calls with arguments and result."""
    if not text.startswith(OPENING):
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
