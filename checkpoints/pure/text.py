"""How one text became another: lines first, then words within the lines that changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import Literal

from checkpoints.pure.align import align

MAX_WORDS = 4_000  # tokens of one changed block, both sides; about 60 ms
MAX_LINES = 10_000
CONTEXT = 2  # unchanged lines shown around a change
ALIKE = 0.25  # share of words in common below which marking single words is noise

# Scripts that put no spaces between words are taken character by character.
_WORDS = re.compile(
    r"""
      [\u3040-\u30ff\u3400-\u9fff]
    | \d+(?:[.,:]\d+)*
    | [^\W\u3040-\u9fff]+
    | \n
    | [^\S\n]+
    | .
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Part:
    kind: Literal["same", "ins", "del"]
    text: str


@dataclass(frozen=True)
class Line:
    """`sign` is " ", "-" or "+". The parts of a "-" line are the same or del."""

    sign: Literal[" ", "-", "+"]
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)


@dataclass(frozen=True)
class Hunk:
    """Lines that belong together; `old_line` and `new_line`, from 1, are the first's."""

    old_line: int
    new_line: int
    lines: tuple[Line, ...]


class Budget:
    """How many words may still be compared one by one, over several texts."""

    def __init__(self, words: int) -> None:
        self.words = words

    def allows(self, words: int) -> bool:
        if words > min(self.words, MAX_WORDS):
            return False
        self.words -= words
        return True


def hunks(
    old: str, new: str, *, context: int | None = CONTEXT, budget: Budget | None = None
) -> tuple[Hunk, ...]:
    """What changed, in hunks with `context` lines around (None: one hunk of all).

    Law: with context=None, the texts of the " " and "-" lines, joined by newlines,
    are `old`, and those of the " " and "+" lines are `new`. A block of more than
    MAX_WORDS tokens, or beyond the budget, is marked by line only; what comes after
    MAX_LINES lines counts as one line, newlines and all.
    """
    old_lines, new_lines = old.split("\n", MAX_LINES), new.split("\n", MAX_LINES)
    lines = list(_lines(old_lines, new_lines, budget or Budget(MAX_WORDS)))
    changed = [n for n, line in enumerate(lines) if line.sign != " "]
    if context is None:
        shown = set(range(len(lines)))
    else:
        shown = {m for n in changed for m in range(n - context, n + context + 1)}
    found: list[Hunk] = []
    old_line = new_line = 1
    for is_shown, run in groupby(range(len(lines)), key=shown.__contains__):
        group = tuple(lines[n] for n in run)
        if is_shown:
            found.append(Hunk(old_line, new_line, group))
        old_line += sum(line.sign != "+" for line in group)
        new_line += sum(line.sign != "-" for line in group)
    return tuple(found)


def _lines(old: list[str], new: list[str], budget: Budget) -> Iterator[Line]:
    i = j = 0
    for next_i, next_j in [*align(old, new), (len(old), len(new))]:
        yield from _block(old[i:next_i], new[j:next_j], budget)
        if next_i < len(old):
            yield Line(" ", (Part("same", old[next_i]),))
        i, j = next_i + 1, next_j + 1


def _block(old: list[str], new: list[str], budget: Budget) -> Iterator[Line]:
    """Lines that nothing kept separates: first those that went, then those that came."""
    words = _words("\n".join(old), "\n".join(new), budget) if old and new else None
    if words is None:
        yield from (Line("-", (Part("del", line),)) for line in old)
        yield from (Line("+", (Part("ins", line),)) for line in new)
        return
    for sign, absent in (("-", "ins"), ("+", "del")):
        line: list[Part] = []
        for part in words:
            if part.kind == absent:
                continue
            head, *rest = part.text.split("\n")
            line.append(Part(part.kind, head))
            for text in rest:
                yield _line(sign, line)
                line = [Part(part.kind, text)]
        yield _line(sign, line)


def _line(sign: str, parts: list[Part]) -> Line:
    joined = tuple(
        Part(kind, "".join(part.text for part in run))
        for kind, run in groupby(parts, key=lambda part: part.kind)
    )
    full = tuple(part for part in joined if part.text)
    return Line("-" if sign == "-" else "+", full or (Part("same", ""),))


def _words(old: str, new: str, budget: Budget) -> list[Part] | None:
    """The two texts word by word, or None where that is too much, or only noise."""
    if len(old) + len(new) > 16 * budget.words:
        return None  # not even worth counting
    a, b = _WORDS.findall(old), _WORDS.findall(new)
    if not budget.allows(len(a) + len(b)):
        return None
    # Most texts grow at an end or change in one place: difflib need not see the rest.
    start = _common(a, b)
    end = _common(a[: start - len(a) - 1 : -1], b[: start - len(b) - 1 : -1])
    old_middle, new_middle = a[start : len(a) - end], b[start : len(b) - end]
    # Blanks are "junk": they follow the words around them, and do not lead.
    matcher = SequenceMatcher(str.isspace, old_middle, new_middle, autojunk=False)
    parts = [Part("same", "".join(a[:start]))] if start else []
    common = _spoken(a[:start]) + _spoken(a[len(a) - end :])
    for tag, i, next_i, j, next_j in matcher.get_opcodes():
        if tag == "equal":
            common += _spoken(old_middle[i:next_i])
            parts.append(Part("same", "".join(old_middle[i:next_i])))
            continue
        if i < next_i:
            parts.append(Part("del", "".join(old_middle[i:next_i])))
        if j < next_j:
            parts.append(Part("ins", "".join(new_middle[j:next_j])))
    if end:
        parts.append(Part("same", "".join(a[len(a) - end :])))
    return parts if common >= ALIKE * max(_spoken(a), _spoken(b)) else None


def _spoken(words: list[str]) -> int:
    """How many of them are no blanks."""
    return sum(not word.isspace() for word in words)


def _common(one: list[str], other: list[str]) -> int:
    """How many words are the same at the start."""
    for n, (word, counterpart) in enumerate(zip(one, other, strict=False)):
        if word != counterpart:
            return n
    return min(len(one), len(other))
