"""References: what stands in state for a large value that is kept as a blob.

    {"$blob": id, "size": 70312, "media_type": "text/plain", "digest": "first words …"}

`extract` puts them in the place of large values, `restore` takes them out again. What a
value was before decides its form, and is told by where it stands:

    a text longer than the limit, anywhere              text/plain
    "url" or "file_data": "data:image/png;base64,…"     what it says, of any size
    "input_audio": {"data": base64, "format": "wav"}    audio/wav, of any size

A dict is a reference only with exactly these four keys and values of these forms, and
only while the thread has a blob of this id, which its reader must look up: whatever a
tool or an imported file writes, it reaches no blob of another thread. Ids are keyed
digests, so nobody can guess one of the same thread either.
"""

from __future__ import annotations

import binascii
import operator
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from checkpoints.pure.ops import Op
from checkpoints.pure.pointer import split

Ref = dict[str, Any]

TEXT = "text/plain"
WORDS = 120  # characters of a text that its reference repeats
MEDIA_TYPE = 100  # characters; what the row's column holds

# Values below these keys stay in state: whoever goes on from it reads them each time.
INLINE = frozenset(
    {"_schema", "params", "tool_calls", "role", "id", "name", "tool_call_id"}
)
_URLS = frozenset({"url", "file_data"})
_AUDIO = "input_audio"
_URL_MARKS = (b'"url":"data:', b'"file_data":"data:')  # in canonical JSON

_KEYS = {"$blob", "size", "media_type", "digest"}
_TYPE = re.compile(r"[a-z0-9][a-z0-9.+-]*/[a-z0-9][a-z0-9.+-]*\Z")
_FORMAT = re.compile(r"[a-z0-9][a-z0-9.+-]{0,40}\Z")
_DATA_URL = re.compile(r"data:([^;,]*);base64,")


@dataclass(frozen=True)
class Large:
    """A value to be kept apart. `words` are for people."""

    content: bytes
    media_type: str
    words: str = ""


Take = Callable[[Large], Ref]
Load = Callable[[Ref], Large | None]  # None: the thread has no such blob
Leaf = Callable[[str, Any], Any]  # what is under this key; the same object: as it was


def ref(blob: UUID, size: int, media_type: str, words: str) -> Ref:
    return {
        "$blob": str(blob),
        "size": size,
        "media_type": media_type,
        "digest": words,
    }


def is_ref(value: object) -> bool:
    """Whether it has the form of a reference. Only a row of the thread makes it one."""
    return (
        type(value) is dict
        and value.keys() == _KEYS
        and type(value["size"]) is int
        and is_media_type(value["media_type"])
        and type(value["digest"]) is str
        and _uuid(value["$blob"]) is not None
    )


def ref_id(value: Ref) -> UUID:
    """The id of the blob, of a value that `is_ref`."""
    return UUID(value["$blob"])


def is_media_type(value: object) -> bool:
    return type(value) is str and len(value) <= MEDIA_TYPE and bool(_TYPE.match(value))


def refs(value: Any) -> Iterator[Ref]:
    """Every value in it that has the form of a reference, as they stand in it."""
    todo = [value]
    while todo:
        node = todo.pop()
        if is_ref(node):
            yield node
        elif type(node) is dict:
            todo.extend(reversed(node.values()))
        elif type(node) is list:
            todo.extend(reversed(node))


def may_hold_large(plain: bytes, most: int) -> bool:
    """Whether it is worth while to look for large values in what these bytes say."""
    return (
        len(plain) > most
        # The shorter one first: it is found absent in half the time.
        or (b"data:" in plain and any(mark in plain for mark in _URL_MARKS))
        or b'input_audio":{' in plain
    )


def extract_ops(ops: Sequence[Op], most: int, take: Take) -> list[Op]:
    """The operations with references for what is large, each given by `take`.

    The same objects where nothing was. `most` is in bytes. For values whose structure
    was checked (`codec.check_structure`).
    """
    return [_walk_op(op, lambda key, leaf: _taken(key, leaf, most, take)) for op in ops]


