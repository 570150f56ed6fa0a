"""How the work goes: what the Runs page says of queue, workers, leases and failures.

Runs, steps and failures are of this workspace, as far as the person may see them.
Workers serve all workspaces; what one is at is told where it is a run of this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, F, FloatField, IntegerField, Min, Q
from django.db.models.functions import Cast, Coalesce, Extract, Floor, Greatest

from agents import queue
from agents.models import Approval, Run, Worker
from agents.runs.figures import Quantile
from checkpoints import clock
from checkpoints.access import UserPrincipal
from checkpoints.clock import ClockTimestamp
from checkpoints.ids import first_at
from checkpoints.models import Branch, Checkpoint

DAY = timedelta(days=1)
MINUTES = 12  # of the spark line
NEWS = timedelta(hours=1)  # that a worker was lost is told so long
CLASSES = 8  # of errors that are listed
PATIENCE = 0.25  # seconds that the page waits for Redis


@dataclass(frozen=True)
class Bar:
    """One minute of the spark line, in its view box of 72 by 18."""

    x: float
    y: float
    height: float


@dataclass(frozen=True)
class Health:
    now: datetime
    ready: int
    later: int
    running: int
    oldest: datetime | None  # since when the run that waits longest for a worker does
    asked: int  # requests that wait for people
    failures: list[tuple[str, int]]  # error class, runs within a day; most first
    failed: int
    minutes: list[int]  # steps in each of the last minutes, the oldest first
    step_p95: int | None  # milliseconds
    workers: list[Worker]
    held: dict[str, list[Branch]]  # worker → branches of this workspace
    rings: int | None  # None: Redis does not answer

    @property
    def steps_a_minute(self) -> int:
        """Of the last whole minutes."""
        whole = self.minutes[-4:-1]
        return round(sum(whole) / len(whole))

    @property
    def bars(self) -> list[Bar]:
        most = max([*self.minutes, 1])
        heights = [1 + 16 * steps / most for steps in self.minutes]
        return [
            Bar(round(n * 72 / MINUTES, 1), round(18 - high, 1), round(high, 1))
            for n, high in enumerate(heights)
        ]

    @property
    def alive(self) -> list[Worker]:
        return [w for w in self.workers if w.state in ("idle", "busy")]

    @property
    def lost(self) -> list[Worker]:
        return [w for w in self.workers if w.state == "lost"]

    @property
    def queues(self) -> list[tuple[str, int]]:
        """Each queue that a worker listens to, and how many do; ours in any case."""
        listening = {queue.QUEUE: 0}
        for worker in self.alive:
            listening[worker.queue] = listening.get(worker.queue, 0) + 1
        return sorted(listening.items())

    @property
    def at_work(self) -> list[tuple[Worker, list[Branch]]]:
        return [(worker, self.held.get(worker.name, [])) for worker in self.workers]

    def tag(self) -> list[object]:
        """What must change for the page to be drawn anew: no ages."""
        return [
            *(self.ready, self.later, self.running, self.asked, self.failures),
            *(self.steps_a_minute, self.rings),
            *((worker.name, worker.state, worker.turns) for worker in self.workers),
            *(
                (branch.pk, branch.head_step)
                for found in self.held.values()
                for branch in found
            ),
        ]


def health(principal: UserPrincipal) -> Health:
    """Seven statements, and one question to Redis."""
    now = clock.now()
    runs = Run.objects.for_user(principal)
    due = Q(status=Run.Status.READY) & (Q(wake_at=None) | Q(wake_at__lte=now))
    since = Greatest(Coalesce("ready_at", "created_at"), "wake_at")
    counts = runs.filter(status__in=[Run.Status.READY, Run.Status.RUNNING]).aggregate(
        ready=Count("pk", filter=due),
        later=Count("pk", filter=Q(status=Run.Status.READY, wake_at__gt=now)),
        running=Count("pk", filter=Q(status=Run.Status.RUNNING)),
        oldest=Min(since, filter=due),
    )
    failures = list(
        runs.filter(status=Run.Status.FAILED, finished_at__gt=now - DAY)
        .values_list("error_class")
        .annotate(n=Count("pk"))
        .order_by("-n", "error_class")
    )
    minutes, slow = _steps(principal, now)
    ended = Q(ending=Worker.Ending.LOST, ended_at__gt=now - NEWS)
    held: dict[str, list[Branch]] = {}
    for branch in Branch.objects.for_user(principal).filter(holder__isnull=False):
        held.setdefault(branch.worker, []).append(branch)
    return Health(
        now=now,
        **counts,
        asked=Approval.objects.for_user(principal).pending().count(),
        failures=failures[:CLASSES],
        failed=sum(n for _, n in failures),
        minutes=minutes,
        step_p95=slow,
        workers=list(
            Worker.objects.filter(Q(ended_at=None) | ended)
            .with_age()
            .order_by("started_at")
        ),
        held=held,
        rings=queue.depth(timeout=PATIENCE),
    )


def _steps(principal: UserPrincipal, now: datetime) -> tuple[list[int], int | None]:
    """Steps in each of the last minutes, and how long 95 % of the timed ones took at most.

    Read by the primary key, whose ids sort by time.
    """
    start = now - timedelta(minutes=MINUTES)
    steps = Checkpoint.objects.for_user(principal).filter(pk__gte=first_at(start))
    age: Any = Extract(
        ClockTimestamp() - F("created_at"), "epoch", output_field=FloatField()
    )
    found = dict(
        steps.annotate(ago=Cast(Floor(age / 60.0), IntegerField()))
        .order_by()
        .values_list("ago")
        .annotate(n=Count("pk"))
    )
    slow = steps.aggregate(p95=Quantile("latency_ms", 0.95))["p95"]
    return (
        [found.get(ago, 0) for ago in reversed(range(MINUTES))],
        None if slow is None else round(slow),
    )
