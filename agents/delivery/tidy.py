"""Messages that are over are forgotten; those that nobody got stay, until somebody says."""

from __future__ import annotations

from datetime import timedelta

from agents.models import Delivery
from checkpoints import clock
from checkpoints.access import Reason
from checkpoints.ids import first_at

KEPT = timedelta(days=30)  # what was sent, or needed no sending; the audit log has it
BATCH = 1_000  # rows of one turn

OVER = (Delivery.Status.SENT, Delivery.Status.SKIPPED)


def tidy() -> int:
    """A duty: forget what has been over for long, the oldest first; how many.

    By the id, which says when it was made. One that is tried still, or was given up, is
    kept, however old.
    """
    rows = Delivery.objects.unscoped(Reason.WORKER)
    long_ago = clock.now() - KEPT
    # A message may have been sent long after it was made.
    old = rows.filter(pk__lt=first_at(long_ago), status__in=OVER).exclude(
        sent_at__gt=long_ago
    )
    batch = list(old.order_by("pk").values_list("pk", flat=True)[:BATCH])
    return rows.filter(pk__in=batch, status__in=OVER).delete()[0]
