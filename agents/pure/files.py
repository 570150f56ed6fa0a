"""An agent's files: a channel of the state, from a path to what the file holds.

    "files": {"notes/plan.md": "# Plan …",
              "logo.png": {"file_data": "data:image/png;base64,…"}}

A text stands as it is, anything else as the data URL that messages carry files in: so the
log keeps large ones as blobs, versions, compares, forks and restores all of them, and no
file system is touched. What a state holds may come from anywhere: `files_of` takes nothing
for granted, and whatever is no file of ours is left to whoever shows the state itself.
"""

from __future__ import annotations

import binascii
import re
import unicodedata
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agents.errors import FileRefused
from agents.pure.visible import flat, is_hidden
from checkpoints.pure.codec import clean
from checkpoints.pure.refs import is_media_type, is_ref

CHANNEL = "files"

LARGEST = 1024 * 1024  # bytes of one file
MOST = 1_000  # files
TOTAL = 8 * 1024 * 1024  # bytes of them all: half of what one step may hold
LONGEST = 400  # bytes of a path
LONGEST_NAME = 200  # bytes of one name in it
DEEPEST = 16  # names in a path

_DATA = "file_data"
_DATA_URL = re.compile(r"data:([^;,]*);base64,")
# Windows gives these to devices, whatever comes after a dot.
_DEVICE = re.compile(
    r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])(\.|\Z)", re.I
)
_ODD = frozenset('\\<>:"|?*')  # no system but ours takes all of them in a name
_TYPES = {
    "gif": "image/gif",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "mp3": "audio/mpeg",
    "pdf": "application/pdf",
    "png": "image/png",
    "wav": "audio/wav",
    "webp": "image/webp",
    "zip": "application/zip",
}
_UNKNOWN = "application/octet-stream"


@dataclass(frozen=True)
class File:
    """One file. `value` is what stands in the state for it."""

    path: str
    value: Any
    size: int  # bytes

    @property
    def text(self) -> str | None:
        """What it says; None for one that is not text, or is kept as a blob."""
        return self.value if isinstance(self.value, str) else None


def normal(path: str) -> str:
    """The one form of a path: relative, its names joined by /, NFC. Raises FileRefused."""
    if len(path) > LONGEST:
        raise FileRefused(_too_long(len(path)))
    path = unicodedata.normalize("NFC", path)
    shown = f"“{flat(path)}”"
    if path.startswith(("/", "~")):
        raise FileRefused(
            f"{shown} is no path here: paths are relative and begin with a name, as in"
            " notes/plan.md."
        )
    if hidden := next((c for c in path if is_hidden(c) or c in "\n\t"), None):
        raise FileRefused(
            f"{shown} holds a character that shows nothing (U+{ord(hidden):04X})."
        )
    if odd := next((c for c in path if c in _ODD), None):
        why = " Names are joined by /." if odd == "\\" else ""
        raise FileRefused(f"{shown} holds {odd}, which no name may.{why}")
    names = path.split("/")
    for name in names:
        if problem := _problem(name):
            raise FileRefused(f"{shown}: {problem}")
    if len(names) > DEEPEST:
        raise FileRefused(
            f"A path has at most {DEEPEST} names, not {len(names)}: {shown}."
        )
    if (size := len(path.encode())) > LONGEST:
        raise FileRefused(_too_long(size))
    return path


def folder(prefix: str) -> str:
    """The start of all paths in a folder; "" for all there are. Raises FileRefused."""
    prefix = prefix.removesuffix("/")
    return f"{normal(prefix)}/" if prefix not in ("", ".") else ""


def files_of(channel: Any) -> dict[str, File]:
    """The files of a channel's value, sorted by path. Raises nothing."""
    if not isinstance(channel, dict) or is_ref(channel):
        return {}
    sizes = ((path, value, size_of(value)) for path, value in sorted(channel.items()))
    return {
        path: File(path, value, size) for path, value, size in sizes if size is not None
    }


def size_of(value: Any) -> int | None:
    """Bytes of a file, by what stands for it; None for what is no file."""
    if isinstance(value, str):
        return len(value.encode(errors="replace"))
    if isinstance(value, dict) and not is_ref(value) and value.keys() == {_DATA}:
        value = value[_DATA]
        if isinstance(value, str):
            content = _decoded(value)
            return None if content is None else len(content)
    return max(0, value["size"]) if is_ref(value) else None


