"""The first words of a text, on one line: what lists show of it."""

from __future__ import annotations

from checkpoints.pure.codec import clean

LABEL_CHARACTERS = 160  # of a step's label


def first_words(text: str, characters: int = LABEL_CHARACTERS) -> str:
    line = " ".join(clean(text)[0].split())
    return line if len(line) <= characters else line[: characters - 1].rstrip() + "…"
