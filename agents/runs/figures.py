"""Figures of the whole installation, for probes and for monitoring: counts and ages.

Every workspace's rows count; nothing of one is named, nothing is opened. Each is served
by an index on what is live, or looks at the last minutes only.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, FloatField, Max, Min, Q
from django.db.models.aggregates import Aggregate
from django.db.models.functions import Coalesce, Extract, Greatest

from agents.models import Approval, Delivery, Run, Worker
from checkpoints import clock
from checkpoints.access import Reason, unscoped
from checkpoints.clock import ClockTimestamp
from checkpoints.ids import first_at
from checkpoints.models import Branch, Checkpoint

FAILED = timedelta(hours=1)  # the failures that are counted
EXPIRED = timedelta(days=7)  # the requests that are counted
STEPS = timedelta(minutes=5)  # the steps that are measured


@dataclass(frozen=True)
class Line:
    """Runs of one queue that are not over, and who listens there. Ages in seconds."""

    ready: int = 0  # and due: a worker could take them
    running: int = 0
    waiting: int = 0  # for people
    later: int = 0  # ready, but not before a time: pauses, grace windows
    oldest_ready: float | None = None
    workers: int = 0  # that were heard of lately


@dataclass(frozen=True)
class Live:
    """All queues' runs, and how well they are looked after. Ages in seconds."""

    queues: dict[
        str, Line
    ]  # those of the settings, and those that runs and workers name
    overdue: float | None  # of the lease that lapsed first, and that no reaper ended
    swept: float | None  # since a reaper last came to the end of a sweep
    alive: int  # workers
    silent: int  # workers that were not heard of for a while

    def of(self, name: str) -> int:
        """Runs of every queue: `ready`, `running`, `waiting` or `later`."""
        return sum(getattr(line, name) for line in self.queues.values())

    @property
    def oldest_ready(self) -> float | None:
        ages = (line.oldest_ready for line in self.queues.values())
        return max((age for age in ages if age is not None), default=None)


@dataclass(frozen=True)
class Recent:
    """What happened in the last minutes."""

    failed: dict[str, int]  # error class → runs
    steps: int
    step_p50: float | None  # seconds; of the steps that took their time down
    step_p95: float | None
    pending: int  # approvals
    oldest_pending: float | None  # seconds


class Quantile(Aggregate):
    """`percentile_cont(f)` over an expression; rows where it is null do not count."""

    function = "percentile_cont"
    template = "%(function)s(%(fraction)s) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = FloatField()

    def __init__(self, expression: Any, fraction: float, **more: Any) -> None:
        super().__init__(expression, fraction=float(fraction), **more)


def live() -> Live:
    """Three statements. Raises DatabaseError when PostgreSQL does not answer them."""
    now = ClockTimestamp()
    due = Q(status=Run.Status.READY) & (Q(wake_at=None) | Q(wake_at__lte=now))
    since = Greatest(Coalesce("ready_at", "created_at"), "wake_at")
    with unscoped(Reason.HEALTH):
        runs = list(
            Run.objects.filter(status__in=Run.LIVE)
            .order_by()
            .values("queue")
            .annotate(
                ready=Count("pk", filter=due),
                later=Count("pk", filter=Q(status=Run.Status.READY, wake_at__gt=now)),
                running=Count("pk", filter=Q(status=Run.Status.RUNNING)),
                waiting=Count("pk", filter=Q(status=Run.Status.WAITING)),
                oldest_ready=Max(_age(since), filter=due),
            )
        )
        leases = Branch.objects.filter(
            holder__isnull=False, lease_until__lt=now
        ).aggregate(overdue=_age(Min("lease_until")))
    workers = list(Worker.objects.present().with_age())
    beats = [worker.age.total_seconds() for worker in workers]
    silent = sum(worker.is_silent for worker in workers)
    listening = Counter(each.queue for each in workers if not each.is_silent)
    lines = {name: Line() for name in sorted({*settings.QUEUES, *listening})}
    lines |= {row.pop("queue"): Line(**row) for row in runs}
    return Live(
        queues={
            name: replace(line, workers=listening[name]) for name, line in lines.items()
        },
        overdue=leases["overdue"],
        swept=max(0.0, min(beats)) if beats else None,
        alive=len(workers) - silent,
        silent=silent,
    )


def recent() -> Recent:
    """Four statements. Raises DatabaseError as `live` does."""
    now = clock.now()
    with unscoped(Reason.HEALTH):
        failed = (
            Run.objects.filter(status=Run.Status.FAILED, finished_at__gt=now - FAILED)
            .order_by("error_class")
            .values_list("error_class")
            .annotate(Count("pk"))
        )
        steps = Checkpoint.objects.filter(pk__gte=first_at(now - STEPS)).aggregate(
            steps=Count("pk"),
            step_p50=Quantile("latency_ms", 0.5) / 1000.0,
            step_p95=Quantile("latency_ms", 0.95) / 1000.0,
        )
        asked = Approval.objects.pending().aggregate(
            pending=Count("pk"), oldest_pending=_age(Min("asked_at"))
        )
        return Recent(failed=dict(failed), **steps, **asked)


@dataclass(frozen=True)
class Told:
    """What people and programs are told of requests, and what nobody decided."""

    queued: int  # messages that are to go out, those that rest after a try included
    oldest_due: float | None  # seconds; of those that could be sent now
    undelivered: int  # messages that were given up
    expired: int  # requests, undecided, in the last days


def told() -> Told:
    """Two statements. Raises DatabaseError as `live` does."""
    now = ClockTimestamp()
    status = Delivery.Status
    with unscoped(Reason.HEALTH):
        messages = Delivery.objects.filter(
            status__in=[status.QUEUED, status.UNDELIVERED]
        ).aggregate(
            queued=Count("pk", filter=Q(status=status.QUEUED)),
            oldest_due=_age(
                Min("next_at", filter=Q(status=status.QUEUED, next_at__lte=now))
            ),
            undelivered=Count("pk", filter=Q(status=status.UNDELIVERED)),
        )
        expired = Approval.objects.filter(
            status=Approval.Status.EXPIRED, due_at__gt=now - EXPIRED
        )
        return Told(expired=expired.count(), **messages)


def _age(moment: Any) -> Any:
    """Seconds from a moment to now, by the database's clock; null of null."""
    return Extract(ClockTimestamp() - moment, "epoch", output_field=FloatField())
