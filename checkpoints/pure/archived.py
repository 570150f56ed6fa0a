"""The lines of an archive: JSON, each chained to the line before it.

    {"digest": 64 hex digits, "row": {...}, "table": "archive"}      the manifest
    {"digest": …, "row": {...}, "table": "checkpoints.branch"}       a row, and so on
    {"digest": …, "row": {"lines": n, "mac": …}, "table": "end"}

A line's digest is SHA-256 over the digest before it and the canonical JSON of its other
two members, so the last one covers the file. Digests show what was damaged or cut off,
and where; that nobody wrote the file anew is shown by the MAC in its last line, under
the thread's MAC key. docs/archive.md describes the format.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any

import orjson

from checkpoints.errors import BadArchive
from checkpoints.pure import codec

FORMAT = "holdpoint archive"
VERSION = 1
MAX_LINE = 4 * 1024 * 1024  # characters; longer values are split over several lines

MANIFEST, CHUNK, END = "archive", "chunk", "end"

Row = dict[str, Any]

_START = bytes(32)
_MAC = b"holdpoint archive 1"


class Lines:
    """Makes the lines of one archive, in order."""

    def __init__(self) -> None:
        self.count = 0
        self._digest = _START

    def manifest(self, **about: Any) -> bytes:
        """The first line."""
        return self.line(MANIFEST, {"format": FORMAT, "version": VERSION, **about})

    def line(self, table: str, row: Row) -> bytes:
        self.count += 1
        self._digest = _chained(self._digest, table, row)
        line = {"digest": self._digest.hex(), "row": row, "table": table}
        return codec.text(line).encode() + b"\n"

    def end(self, mac_key: bytes) -> bytes:
        """The last line."""
        return self.line(
            END, {"lines": self.count, "mac": _sign(mac_key, self._digest)}
        )


class Reader:
    """Reads the lines of one archive; what is yielded was as it was written.

    That it is complete, and by whom it was written, shows at the end only: `signed_by`.
    """

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = iter(lines)
        self._digest = _START
        self._mac: str | None = None
        self.count = 0
        table, row = self._next()
        if table != MANIFEST or row.get("format") != FORMAT:
            raise BadArchive("This is not an archive of Holdpoint.")
        if row.get("version") != VERSION:
            raise BadArchive(
                f"The archive has format version {str(row.get('version'))[:9]}; this"
                f" release reads version {VERSION}. Use the release that wrote it, or a"
                " newer one."
            )
        self.manifest: Row = row

    def __iter__(self) -> Iterator[tuple[str, Row]]:
        """Every row between the first line and the last. Raises BadArchive."""
        while True:
            covered, count = self._digest, self.count
            table, row = self._next()
            if table == END:
                break
            yield table, row
        if row.get("lines") != count:
            raise BadArchive(
                f"The archive has {count} lines and ends as one of {row.get('lines')}."
            )
        if next(self._lines, None) is not None:
            raise BadArchive("The archive goes on after its last line.")
        self._mac, self._covered = str(row.get("mac")), covered

    def require_signed(self, mac_key: bytes) -> None:
        """After the last row: raises BadArchive when another key signed the archive."""
        assert self._mac is not None  # the caller has read every row
        if not hmac.compare_digest(self._mac, _sign(mac_key, self._covered)):
            raise BadArchive(
                "The archive was not written under the keys of its thread: somebody"
                " changed it, or it is of another installation."
            )

    def _next(self) -> tuple[str, Row]:
        line = next(self._lines, None)
        number = self.count + 1
        if line is None or not line.endswith(b"\n"):
            raise BadArchive(
                f"The archive is cut off: line {number} is missing or incomplete."
            )
        try:
            found = orjson.loads(line)
            table, row, digest = found["table"], found["row"], found["digest"]
            self._digest = _chained(self._digest, table, row)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise BadArchive(
                f"Line {number} is not a line of an archive of Holdpoint."
            ) from None
        if (
            not isinstance(row, dict)
            or not isinstance(table, str)
            or digest != self._digest.hex()
        ):
            raise BadArchive(f"Line {number} of the archive is not as it was written.")
        self.count = number
        return table, row


def split(text: str) -> list[str]:
    """A long text in parts that fit a line each."""
    size = MAX_LINE // 16  # a row has several columns
    return [text[start : start + size] for start in range(0, len(text), size)]


def lines_of(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a text that arrives in chunks, with their ends. Raises BadArchive."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line + b"\n"
        if len(rest) > MAX_LINE:
            raise BadArchive(f"The archive has a line of more than {MAX_LINE} bytes.")
    if rest:
        yield rest


def _chained(digest: bytes, table: str, row: Row) -> bytes:
    return sha256(digest + codec.text({"row": row, "table": table}).encode()).digest()


def _sign(mac_key: bytes, digest: bytes) -> str:
    mac = hmac.digest(mac_key, _MAC + digest, "sha256")
    return b64encode(mac).decode()
