"""Looking after blobs: objects without a row are removed.

An object comes before its row, so a crash leaves objects at worst. One that is a day
old belongs to no transaction that is still open: if it has no row by then, it gets none.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice

from checkpoints import stores
from checkpoints.access import Reason
from checkpoints.models import Blob
from checkpoints.stores.mark import require_same

PREFIX = "blob/"
AGE = timedelta(days=1)  # of an object that nothing refers to, before it goes
BATCH = 500  # names that are looked up at once


@dataclass(frozen=True)
class Swept:
    objects: int = 0  # that were old enough to be looked at
    orphans: int = 0  # without a row: deleted, unless it was a dry run

    def __add__(self, more: Swept) -> Swept:
        return Swept(self.objects + more.objects, self.orphans + more.orphans)


def sweep(
    prefix: str = PREFIX, *, older_than: timedelta = AGE, dry_run: bool = False
) -> Iterator[Swept]:
    """Delete objects of blobs that have no row; what was done, batch by batch.

    Only in the store that is this database's. Raises WrongStore, StoreUnavailable.
    """
    store = stores.configured()
    require_same(store)
    names = store.names(prefix, older_than=older_than)
    while batch := list(islice(names, BATCH)):
        known = set(
            Blob.objects.unscoped(Reason.REAPER)
            .filter(object_name__in=batch)
            .values_list("object_name", flat=True)
        )
        orphans = [name for name in batch if name not in known]
        if not dry_run:
            for name in orphans:
                store.delete(name)
        yield Swept(len(batch), len(orphans))


def sweep_some() -> Swept:
    """One part of 256, drawn at random: a small batch of the whole, for now and then.

    Done once a minute, every part has had its turn within a day.
    """
    return sum(sweep(f"{PREFIX}{secrets.token_hex(1)}/"), Swept())
