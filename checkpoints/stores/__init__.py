"""Object stores: where sealed blobs and archives lie, outside the database.

    store = stores.configured()
    name = stores.new_name("blob")
    store.write(name, sealed)      # on disk, and read back, once this returns
    stores.of(row.store).read(name)

An object is written once, under a random name, and never changed. What is stored is
sealed by the caller: a store sees ciphertext only.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from datetime import timedelta
from typing import Protocol

from django.conf import settings

from checkpoints.errors import StoreUnavailable
from checkpoints.stores.local import LocalStore
from checkpoints.stores.s3 import S3Store

__all__ = ["KINDS", "Store", "configured", "new_name", "of"]

KINDS = ("local", "s3")

_KIND = re.compile(r"[a-z]{1,20}\Z")


class Store(Protocol):
    """Objects by name. Every method raises StoreUnavailable when the store is away."""

    kind: str  # "local" or "s3": what the rows of its objects say
    where: str  # for people: the directory, or the bucket

    def write(self, name: str, data: bytes) -> None:
        """A new object, durable and read back once this returns.

        Raises StoreFull, and FileExistsError for a name that is taken: nothing is ever
        overwritten.
        """

    def read(self, name: str) -> bytes:
        """Raises MissingObject, and BadObject (one of them) for what is none of ours."""

    def delete(self, name: str) -> bool:
        """False when there was none."""

    def names(
        self, prefix: str = "", *, older_than: timedelta = timedelta()
    ) -> Iterator[str]:
        """Names that begin so, of objects at least this old; what a crash left, too."""

    def check(self) -> None:
        """Write, read and delete a megabyte. Raises what they raise."""


def configured() -> Store:
    """The store that new objects go to."""
    return of("s3" if settings.BLOB_STORE else "local")


def of(kind: str) -> Store:
    """The store that a row names: objects stay where they were written."""
    if kind == "local":
        return LocalStore(settings.BLOB_DIR)
    if kind == "s3" and settings.BLOB_STORE:
        bucket, prefix = settings.BLOB_STORE
        return S3Store(
            bucket,
            prefix,
            endpoint=settings.BLOB_S3_ENDPOINT,
            region=settings.BLOB_S3_REGION,
        )
    raise StoreUnavailable(
        f"An object is in the store {kind!r}, which is not configured here;"
        " set BLOB_STORE as it was when the object was written."
    )


def new_name(kind: str) -> str:
    """A random name: "blob/3f/3f81…". The middle part keeps directories small."""
    if not _KIND.match(kind):
        raise ValueError(f"{kind!r} is not a kind of object: a to z, at most 20.")
    random = secrets.token_hex(20)
    return f"{kind}/{random[:2]}/{random}"