def held(value: Any) -> str | bytes | None:
    """What a file holds, by what stands for it in full: text or bytes. None: no file."""
    if isinstance(value, dict) and value.keys() == {_DATA}:
        data = value[_DATA]
        return _decoded(data) if isinstance(data, str) else None
    return value if isinstance(value, str) else None


def ref_of(value: Any) -> Any:
    """The reference that stands for what a file holds; None where none does."""
    if is_ref(value):
        return value
    data = value.get(_DATA) if isinstance(value, dict) else None
    return data if is_ref(data) else None


def value_of(path: str, content: str | bytes) -> Any:
    """What stands in the state for a file with this content.

    Bytes that are UTF-8 and hold no NUL are a text. Lone surrogates of a text become
    U+FFFD, as everywhere in a state.
    """
    if isinstance(content, str):
        text: str = clean(content)[0]
        return text
    if b"\0" not in content:
        try:
            return content.decode()
        except UnicodeDecodeError:
            pass  # no text
    encoded = b64encode(content).decode()
    return {_DATA: f"data:{_media_type(path)};base64,{encoded}"}


def check_room(files: Mapping[str, File], path: str, size: int) -> None:
    """Whether a file of this size may stand at a path. Raises FileRefused."""
    if size > LARGEST:
        raise FileRefused(too_large(size))
    others = [file for file in files.values() if file.path != path]
    if len(others) >= MOST and path not in files:
        raise FileRefused(f"There are {MOST:,} files, which is the most. Delete some.")
    if (total := sum(file.size for file in others) + size) > TOTAL:
        raise FileRefused(
            f"All files together would have {total:,} bytes; {TOTAL:,} is the most."
            " Delete or shorten some."
        )
    if path not in files:
        _check_twins(path, (file.path for file in others))


def too_large(size: int | None = None) -> str:
    """`size`: None where nobody counted to the end."""
    has = f"{size:,} bytes" if size is not None else f"more than {LARGEST:,} bytes"
    return f"This has {has}; a file has {LARGEST:,} at most. Nothing was written."


def _check_twins(path: str, paths: Iterable[str]) -> None:
    """A file is no folder, and two names never differ in case alone: on a disk that
    does not tell them apart, one would be the other."""
    mine = {_folded(at): at for at in _ups(path)}
    first = _folded(_first(path))
    for other in paths:
        if _folded(_first(other)) != first:
            continue
        for at in _ups(other):
            known = mine.get(_folded(at))
            if known is not None and known != at:
                raise FileRefused(
                    f"“{flat(at)}” is there and differs from “{flat(known)}” in case"
                    " alone. Use its spelling."
                )
        if path.startswith(f"{other}/"):
            raise FileRefused(f"“{flat(other)}” is a file, so nothing can lie in it.")
        if other.startswith(f"{path}/"):
            raise FileRefused(
                f"“{flat(path)}” is a folder: “{flat(other)}” lies in it."
            )


def _first(path: str) -> str:
    return path.partition("/")[0]


def _ups(path: str) -> list[str]:
    """The path, and each folder that it lies in."""
    names = path.split("/")
    return ["/".join(names[: n + 1]) for n in range(len(names))]


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path.casefold())


def _problem(name: str) -> str:
    """Why a name can be none; empty where it can."""
    if not name:
        return "a name in it is empty."
    if name in (".", ".."):
        return f"{name} is no name. Nothing outside the files can be named."
    if name != name.strip(" ") or name.endswith("."):
        return "no name begins or ends with a blank, or ends with a dot."
    if _DEVICE.match(name):
        return f"{name} is the name of a device on some systems."
    if (size := len(name.encode(errors="replace"))) > LONGEST_NAME:
        return f"a name has {LONGEST_NAME} bytes at most, not {size}."
    return ""


def _too_long(size: int) -> str:
    return f"A path has {LONGEST} bytes at most, not {size:,}."


def _media_type(path: str) -> str:
    return _TYPES.get(path.rpartition(".")[2].lower(), _UNKNOWN)


def _decoded(url: str) -> bytes | None:
    found = _DATA_URL.match(url)
    if found is None or not is_media_type(found[1]):
        return None
    try:
        return b64decode(url[found.end() :], validate=True)
    except (binascii.Error, ValueError):
        return None
