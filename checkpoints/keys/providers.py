"""Where key-encryption keys live: an interface that a service elsewhere can fill.

A provider wraps workspace keys, nothing else, with keys that it does not hand out.
docs/keys.md says how to write one for Vault or a cloud's KMS, and
tests/checkpoints/provider_contract.py what it has to keep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from checkpoints.errors import UnknownKey
from checkpoints.pure.envelope import Context

KEK_LENGTH = 200  # characters of an id; what the column holds


class Plain(NamedTuple):
    """A key to wrap (48 bytes: a check value and the secret), and its place."""

    key: bytes
    context: Context

    def __repr__(self) -> str:
        return "Plain(…)"


class Wrapped(NamedTuple):
    """What became of it, and the id of the key-encryption key that did it."""

    kek: str
    key: bytes
    context: Context


class Provider(Protocol):
    """Wraps and unwraps, many at a time: to a service each call is a round trip.

    Ids are `kek:<name of the provider>:<key>:<version>`, KEK_LENGTH at most. A
    service that binds no context may ignore it: the check value inside what is wrapped
    still shows that key rows were swapped. All or nothing: one item that does not open
    makes the call fail, and the caller asks for each alone. Raises UnknownKey, naming
    the id and the way out, and KeysUnavailable when the service does not answer.
    """

    @property
    def name(self) -> str:
        """The second part of its ids."""

    @property
    def batch(self) -> int:
        """How many items one call takes."""

    def current(self) -> str:
        """Id of the key that wraps now."""

    def wrap(self, items: Sequence[Plain]) -> list[Wrapped]:
        """Each item, in order, wrapped by the current key."""

    def unwrap(self, items: Sequence[Wrapped]) -> list[bytes]:
        """What `wrap` was given, in order. Raises DecryptionError, too."""


class Providers:
    """The first wraps; each unwraps what is its own. So keys can move between them."""

    def __init__(self, providers: Sequence[Provider]) -> None:
        self._first = providers[0]
        self._by_name = {provider.name: provider for provider in providers}

    def __repr__(self) -> str:
        return f"Providers({', '.join(self._by_name)})"

    @property
    def batch(self) -> int:
        return min(provider.batch for provider in self._by_name.values())

    def current(self) -> str:
        return self._first.current()

    def wrap(self, items: Sequence[Plain]) -> list[Wrapped]:
        return self._first.wrap(items)

    def unwrap(self, items: Sequence[Wrapped]) -> list[bytes]:
        mine: dict[str, list[int]] = {}
        for position, item in enumerate(items):
            mine.setdefault(self._owner(item.kek), []).append(position)
        opened: dict[int, bytes] = {}
        for name, positions in mine.items():
            keys = self._by_name[name].unwrap([items[at] for at in positions])
            opened |= zip(positions, keys, strict=True)
        return [opened[position] for position in range(len(items))]

    def _owner(self, kek: str) -> str:
        _, _, rest = kek.partition(":")
        name = rest.partition(":")[0]
        if name not in self._by_name:
            raise UnknownKey(
                f"Key-encryption key {kek!r} belongs to the provider {name!r}, which is"
                f" not in KEY_PROVIDERS: {', '.join(self._by_name)}. Add it to the end."
            )
        return name


def provider() -> Providers:
    """What KEY_PROVIDERS names: dotted paths of what makes a provider, called anew."""
    return Providers([_factory(path)() for path in settings.KEY_PROVIDERS])


def check_settings() -> None:
    """Raises ImproperlyConfigured when no provider is named, or one that is not there."""
    if not settings.KEY_PROVIDERS:
        raise ImproperlyConfigured("KEY_PROVIDERS names no provider; leave it away.")
    for path in settings.KEY_PROVIDERS:
        _factory(path)


def _factory(path: str) -> type[Provider]:
    try:
        factory: type[Provider] = import_string(path)
    except ImportError as error:
        raise ImproperlyConfigured(
            f"KEY_PROVIDERS names {path!r}, which cannot be imported: {error}."
        ) from None
    return factory
