"""A message of a person's, as it is kept until a step holds it.

Text; where something in it had to be replaced, an object with the text and with what the
step says of that: `{"cleaned": paths, "secrets": names, "text": text}`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from checkpoints.pure.codec import clean

Said = str | dict[str, Any]

PATH = "content"  # where its text stands in the message that a step holds
TEXT = "text"


def said(message: str, *, secrets: Sequence[str] = ()) -> Said:
    """The message to keep: without blanks around it, with one kind of line end.

    `secrets`: the names of those that were taken out of it.
    """
    text, cleaned = clean({PATH: message.replace("\r\n", "\n").strip()})
    replaced = {"cleaned": cleaned, "secrets": list(secrets)}
    flagged = {name: found for name, found in replaced.items() if found}
    return {**flagged, TEXT: text[PATH]} if flagged else str(text[PATH])


def text_of(kept: Said) -> str:
    return kept if isinstance(kept, str) else str(kept[TEXT])


def flags(kept: Said) -> dict[str, Any] | None:
    """What the step's context says of it: paths of texts that held lone surrogates,
    names of secrets."""
    if isinstance(kept, str):
        return None
    return {name: found for name, found in kept.items() if name != TEXT}
