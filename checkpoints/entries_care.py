"""Looking after the store: what expired or was deleted long enough ago is removed, and so is
the board of a thread that was deleted for good, and a lock that nobody took for long."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from checkpoints.access import Reason
from checkpoints.models import (
    Branch,
    Deletion,
    Entry,
    EntryLock,
    EntryVector,
    EntryVersion,
)

# It can be restored until then. A day at least: a worker that froze before it wrote its
# call's result finds by the version's key that it has written, however late it wakes up.
EXPIRED_FOR = timedelta(days=1)
DELETED_FOR = timedelta(days=30)
# What was written under a lock says its fence: it is counted on until no run can come back.
UNLOCKED_FOR = timedelta(days=30)
BATCH = 200  # entries


def sweep() -> int:
    """A duty: remove a small batch, with every version; gives how many entries went."""
    with transaction.atomic():
        entries = Entry.objects.unscoped(Reason.REAPER)
        due = entries.filter(
            Q(expires_at__lt=Now() - EXPIRED_FOR)
            | Q(deleted=True, updated_at__lt=Now() - DELETED_FOR)
            | Q(scope=Entry.Scope.BOARD, owner__in=_shredded())
            | Q(line__in=_shredded())  # of a sub-agent, on its caller's board
        )
        # Who writes one at this moment keeps it: it is another batch's, if it is due then.
        locked = due.select_for_update(skip_locked=True).values_list("pk", flat=True)
        ids = list(locked[:BATCH])
        if ids:
            vectors = EntryVector.objects.unscoped(Reason.REAPER)
            vectors.filter(entry__in=ids).delete()
            versions = EntryVersion.objects.unscoped(Reason.REAPER)
            versions.filter(entry__in=ids).delete()
            entries.filter(pk__in=ids).delete()
        locks = EntryLock.objects.unscoped(Reason.REAPER)
        locks.filter(
            Q(updated_at__lt=Now() - UNLOCKED_FOR) | Q(owner__in=_shredded())
        ).delete()
    return len(ids)


def _shredded() -> QuerySet[Any, Any]:
    """Branches of threads whose keys were destroyed."""
    gone = Deletion.objects.unscoped(Reason.REAPER).filter(what=Deletion.What.SHREDDED)
    branches = Branch.objects.unscoped(Reason.REAPER)
    return branches.filter(thread__in=gone.values("thread")).values("pk")
