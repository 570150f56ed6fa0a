"""Messages of about 1 KB, made of sentences that people and models wrote.

From the recorded conversations, where they are, and from this project's own pages and
docstrings, which are in every clone; in the order in which they stand there. None comes
twice before all have come once, far more than a segment later: repetition would pack too
well, as random bytes would not pack at all.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

BYTES = 1024  # of a message, at least; it ends with its sentence

_ROOT = Path(__file__).resolve().parent.parent
_RECORDED = _ROOT.parent / "shared" / "data" / "airline"
_ENDS = re.compile(r"(?<=[.!?])\s+|\n\s*\n|\n[-|#*>] ?")


def messages() -> Iterator[str]:
    """The same ones in each run, without end."""
    begun: list[str] = []
    size = 0
    for sentence in cycle(_sentences()):
        begun.append(sentence)
        size += len(sentence.encode()) + 1
        if size > BYTES:
            yield " ".join(begun)
            begun, size = [], 0


@cache
def _sentences() -> tuple[str, ...]:
    texts = [*_conversations(), *_pages(), *_docstrings()]
    found = (
        " ".join(part.split()) for text in texts for part in _ENDS.split(text) if part
    )
    return tuple(dict.fromkeys(part for part in found if 30 < len(part) < 400))


def _conversations() -> Iterator[str]:
    for file in sorted(_RECORDED.glob("*.json")):
        yield from _said(json.loads(file.read_text()))


def _said(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("content"), str) and value.get("role") != "tool":
            yield value["content"]
        for inner in value.values():
            yield from _said(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _said(inner)


def _pages() -> Iterator[str]:
    for file in [*sorted(_ROOT.glob("*.md")), *sorted(_ROOT.glob("docs/**/*.md"))]:
        yield file.read_text()


def _docstrings() -> Iterator[str]:
    for folder in ("checkpoints", "agents", "project"):
        for file in sorted((_ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                    yield ast.get_docstring(node) or ""
