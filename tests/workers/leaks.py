"""Where text could lie in clear, outside of what is sealed: all of it, as bytes."""

from __future__ import annotations

import base64
import re
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from django.contrib.sessions.models import Session
from django.db import connection
from redis import Redis, ResponseError

Places = dict[str, bytes]

_HEX = re.compile(rb"\\\\x([0-9a-f]{2,})")  # a bytea, as COPY writes it
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{16,}={0,2}")


def found(texts: Iterable[str], places: Places) -> list[str]:
    """`text in place`, for each text that is there as it is, in hex or in base64."""
    forms = {text: list(_forms(text)) for text in texts}
    return [
        f"{text!r} in {place}"
        for place, data in places.items()
        for text, ways in forms.items()
        if any(way in data for way in ways)
    ]


def _forms(text: str) -> Iterator[bytes]:
    plain = text.encode()
    yield plain
    yield plain.hex().encode()
    escaped = text.encode("ascii", "backslashreplace")  # as JSON writes it
    if escaped != plain:
        yield escaped
    for shift in range(3):
        # Base64 of a longer text that holds this one, wherever it begins.
        coded = base64.b64encode(b"\0" * shift + plain)
        middle = coded[-(-shift * 4 // 3) + (shift > 0) : len(coded) // 4 * 4 - 4]
        if len(middle) > 8:
            yield middle
            yield middle.translate(bytes.maketrans(b"+/", b"-_"))


def unpacked(data: bytes) -> bytes:
    """The bytes, and after them every zlib stream in them, unpacked."""
    parts = [data]
    for start in re.finditer(rb"\x78[\x01\x5e\x9c\xda]", data):
        try:
            parts.append(zlib.decompressobj().decompress(data[start.start() :]))
        except zlib.error:
            continue  # two bytes that happen to look like its beginning
    return b"\n".join(parts)


# PostgreSQL


def database() -> Places:
    """Every table as `pg_dump` writes it, and the bytes of every bytea; sessions opened."""
    places: Places = {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables"
            " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        )
        for (table,) in cursor.fetchall():
            with cursor.copy(f"COPY {table} TO STDOUT") as rows:
                text = b"".join(bytes(row) for row in rows)
            binary = [bytes.fromhex(digits.decode()) for digits in _HEX.findall(text)]
            places[f"table {table}"] = b"\n".join([text, *map(unpacked, binary)])
    places["sessions"] = repr(
        [session.get_decoded() for session in Session.objects.all()]
    ).encode()
    return places


# Redis


class RedisLog:
    """Every write that Redis got from now on, by its append-only file; and what it holds."""

    def __init__(self, redis: Redis) -> None:
        self.redis = redis
        self.folder: Path | None = None

    def __enter__(self) -> RedisLog:
        try:
            self.was = self._config("appendonly")
            self.redis.config_set("appendonly", "yes")
        except ResponseError:
            return self  # a server of somebody else's
        folder = Path(self._config("dir")) / self._config("appenddirname")
        self.folder = folder if folder.is_dir() else None
        return self

    def __exit__(self, *exc: object) -> None:
        if self.folder is not None and self.was == "no":
            self.redis.config_set("appendonly", "no")

    def places(self) -> Places:
        places = {f"redis key {name}": unpacked(data) for name, data in self._values()}
        if self.folder is not None:
            time.sleep(0.1)  # seconds; it is written after each turn of its loop
            for file in sorted(self.folder.iterdir()):
                places[f"redis file {file.name}"] = unpacked(file.read_bytes())
        return places

    def _config(self, name: str) -> str:
        values: Any = self.redis.config_get(name)
        return str(values[name])

    def _values(self) -> Iterator[tuple[str, bytes]]:
        redis: Any = self.redis
        read = {
            "string": redis.get,
            "hash": redis.hgetall,
            "list": lambda key: redis.lrange(key, 0, -1),
            "set": redis.smembers,
            "zset": lambda key: redis.zrange(key, 0, -1),
            "stream": redis.xrange,
        }
        for key in redis.scan_iter():
            kind = redis.type(key).decode()
            if kind != "none":  # it expired meanwhile
                yield repr(key), b"\n".join([key, *_flat(read[kind](key))])


def _flat(value: Any) -> Iterator[bytes]:
    match value:
        case bytes():
            yield value
        case dict():
            for pair in value.items():
                yield from _flat(pair)
        case list() | tuple() | set():
            for item in value:
                yield from _flat(item)
        case None:
            return
        case _:
            yield str(value).encode()


# What a browser keeps


def files(folder: Path) -> Places:
    """Every file below, with its name."""
    return {
        f"file {path.name}": path.name.encode() + path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def cookies(values: Iterable[str]) -> Places:
    """Cookies as they are, and what they hold where that is base64, packed or not."""
    text = "\n".join(values).encode()
    parts = [text]
    for coded in _BASE64.findall(text):
        padded = coded.rstrip(b"=") + b"=" * (-len(coded.rstrip(b"=")) % 4)
        try:
            parts.append(unpacked(base64.urlsafe_b64decode(padded)))
        except ValueError:
            continue
    return {"cookies": b"\n".join(parts)}
