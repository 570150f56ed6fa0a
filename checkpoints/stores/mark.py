"""Is the store here the one that all the others use?

A directory has the same path on every machine and is another one on each, unless it is
shared. So the first process that uses a store leaves a mark in it, a random id, and
notes the id in the database; everyone else compares.
"""

from __future__ import annotations

from itertools import islice
from uuid import UUID, uuid4

from checkpoints.errors import MissingObject, WrongStore
from checkpoints.models import StoreMark
from checkpoints.stores import Store

NAME = "holdpoint-mark"


def require_same(store: Store) -> None:
    """Raises WrongStore, StoreUnavailable. A store that nobody used is made ours."""
    known = StoreMark.objects.filter(kind=store.kind).first()
    found = _read(store)
    if known is None:
        if found is not None and _is_used(store):
            raise WrongStore(
                f"{store.where} belongs to another database: it holds objects that this"
                " one does not know. Give another place, or take it over with"
                " `manage.py blobs adopt`."
            )
        adopt(store)
    elif found != known.mark:
        what = "has no mark" if found is None else "has the mark of another one"
        raise WrongStore(
            f"{store.where} is not the store that this database uses: it {what}. Mount"
            " the shared directory here, or set BLOB_STORE to a bucket that every"
            " machine reaches. Where its objects were moved here on purpose:"
            " `manage.py blobs adopt`."
        )


def adopt(store: Store) -> None:
    """Make this the database's store of its kind, whatever was before."""
    found = _read(store)
    if found is None:
        found = uuid4()
        try:
            store.write(NAME, str(found).encode())
        except FileExistsError:  # another process was faster
            found = _read(store)
    StoreMark.objects.update_or_create(kind=store.kind, defaults={"mark": found})


def _read(store: Store) -> UUID | None:
    try:
        return UUID(store.read(NAME).decode())
    except MissingObject:
        return None
    except ValueError:
        raise WrongStore(
            f"The object {NAME} in {store.where} is not a mark of ours. Remove it, if"
            " the place is meant for Holdpoint."
        ) from None


def _is_used(store: Store) -> bool:
    return any(name != NAME for name in islice(store.names(), 2))