def extract(value: Any, most: int, take: Take) -> Any:
    """As `extract_ops`, for one value."""
    return _walk("", value, lambda key, leaf: _taken(key, leaf, most, take))


def restore(value: Any, load: Load) -> Any:
    """The value with what its references stand for; what `load` does not know stays."""
    return _walk("", value, lambda key, leaf: _restored(key, leaf, load))


def restore_ops(ops: Sequence[Op], load: Load) -> list[Op]:
    """The operations with what their references stand for: `extract_ops`, undone."""
    return [_walk_op(op, lambda key, leaf: _restored(key, leaf, load)) for op in ops]


def first_words(text: str) -> str:
    """The start of a text, on one line."""
    words = " ".join(text[: 4 * WORDS].split())
    return words if len(words) <= WORDS else f"{words[: WORDS - 1]}…"


def _walk_op(op: Op, leaf: Leaf) -> Op:
    """The operation with what `leaf` makes of its value's texts; else the same one."""
    match op:
        case ["put", str(path), str(key), value]:
            place = [*split(path), key]
        case ["append" | "set", str(path), value]:
            place = list(split(path))
        case ["reset", value]:
            place = []
        case _:
            return op
    if not INLINE.isdisjoint(place):
        return op
    # Appended items are below a list: its name is not theirs.
    key = "" if op[0] == "append" or not place else place[-1]
    kept = _walk(key, value, leaf)
    return op if kept is value else [*op[:-1], kept]


def _walk(key: str, value: Any, leaf: Leaf) -> Any:
    """The value with what `leaf` makes of its texts and references; else the same one."""
    if key in INLINE:
        return value
    if type(value) is dict and not is_ref(value):
        changed = {
            name: fresh
            for name, old in value.items()
            if (fresh := _walk(_below(key, name, value), old, leaf)) is not old
        }
        return {**value, **changed} if changed else value
    if type(value) is list:
        items = [_walk("", old, leaf) for old in value]
        return value if all(map(operator.is_, items, value)) else items
    return leaf(key, value)


def _below(key: str, name: str, holder: dict[str, Any]) -> str:
    """What a value's key says of it; of recorded sound, the format beside it."""
    if key == _AUDIO and name == "data":
        form = holder.get("format")
        return f"{_AUDIO}/{form}" if type(form) is str and _FORMAT.match(form) else name
    return name


def _taken(key: str, value: Any, most: int, take: Take) -> Any:
    """A reference for a large text, a data URL, sound; all else as it is."""
    if type(value) is not str:
        return value
    if key in _URLS or key.startswith(f"{_AUDIO}/"):
        large = _from_url(value) if key in _URLS else _from_audio(key, value)
        return value if large is None else take(large)
    if 4 * len(value) <= most:  # a character takes four bytes at most
        return value
    try:
        content = value.encode()
    except UnicodeEncodeError:
        return value  # the codec refuses it, and says where it is
    if len(content) <= most:
        return value
    return take(Large(content, TEXT, first_words(value)))


def _restored(key: str, value: Any, load: Load) -> Any:
    """What a reference stands for; all else as it is."""
    if not is_ref(value) or (large := load(value)) is None:
        return value
    if key in _URLS:
        return f"data:{large.media_type};base64,{b64encode(large.content).decode()}"
    if key.startswith(f"{_AUDIO}/"):
        return b64encode(large.content).decode()
    return large.content.decode(errors="replace")


def _from_audio(key: str, data: str) -> Large | None:
    content = _decoded(data)
    form = key.removeprefix(f"{_AUDIO}/")
    return None if content is None else Large(content, f"audio/{form}")


def _from_url(url: str) -> Large | None:
    """What a data URL holds, if it says the same when it is written anew."""
    found = _DATA_URL.match(url)
    if found is None or not is_media_type(found[1]):
        return None
    content = _decoded(url[found.end() :])
    return None if content is None else Large(content, found[1])


def _decoded(data: str) -> bytes | None:
    try:
        content = b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    return content if b64encode(content).decode() == data else None


def _uuid(value: object) -> UUID | None:
    if type(value) is not str:
        return None
    try:
        found = UUID(value)
    except ValueError:
        return None
    return found if str(found) == value else None
