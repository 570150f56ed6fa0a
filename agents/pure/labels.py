"""Texts for lists: the first words of a text on one line, a span of time."""

from __future__ import annotations

from datetime import timedelta

from checkpoints.pure.codec import clean

LABEL_CHARACTERS = 160  # of a step's label


def first_words(text: str, characters: int = LABEL_CHARACTERS) -> str:
    line = " ".join(clean(text)[0].split())
    return line if len(line) <= characters else line[: characters - 1].rstrip() + "…"


def how_long(length: timedelta) -> str:
    """A time span in words: `40 s`, `90 min`, `3 h`, `5 days`."""
    seconds = int(length.total_seconds())
    for size, least, unit in ((86_400, 2, "days"), (3_600, 2, "h"), (60, 2, "min")):
        if seconds >= size * least:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
