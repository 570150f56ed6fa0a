"""What pages show in the place of a value that is kept as a blob: a chip, a thumbnail.

A value that merely looks like a reference, because a tool or a file wrote it so, is shown
as the value that it is: only the thread's own blobs have chips, and what a chip says of
size and kind comes from their rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from uuid import UUID

from django.urls import reverse

from agents.pages.text import filesize
from checkpoints.models import Blob, Thread
from checkpoints.pure import refs

# What browsers draw without running anything. SVG is a program.
IMAGES = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}
MOST_SHOWN = 8 * 1024 * 1024  # bytes of an image that is shown as a thumbnail
MOST_CHIPS = 50  # below a record that is shown as it is stored
_ICONS = {"image": "image", "audio": "sound", "text": "file"}


@dataclass(frozen=True)
class Chip:
    """One blob, as far as its row and its reference tell of it."""

    thread: UUID
    id: UUID
    media_type: str
    size: int
    words: str = ""  # its first, or a caption

    @property
    def icon(self) -> str:
        return _ICONS.get(self.media_type.partition("/")[0], "file")

    @property
    def kind(self) -> str:
        """ "text, 195.3 KB"; of anything but plain text its media type."""
        kind = "text" if self.media_type == refs.TEXT else self.media_type
        return f"{kind}, {filesize(self.size)}"

    @property
    def said(self) -> str:
        """In a line of text."""
        return f"[{self.kind}]" + (f" “{self.words}”" if self.words else "")

    @property
    def page(self) -> str:
        return reverse("agents:blob", args=[self.thread, self.id])

    @property
    def thumbnail(self) -> str:
        """The address of the image itself, where it can be shown."""
        if self.media_type not in IMAGES or self.size > MOST_SHOWN:
            return ""
        return reverse("agents:blob_image", args=[self.thread, self.id])


class Chips:
    """The chips of a thread, or of several that are shown together.

    Asks the database once for each, and only if there is a reference.
    """

    def __init__(self, *threads: Thread | None) -> None:
        """They were reached as somebody who may see them; None has no chips."""
        self._threads = {thread.pk: thread for thread in threads if thread is not None}

    def of(self, value: Any) -> Chip | None:
        """The chip of a reference; None for any other value."""
        if not refs.is_ref(value):
            return None
        blob = self._known.get(refs.ref_id(value))
        if blob is None:
            return None
        return replace(chip_of(blob), words=value["digest"])

    def within(self, value: Any) -> list[Chip]:
        """The chips of what a value holds, each once."""
        found: dict[UUID, Chip] = {}
        for ref in refs.refs(value):
            if chip := self.of(ref):
                found.setdefault(chip.id, chip)
        return list(found.values())[:MOST_CHIPS]

    @cached_property
    def _known(self) -> dict[UUID, Blob]:
        return {
            row.pk: row
            for thread in self._threads.values()
            for row in thread.blobs.only("id", "thread_id", "media_type", "size")
        }


NO_CHIPS = Chips(None)


def chip_of(blob: Blob) -> Chip:
    """The chip of a row, without the words that a reference has."""
    return Chip(blob.thread_id, blob.pk, blob.media_type, blob.size)
