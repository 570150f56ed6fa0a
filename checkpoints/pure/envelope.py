"""Sealed records: how state is encrypted, and bound to its place.

A record of version 1 is

    header (48 bytes) + commitment (32) + ciphertext (as long as the packed text) + tag (16)

made with AES-256-GCM (NIST SP 800-38D) under a key derived for this record alone
(HKDF-SHA512, RFC 5869, from a random 24-byte salt): there is no nonce to repeat,
and no count of records after which a key wears out. The commitment comes from the
same derivation and ties the record to one key; GCM alone would let one ciphertext
open under two. The associated data names the row, so a record moved to another
row does not open. There is no way to read a record that was not sealed.

docs/sealed-record.md has the layout byte by byte, and test vectors.
"""

from __future__ import annotations

import hmac
import secrets
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

import zstandard
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from checkpoints.errors import DecryptionError, NotSealed
from checkpoints.pure.derive import COMMITMENT_BYTES, derive
from checkpoints.pure.derive import KEY_BYTES as KEY_BYTES

Sealed = bytes | memoryview  # as made here, or as the database returns it

NIL = UUID(int=0)  # in a context: there is none

MAGIC = b"\x9dHP\x01"  # no JSON, no UTF-8 text begins with 0x9d
SUITE = 1  # AES-256-GCM, HKDF-SHA512, 32-byte commitment
OVERHEAD = 96  # bytes that sealing adds
MAX_PLAIN = 256 * 1024 * 1024  # bytes; what opening may unpack to
CHECK_BYTES = 16

_HEADER = struct.Struct(">4sBBBB16s24s")
_OWNERS = struct.Struct(">H16sH16s")
_PLACE = struct.Struct(">H16sHQHI")
_SALT = 24
_PLAIN, _ZSTD = 0, 1  # codecs
_PACKED = 32  # bytes; a shorter text does not become shorter


class Content(IntEnum):
    """What the plain bytes are."""

    JSON = 1
    TEXT = 2
    BYTES = 3
    KEY = 4


@dataclass(frozen=True)
class Context:
    """The place that a record belongs to. It opens nowhere else.

    `purpose` says what kind of thing the record holds ("delta", "title", …);
    `object` is the row or what stands for it. Use NIL and 0 where there is none.
    """

    purpose: str
    workspace: UUID
    thread: UUID
    object: UUID
    step: int
    schema: int

    def encode(self) -> bytes:
        """The associated data's form: each field behind its length, in this order."""
        return self._owners() + _PLACE.pack(
            16, self.object.bytes, 8, self.step, 4, self.schema
        )

    def beside(self) -> Callable[[UUID, int], bytes]:
        """The encoded form of this place's neighbours, by object and step.

        For who opens many: to make a context of each takes as long as to decrypt it.
        """
        owners, schema = self._owners(), self.schema
        return lambda object, step: (
            owners + _PLACE.pack(16, object.bytes, 8, step, 4, schema)
        )

    def _owners(self) -> bytes:
        purpose = self.purpose.encode()
        return (
            len(purpose).to_bytes(2, "big")
            + purpose
            + _OWNERS.pack(16, self.workspace.bytes, 16, self.thread.bytes)
        )


@dataclass(frozen=True)
class DataKey:
    """A key by its id. The secret is 32 bytes, and is kept out of every repr."""

    id: UUID
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != KEY_BYTES:
            raise ValueError(
                f"A data key has {KEY_BYTES} bytes, not {len(self.secret)}."
            )


def seal(
    plain: bytes,
    *,
    key: DataKey,
    context: Context,
    content: Content = Content.JSON,
    thorough: bool = False,
) -> bytes:
    """`plain`, readable only with `key` and only as the record of `context`.

    `thorough`: for what is sealed once and kept, a tenth smaller in four times the time.
    Two calls never give the same bytes.
    """
    if len(plain) > MAX_PLAIN:
        raise ValueError(f"{len(plain)} bytes are too many for one record.")
    packed, codec = plain, _PLAIN
    if len(plain) >= _PACKED:
        smaller = (_zstd.compress_thoroughly if thorough else _zstd.compress)(plain)
        if len(smaller) < len(plain):
            packed, codec = smaller, _ZSTD
    salt = secrets.token_bytes(_SALT)
    header = _HEADER.pack(MAGIC, SUITE, codec, content, 0, key.id.bytes, salt)
    derived = derive(key.secret, salt)
    bound = header + derived.commitment
    cipher = AESGCM(derived.key)
    return bound + cipher.encrypt(derived.nonce, packed, bound + context.encode())


