"""Retention, knowing what agents do: which one worked on a thread, what is not over."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Subquery, Value
from django.db.models.functions import Coalesce

from agents.models import Approval, Run
from checkpoints.access import Reason
from checkpoints.log import retention, tasks
from checkpoints.log.expire import Work

_RUNS = Run.objects.unscoped(Reason.ARCHIVE).filter(thread=OuterRef("pk"))
_ASKED = Approval.objects.unscoped(Reason.ARCHIVE).filter(thread=OuterRef("pk"))

WORK = Work(
    agent=Coalesce(
        Subquery(
            _RUNS.order_by("-created_at").values("agent_version__agent__name")[:1]
        ),
        Value(""),
    ),
    busy=Exists(_RUNS.filter(status__in=Run.LIVE)) | Exists(_ASKED.pending()),
)


def sweep() -> object:
    """A duty: archive, prune and shred what is due, a small batch."""
    return retention.sweep(WORK)


def work_off() -> object:
    """A duty: do what people asked for."""
    return tasks.work_off(WORK)
