"""Is the store here the one that all the others use?

A directory has the same path on every machine and is another one on each, unless it is
shared. So the database has a random mark for its store; the first process that uses the
store leaves the mark there, and everyone compares. Later no other store is taken: one
without the mark is refused, as is one that holds another database's objects.
"""

from __future__ import annotations

from uuid import UUID, uuid4

from django.db import connection, transaction

from checkpoints.clock import ClockTimestamp
from checkpoints.errors import MissingObject, WrongStore
from checkpoints.models import StoreMark
from checkpoints.stores import Store

NAME = "holdpoint-mark"


def require_same(store: Store) -> None:
    """Raises WrongStore, StoreUnavailable. A store that nobody uses is made ours."""
    known, found = _known(store.kind), _read(store)
    if found == known.mark:
        # Others would wait for the end of a transaction that notes it.
        if known.claimed_at is None and not connection.in_atomic_block:
            _claim(known)
        return
    if known.claimed_at is None and not _is_used(store):
        with transaction.atomic():
            if _claim(known):
                _leave(store, known, found)
                return
    if known.claimed_at is None and found is not None:
        raise WrongStore(
            f"{store.where} belongs to another database: it holds objects that this one"
            " does not know. Give another place, or take it over with"
            " `manage.py blobs adopt`."
        )
    raise _another(store, found)


def refuse_another(store: Store) -> None:
    """As `require_same`, for who only looks: it writes nothing, in neither place."""
    known = StoreMark.objects.filter(kind=store.kind).exclude(claimed_at=None).first()
    if known is not None and (found := _read(store)) != known.mark:
        raise _another(store, found)


def adopt(store: Store) -> None:
    """Make this the database's store of its kind, whatever was before."""
    with transaction.atomic():
        known = _known(store.kind)
        _claim(known)
        _leave(store, known, _read(store))


def _another(store: Store, found: UUID | None) -> WrongStore:
    what = "has no mark" if found is None else "has the mark of another one"
    return WrongStore(
        f"{store.where} is not the store that this database uses: it {what}. Mount the"
        " shared directory here, or set BLOB_STORE to a bucket that every machine"
        " reaches. Where its objects were moved here on purpose: `manage.py blobs adopt`."
    )


def _known(kind: str) -> StoreMark:
    """The database's mark for stores of this kind. A migration makes it."""
    return StoreMark.objects.get_or_create(kind=kind, defaults={"mark": uuid4()})[0]


def _claim(known: StoreMark) -> int:
    """Note that a store has the mark. 0 when another process was faster."""
    return StoreMark.objects.filter(pk=known.pk, claimed_at=None).update(
        claimed_at=ClockTimestamp()
    )


def _leave(store: Store, known: StoreMark, found: UUID | None) -> None:
    """Make mark and store agree: ours goes into it, or the one that it has is ours."""
    if found is None:
        store.write(NAME, str(known.mark).encode())
    else:
        StoreMark.objects.filter(pk=known.pk).update(mark=found)


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
    """Whether it holds objects, which have a kind before their name."""
    return any("/" in name for name in store.names())
