"""A message of a person's, as it is kept until a step holds it.

Text; where characters of it had to be replaced, `{"cleaned": paths, "text": text}`, so
that the step can say so.
"""

from __future__ import annotations

from typing import Any

from checkpoints.pure.codec import clean

Said = str | dict[str, Any]

PATH = "content"  # where its text stands in the message that a step holds


def said(message: str) -> Said:
    """The message to keep: without blanks around it, with one kind of line end."""
    text, cleaned = clean({PATH: message.replace("\r\n", "\n").strip()})
    return {"cleaned": cleaned, "text": text[PATH]} if cleaned else str(text[PATH])


def text_of(kept: Said) -> str:
    return kept if isinstance(kept, str) else str(kept["text"])


def flags(kept: Said) -> dict[str, Any] | None:
    """What the step's context says of it: paths of texts that held lone surrogates."""
    return None if isinstance(kept, str) else {"cleaned": kept["cleaned"]}
