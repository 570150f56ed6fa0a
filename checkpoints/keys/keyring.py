"""Key-encryption keys from the environment or a file: the provider that comes along."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from uuid import NAMESPACE_URL, uuid5

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from checkpoints.errors import UnknownKey
from checkpoints.keys.providers import KEK_LENGTH, Plain, Wrapped
from checkpoints.pure import envelope
from checkpoints.pure.envelope import KEY_BYTES, Content, DataKey

PATH = "checkpoints.keys.keyring.Keyring"  # in KEY_PROVIDERS

_FEWEST_DIFFERENT = 16  # of 32 random bytes about 30 differ; 16 or fewer never happens


class Keyring:
    """KEY_ENCRYPTION_KEYS. The first wraps; the others still unwrap."""

    name = "keyring"
    batch = 500

    def __init__(self, keys: Mapping[str, bytes] | None = None) -> None:
        """`keys` by name, the settings' when None."""
        keys = settings.KEY_ENCRYPTION_KEYS if keys is None else keys
        self._keys = {
            kek: DataKey(uuid5(NAMESPACE_URL, kek), secret)
            for kek, secret in ((_kek(name), secret) for name, secret in keys.items())
        }

    def __repr__(self) -> str:
        return f"Keyring({', '.join(self._keys)})"

    def current(self) -> str:
        return next(iter(self._keys))

    def wrap(self, items: Sequence[Plain]) -> list[Wrapped]:
        kek = self.current()
        key = self._key(kek)
        return [
            Wrapped(
                kek,
                envelope.seal(
                    item.key, key=key, context=item.context, content=Content.KEY
                ),
                item.context,
            )
            for item in items
        ]

    def unwrap(self, items: Sequence[Wrapped]) -> list[bytes]:
        return [self._unwrap(item) for item in items]

    def _unwrap(self, item: Wrapped) -> bytes:
        key = self._key(item.kek)
        return envelope.open_sealed(
            item.key, key=key, context=item.context, content=Content.KEY
        )

    def _key(self, kek: str) -> DataKey:
        try:
            return self._keys[kek]
        except KeyError:
            raise UnknownKey(
                f"Key-encryption key {kek!r} is not in KEY_ENCRYPTION_KEYS, which has "
                f"{', '.join(self._keys)}. Add it to the end of the list."
            ) from None


def check_settings() -> None:
    """Raises ImproperlyConfigured when the keyring would not keep anything secret.

    On a local installation (the demo) any key will do: it protects nothing there.
    Nothing is asked of a keyring that KEY_PROVIDERS does not name.
    """
    if PATH not in settings.KEY_PROVIDERS:
        return
    keys: Mapping[str, bytes] = settings.KEY_ENCRYPTION_KEYS
    way_out = (
        "Give id:base64 of 32 random bytes, for instance from"
        " `openssl rand -base64 32`, and keep a copy: without it no state opens."
    )
    if not keys:
        raise ImproperlyConfigured(f"KEY_ENCRYPTION_KEYS is empty. {way_out}")
    names: dict[bytes, str] = {}
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
        if len(_kek(name)) > KEK_LENGTH:
            raise ImproperlyConfigured(
                f"KEY_ENCRYPTION_KEYS: the id {_kek(name)[:40]!r}… has"
                f" {len(_kek(name))} characters; {KEK_LENGTH} fit."
            )
        if (same := names.setdefault(secret, name)) != name:
            raise ImproperlyConfigured(
                f"KEY_ENCRYPTION_KEYS: keys {same!r} and {name!r} are the same bytes, so"
                f" going from one to the other would change nothing. {way_out}"
            )


def _is_weak(secret: bytes) -> bool:
    # The demo's key is a sentence, so that this finds it without naming it.
    text = string.printable.encode()
    return len(set(secret)) <= _FEWEST_DIFFERENT or all(byte in text for byte in secret)


def _kek(name: str) -> str:
    return f"kek:keyring:{name}" if ":" in name else f"kek:keyring:{name}:1"