def open_sealed(
    record: Sealed,
    *,
    key: DataKey,
    context: Context | bytes,
    content: Content | None = None,
) -> bytes:
    """The plain bytes of a record; `context` may be encoded already.

    Raises NotSealed when it is none, and DecryptionError when it was altered, moved,
    sealed under another key, or holds something else than `content`.
    """
    header, bound = _read(record)
    place = context if isinstance(context, bytes) else context.encode()
    derived = derive(key.secret, header.salt)
    if header.key_id != key.id.bytes or not hmac.compare_digest(
        derived.commitment, bound[_HEADER.size :]
    ):
        raise DecryptionError
    try:
        packed = AESGCM(derived.key).decrypt(
            derived.nonce, record[len(bound) :], bound + place
        )
    except InvalidTag:
        raise DecryptionError from None
    if header.flags != 0 or header.codec not in (_PLAIN, _ZSTD):
        raise NotSealed  # authentic, so written by a version after this one
    if content is not None and header.content != content:
        raise DecryptionError
    return packed if header.codec == _PLAIN else _unpack(packed)


def key_id(record: Sealed) -> UUID:
    """The id of the key that a record names. Only opening it shows that this is true.

    Raises NotSealed.
    """
    return UUID(bytes=_read(record)[0].key_id)


def content(record: Sealed) -> Content:
    """What a record says that it holds. Only opening it shows that this is true.

    Raises NotSealed.
    """
    try:
        return Content(_read(record)[0].content)
    except ValueError:
        raise NotSealed from None


def wrap(secret: bytes, *, wrapping: DataKey, context: Context) -> bytes:
    """A key's secret, sealed under another key. `context.object` is the key's own id."""
    return seal(
        checked(secret, context.object),
        key=wrapping,
        context=context,
        content=Content.KEY,
    )


def unwrap(wrapped: Sealed, *, wrapping: DataKey, context: Context) -> bytes:
    """The secret that `wrap` sealed, checked against the id of its key.

    Raises NotSealed and DecryptionError, as `open_sealed` does.
    """
    plain = open_sealed(wrapped, key=wrapping, context=context, content=Content.KEY)
    return unchecked(plain, context.object)


def checked(secret: bytes, key: UUID) -> bytes:
    """A key's secret behind its check value: what is wrapped, 48 bytes."""
    return check_value(secret, key) + secret


def unchecked(plain: bytes, key: UUID) -> bytes:
    """The secret of `checked`. Raises DecryptionError when it is not this key's."""
    check, secret = plain[:CHECK_BYTES], plain[CHECK_BYTES:]
    if len(secret) != KEY_BYTES or not hmac.compare_digest(
        check, check_value(secret, key)
    ):
        raise DecryptionError
    return secret


def check_value(secret: bytes, key: UUID) -> bytes:
    """16 bytes that tell whether a secret is the one of this key.

    They reveal nothing of the secret, so they may stand beside it in clear: where
    a wrapping service binds no context, they show that key rows were swapped.
    """
    message = b"holdpoint key check 1" + key.bytes
    return hmac.digest(secret, message, "sha256")[:CHECK_BYTES]


class _Header(NamedTuple):
    magic: bytes
    suite: int
    codec: int
    content: int
    flags: int
    key_id: bytes
    salt: bytes


def _read(record: Sealed) -> tuple[_Header, bytes]:
    """The header, and the bytes of header and commitment."""
    if len(record) < OVERHEAD:
        raise NotSealed
    header = _Header._make(_HEADER.unpack_from(record))
    if header.magic != MAGIC or header.suite != SUITE:
        raise NotSealed
    return header, bytes(record[: _HEADER.size + COMMITMENT_BYTES])


class _Zstd(threading.local):
    """One of each per thread: they cannot be shared, and cost more to make than to use."""

    def __init__(self) -> None:
        self.compress = zstandard.ZstdCompressor(level=3).compress
        self.compress_thoroughly = zstandard.ZstdCompressor(level=9).compress
        self.decompress = zstandard.ZstdDecompressor().decompress


_zstd = _Zstd()


def _unpack(packed: bytes) -> bytes:
    """Bounded: the frame says how long it is, and is believed only up to MAX_PLAIN."""
    try:
        if not 0 <= zstandard.frame_content_size(packed) <= MAX_PLAIN:
            raise NotSealed
        return _zstd.decompress(
            packed, max_output_size=MAX_PLAIN, allow_extra_data=False
        )
    except zstandard.ZstdError:
        raise NotSealed from None
