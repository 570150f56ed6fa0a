"""What a thread has outside the database: its blobs, and the archive of what went.

A store that is away tells nothing of what is in it: that is counted, and said apart from
what is damaged. It is asked once in a verification.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from django.db.models import Model

from checkpoints import blobs
from checkpoints.errors import (
    BadArchive,
    CheckpointsError,
    MissingObject,
    StoreUnavailable,
)
from checkpoints.gate import Pass
from checkpoints.ids import short
from checkpoints.log import source, verify_archive
from checkpoints.log.archive_care import is_undamaged
from checkpoints.log.links import Bad
from checkpoints.models import Archive, Blob, Thread


@dataclass
class Objects:
    """What was looked at so far."""

    blobs: int = 0
    archives: int = 0
    unreached: int = 0  # blobs and archives that were not looked at
    away: dict[str, str] = field(default_factory=dict)  # stores, and why


def check_blobs(
    opened: Pass, thread: Thread, named: Mapping[UUID, UUID], seen: Objects
) -> None:
    """Every blob of the thread, and that each is there which a step names.

    Raises Bad, and KeysUnavailable.
    """
    there = set()
    for blob in Blob.objects.filter(thread=thread).order_by("pk").iterator():
        there.add(blob.pk)
        seen.blobs += _reached(blob, partial(blobs.read, opened, blob), seen)
    for id, step in named.items():
        if id not in there:
            raise Bad(Blob, id, f"Step {short(step)} names it; it has no row.")


def check_archive(opened: Pass, thread: Thread, seen: Objects) -> None:
    """The archive of a thread whose content went: nobody else has it.

    Raises Bad, and KeysUnavailable.
    """
    kept = Archive.objects.filter(thread=thread, status=Archive.Status.PRUNED)
    archive = kept.order_by("-pruned_at").first()
    if archive is None:
        raise Bad(
            Thread, thread.pk, "Its content went to an archive that is not known here."
        )
    seen.archives += _reached(archive, partial(_archive, opened, archive), seen)


def _archive(opened: Pass, archive: Archive) -> None:
    stored = source.stored(archive.store, archive.object_name)
    verify_archive.verify(opened, stored)
    try:
        stored.keys()
    except MissingObject as missing:
        raise MissingObject(
            f"{missing} It holds the wrapped keys, without which no other database can"
            " restore it: `manage.py archive keys` writes them anew."
        ) from None
    if not is_undamaged(archive):
        raise BadArchive("It is another archive than the one that was verified.")


def _reached(row: Blob | Archive, look: Callable[[], object], seen: Objects) -> bool:
    """Whether its store answered. Raises Bad where it has not what the row says."""
    if row.store not in seen.away:
        try:
            look()
        except StoreUnavailable as away:
            seen.away[row.store] = str(away)
        except CheckpointsError as problem:
            if problem.retry:
                raise
            model: type[Model] = type(row)
            raise Bad(model, row.pk, str(problem)) from None
        else:
            return True
    seen.unreached += 1
    return False
