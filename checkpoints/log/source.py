"""Where the bytes of an archive lie: objects of the blob store, or files of a person's.

An archive is written in parts, so that nothing large is ever in memory; put behind one
another they are one file, `zstd -d` reads it. The wrapped keys lie beside it, in an
object of their own: when that is gone, copies of the archive are noise.
"""

from __future__ import annotations

import errno
import io
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import BinaryIO

import zstandard

from checkpoints import stores
from checkpoints.errors import BadArchive, MissingObject
from checkpoints.pure.archived import Reader, lines_of

PART_BYTES = 8 * 1024 * 1024  # of an object
_SLICE = 256 * 1024  # bytes that are unpacked at a time: a bomb goes off slowly
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class Source:
    """An archive that can be read, more than once."""

    name: str
    packed: Callable[[], Iterator[BinaryIO]] = field(repr=False)
    keys: Callable[[], bytes] = field(repr=False)

    def read(self) -> Reader:
        """Raises BadArchive, MissingObject, StoreUnavailable: now, or while reading."""
        return Reader(lines_of(self._chunks()))

    def _chunks(self) -> Iterator[bytes]:
        for file in self.packed():
            with file:
                if file.read(4) != _ZSTD_MAGIC:
                    raise BadArchive(f"{self.name} is not an archive of Holdpoint.")
                file.seek(0)
                unpacking = zstandard.ZstdDecompressor().stream_reader(
                    file, read_across_frames=True
                )
                try:
                    while chunk := unpacking.read(_SLICE):
                        yield chunk
                except zstandard.ZstdError:
                    raise BadArchive(f"{self.name} is damaged.") from None


def stored(kind: str, name: str) -> Source:
    """The archive of this name in a blob store."""

    def packed() -> Iterator[BinaryIO]:
        store = stores.of(kind)
        for number in count():
            try:
                part = store.read(part_name(name, number))
            except MissingObject:
                if number == 0:
                    raise
                return  # whether it was the last one shows at the archive's end
            yield io.BytesIO(part)

    return Source(name, packed, lambda: stores.of(kind).read(keys_name(name)))


def filed(path: Path) -> Source:
    """An archive that was exported to a file, with its keys in `<file>.keys`."""

    def keys() -> bytes:
        beside = keys_path(path)
        try:
            return beside.read_bytes()
        except FileNotFoundError:
            raise MissingObject(
                f"{beside} is missing: it holds the archive's wrapped keys, without which"
                " no database but its own can open it."
            ) from None

    return Source(str(path), lambda: iter([path.open("rb")]), keys)


class Parts:
    """Writes lines as an archive's objects, one after the other."""

    def __init__(self, store: stores.Store, name: str) -> None:
        self._store, self._name = store, name
        self._number = 0
        self._digest = sha256()
        self.size = 0
        self._begin()

    def add(self, line: bytes) -> None:
        self._packed += self._packing.compress(line)
        if len(self._packed) >= PART_BYTES:
            self._write()
            self._begin()

    def close(self) -> bytes:
        """SHA-256 of all parts."""
        self._write()
        return self._digest.digest()

    def _begin(self) -> None:
        self._packing = zstandard.ZstdCompressor(level=3).compressobj()
        self._packed = bytearray()

    def _write(self) -> None:
        self._packed += self._packing.flush()
        part = bytes(self._packed)
        self._store.write(part_name(self._name, self._number), part)
        self._number += 1
        self._digest.update(part)
        self.size += len(part)


def delete(kind: str, name: str) -> None:
    """Remove an archive's objects; the keys first. What is gone already stays so."""
    store = stores.of(kind)
    store.delete(keys_name(name))
    for number in count():
        if not store.delete(part_name(name, number)):
            return


def export(kind: str, name: str, path: Path) -> None:
    """The archive as one file, with its keys beside it. Raises FileExistsError, OSError.

    Each has its name only once it is whole, and is its owner's alone. What was cut short
    can be done again: keys that are there already may stay if they are the same.
    """
    archived = stored(kind, name)
    wrapped, beside = archived.keys(), keys_path(path)
    if path.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    if not (beside.is_file() and beside.read_bytes() == wrapped):
        _publish(beside, [wrapped])
    _publish(path, (packed.read() for packed in archived.packed()))


def _publish(path: Path, contents: Iterable[bytes]) -> None:
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(file, "wb") as opened:
            opened.writelines(contents)
            opened.flush()
            os.fsync(file)
        os.link(part, path)  # refuses a name that is taken
    finally:
        part.unlink()


def part_name(name: str, number: int) -> str:
    return f"{name}/{number:06}.jsonl.zst"


def keys_name(name: str) -> str:
    return f"{name}/keys.json"


def keys_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.keys")
