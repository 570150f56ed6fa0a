"""Looking after the store: what expired or was deleted long enough ago is removed."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from checkpoints.access import Reason
from checkpoints.models import Entry, EntryVersion

# It can be restored until then. A day at least: a worker that froze before it wrote its
# call's result finds by the version's key that it has written, however late it wakes up.
EXPIRED_FOR = timedelta(days=1)
DELETED_FOR = timedelta(days=30)
BATCH = 200  # entries


def sweep() -> int:
    """A duty: remove a small batch, with every version; gives how many entries went."""
    with transaction.atomic():
        entries = Entry.objects.unscoped(Reason.REAPER)
        due = entries.filter(
            Q(expires_at__lt=Now() - EXPIRED_FOR)
            | Q(deleted=True, updated_at__lt=Now() - DELETED_FOR)
        )
        # Who writes one at this moment keeps it: it is another batch's, if it is due then.
        locked = due.select_for_update(skip_locked=True).values_list("pk", flat=True)
        ids = list(locked[:BATCH])
        if ids:
            versions = EntryVersion.objects.unscoped(Reason.REAPER)
            versions.filter(entry__in=ids).delete()
            entries.filter(pk__in=ids).delete()
    return len(ids)
