"""Where key-encryption keys live, and what they wrap: workspace keys, nothing else.

A provider that keeps its key elsewhere (Vault transit, a cloud's KMS) needs these
three methods. It may ignore the context where its service binds none: the check value
inside what is wrapped still shows that key rows were swapped.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Protocol
from uuid import NAMESPACE_URL, uuid5

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from checkpoints.errors import UnknownKey
from checkpoints.pure import envelope
from checkpoints.pure.envelope import KEY_BYTES, Context, DataKey

_FEWEST_DIFFERENT = 16  # of 32 random bytes about 30 differ; 16 or fewer never happens


class Provider(Protocol):
    """Wraps with a key that it does not hand out. Key ids are `kek:<provider>:<name>:<version>`."""

    def current(self) -> str:
        """Id of the key that wraps new workspace keys."""

    def wrap(self, kek: str, secret: bytes, *, context: Context) -> bytes:
        """`secret`, wrapped by the key with this id. Raises UnknownKey."""

    def unwrap(self, kek: str, wrapped: bytes, *, context: Context) -> bytes:
        """What `wrap` was given. Raises UnknownKey and DecryptionError."""


class KeyringProvider:
    """Keys from the environment or a file. The first wraps; the others still unwrap."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._keys = {_kek(name): secret for name, secret in keys.items()}

    def __repr__(self) -> str:
        return f"KeyringProvider({', '.join(self._keys)})"

    def current(self) -> str:
        return next(iter(self._keys))

    def wrap(self, kek: str, secret: bytes, *, context: Context) -> bytes:
        return envelope.wrap(secret, wrapping=self._key(kek), context=context)

    def unwrap(self, kek: str, wrapped: bytes, *, context: Context) -> bytes:
        return envelope.unwrap(wrapped, wrapping=self._key(kek), context=context)

    def _key(self, kek: str) -> DataKey:
        try:
            return DataKey(uuid5(NAMESPACE_URL, kek), self._keys[kek])
        except KeyError:
            raise UnknownKey(
                f"Key-encryption key {kek!r} is not in KEY_ENCRYPTION_KEYS, which has "
                f"{', '.join(self._keys)}. Add it to the end of the list."
            ) from None


def provider() -> Provider:
    """The provider that the settings name."""
    return KeyringProvider(settings.KEY_ENCRYPTION_KEYS)


def check_settings() -> None:
    """Raises ImproperlyConfigured when the keyring would not keep anything secret.

    On a local installation (the demo) any key will do: it protects nothing there.
    """
    keys: Mapping[str, bytes] = settings.KEY_ENCRYPTION_KEYS
    way_out = (
        "Give id:base64 of 32 random bytes, for instance from"
        " `openssl rand -base64 32`, and keep a copy: without it no state opens."
    )
    if not keys:
        raise ImproperlyConfigured(f"KEY_ENCRYPTION_KEYS is empty. {way_out}")
    for name, secret in keys.items():
        if len(secret) != KEY_BYTES:
            raise ImproperlyConfigured(
                f"KEY_ENCRYPTION_KEYS: key {name!r} has {len(secret)} bytes. {way_out}"
            )
        if _is_weak(secret) and not settings.LOCAL:
            raise ImproperlyConfigured(
                f"KEY_ENCRYPTION_KEYS: key {name!r} is not random: it is the demo's key,"
                f" text, or a few bytes repeated. {way_out}"
            )


def _is_weak(secret: bytes) -> bool:
    # The demo's key is a sentence, so that this finds it without naming it.
    text = string.printable.encode()
    return len(set(secret)) <= _FEWEST_DIFFERENT or all(byte in text for byte in secret)


def _kek(name: str) -> str:
    return f"kek:keyring:{name}" if ":" in name else f"kek:keyring:{name}:1"
