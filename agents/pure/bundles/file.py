"""The frame of a file that is handed on: what it is, what it says of itself, its hash.

    {"content": …, "format": "holdpoint bundle", "manifest": …, "sha256": "…", "version": 1}

The hash is SHA-256, in hex, over the canonical JSON (`checkpoints.pure.codec`) of the
other four, so blanks and the order of keys do not matter and every value does. It finds
what was changed or damaged on the way. It is no signature: who made the file can make
another one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from agents.errors import BadFile, TooLarge
from checkpoints.errors import NotJson, NotStorable
from checkpoints.pure import codec
from checkpoints.pure.strict import MAX_DEPTH

BUNDLE, TEST_CASE = "holdpoint bundle", "holdpoint test case"
VERSION = 1
MOST_BYTES = 16 * 1024 * 1024  # of a file; all of it is in memory while it is handled
FRAME_DEPTH = 12  # levels that a file puts around what a step holds, and some to spare

_KEYS = {"content", "format", "manifest", "sha256", "version"}
_LARGER = (
    f"a file holds {MOST_BYTES // 1024**2} MB at most. Export a branch, or one step."
)


@dataclass(frozen=True)
class File:
    manifest: dict[str, Any]
    content: dict[str, Any] = field(repr=False)
    sha256: str

    @property
    def content_digest(self) -> str:
        """SHA-256 of the content alone: the same for what is exported once more."""
        return sha256(codec.canonical(self.content, most=MOST_BYTES)).hexdigest()


def write(
    format: str, manifest: dict[str, Any], content: dict[str, Any], *, lines: bool
) -> str:
    """The file's text; with `lines`, one that shows its changes line by line.

    Raises TooLarge.
    """
    made = {
        "content": content,
        "format": format,
        "manifest": manifest,
        "version": VERSION,
    }
    whole = {**made, "sha256": _hash(made)}
    if lines:
        text = json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=False)
    else:
        text = codec.text(whole)
    if len(text.encode()) >= MOST_BYTES:  # with the end of its last line
        raise too_large("It")
    return f"{text}\n"


def read(data: bytes, *, format: str) -> File:
    """What a file of this format says, shown to be as it was written.

    Raises BadFile, which names the place and the problem.
    """
    if len(data) > MOST_BYTES:
        raise BadFile("It", f"it has {len(data):,} bytes; {_LARGER}")
    try:
        text = data.decode("utf-8-sig")  # some editors add a mark
    except UnicodeDecodeError as wrong:
        raise BadFile(
            f"Byte {wrong.start}", "it is not UTF-8; save it as UTF-8."
        ) from wrong
    try:
        found = codec.load_strict(text)
    except NotJson as wrong:
        place = f"Line {wrong.line}, column {wrong.column}"
        raise BadFile(place, f"it is not JSON that we take: {wrong.problem}.") from None
    if not isinstance(found, dict) or found.get("format") != format:
        raise BadFile(
            "It",
            f'expected an object whose "format" is "{format}", found {kind(found)}.',
        )
    version = found.get("version")
    if type(version) is int and version > VERSION:
        raise BadFile(
            "version",
            f"it is of version {version}; this release reads up to {VERSION}. "
            "Import it where a later one runs.",
        )
    if version != VERSION or type(version) is not int:
        raise BadFile("version", f"expected {VERSION}, found {kind(version)}.")
    if found.keys() != _KEYS:
        odd = sorted(found.keys() ^ _KEYS)[0]
        says = "is missing" if odd in _KEYS else "does not belong there"
        raise BadFile("It", f"the key {shown(odd)} {says}.")
    for name in ("content", "manifest"):
        if not isinstance(found[name], dict):
            raise BadFile(name, f"expected an object, found {kind(found[name])}.")
    said = found.pop("sha256")
    try:
        is_same = said == _hash(found)
    except NotStorable as wrong:
        raise BadFile(wrong.path, f"it {wrong.found}; {wrong.expected}.") from None
    except TooLarge as wrong:
        raise BadFile("It", str(wrong)) from None
    if not is_same:
        raise BadFile(
            "sha256",
            "the content is not what this hash was made of: the file was changed or "
            "damaged since it was exported. Export it anew.",
        )
    return File(found["manifest"], found["content"], said)


def room(value: Any) -> int:
    """About how many bytes a value takes in a file. Raises NotStorable."""
    return len(codec.canonical(value, most=MOST_BYTES))


def folded(value: Any) -> Any:
    """The value as it stands in a file: as JSON text where it is nested too deep for it."""
    return codec.text(value) if codec.depth(value) > MAX_DEPTH - FRAME_DEPTH else value


def unfolded(value: Any, place: str) -> Any:
    """What `folded` was given. Raises BadFile."""
    if not isinstance(value, str):
        return value
    try:
        return codec.load_strict(value)
    except NotJson as wrong:
        raise BadFile(place, f"it is not JSON that we take: {wrong.problem}.") from None


def kind(value: object) -> str:
    """What was found, for an error: what it is, never what it says."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
    return "an object"


def shown(key: str) -> str:
    """A key of the file, cut, for an error."""
    return json.dumps(key if len(key) <= 40 else f"{key[:39]}…", ensure_ascii=False)


def too_large(what: str) -> TooLarge:
    return TooLarge(f"{what} is too large to export: {_LARGER}")


def _hash(made: dict[str, Any]) -> str:
    try:
        return sha256(codec.canonical(made, most=MOST_BYTES)).hexdigest()
    except NotStorable as wrong:
        if wrong.path == "$":
            raise too_large("It") from wrong
        raise
