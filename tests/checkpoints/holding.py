"""A branch that somebody holds, as a claim leaves it."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

from django.db.models import F

from checkpoints.access import Reason
from checkpoints.clock import ClockTimestamp
from checkpoints.models import Branch


def take(branch: Branch, lease: timedelta = timedelta(seconds=15)) -> None:
    """Another holder has it, with the next fence. The row is not read again."""
    Branch.objects.unscoped(Reason.TEST).filter(pk=branch.pk).update(
        fence=F("fence") + 1,
        holder=uuid4(),
        worker="w",
        lease_until=ClockTimestamp() + lease,
    )
