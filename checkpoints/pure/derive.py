"""What one sealed record is made with: HKDF-SHA512 (RFC 5869) of a key and its salt.

Of the standard library's hash alone. A step or a hydration derives for each record, and
`hmac` makes three contexts of OpenSSL's for it, the library's HKDF still more: either
takes longer than to hash.
"""

from __future__ import annotations

from hashlib import sha512
from typing import NamedTuple

KEY_BYTES = 32
NONCE_BYTES = 12
COMMITMENT_BYTES = 32

_INFO = b"holdpoint sealed record 1"
_FIRST, _SECOND = _INFO + b"\x01", _INFO + b"\x02"
_BLOCK = 128  # bytes; of SHA-512
_OUTER, _INNER = (bytes(byte ^ pad for byte in range(256)) for pad in (0x5C, 0x36))
_NONCE_END = KEY_BYTES + NONCE_BYTES
_REST = _NONCE_END + COMMITMENT_BYTES - sha512().digest_size  # of the second block


class Derived(NamedTuple):
    key: bytes
    nonce: bytes
    commitment: bytes


def derive(secret: bytes, salt: bytes) -> Derived:
    """The salt is at most 128 bytes, the secret of any length."""
    outer, inner = _padded(salt)
    extracted = sha512(outer + sha512(inner + secret).digest()).digest()
    outer, inner = _padded(extracted)
    first = sha512(outer + sha512(inner + _FIRST).digest()).digest()
    second = sha512(outer + sha512(inner + first + _SECOND).digest()).digest()
    return Derived(
        first[:KEY_BYTES],
        first[KEY_BYTES:_NONCE_END],
        first[_NONCE_END:] + second[:_REST],
    )


def _padded(key: bytes) -> tuple[bytes, bytes]:
    """The outer and the inner key of HMAC (RFC 2104), for a key of at most a block."""
    block = key.ljust(_BLOCK, b"\0")
    return block.translate(_OUTER), block.translate(_INNER)
