"""How the work goes: what the Runs page says of queue, workers, leases and failures.

Runs, steps and failures are of this workspace, as far as the person may see them.
Workers serve all workspaces; what one is at is told where it is a run of this one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, F, FloatField, IntegerField, Min, Q, Sum
from django.db.models.functions import Cast, Coalesce, Extract, Floor, Greatest

from agents import queue
from agents.models import Approval, Run, ToolCall, Worker
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
class Line:
    """One queue, with this workspace's runs in it."""

    name: str
    ready: int = 0
    later: int = 0
    running: int = 0
    oldest: datetime | None = (
        None  # since when the run that waits longest for a worker does
    )
    workers: int = 0
    rings: int | None = None  # of every workspace; None: it is not known
    is_listed: bool = True  # in the settings

    @property
    def waits(self) -> int:
        return self.ready + self.later


@dataclass(frozen=True)
class Saved:
    """Calls of a tool that an agent did not have to make: a result was there."""

    agent: str
    tool: str
    calls: int
    ms: int  # that the calls took whose results were given again


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
    lines: list[Line]
    saved: list[Saved]  # most first
    rings: dict[str, int] | None  # None: Redis does not answer

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
    def agents(self) -> set[str]:
        """Those that some worker can run."""
        return {name for worker in self.alive for name in worker.agents}

    @property
    def unheard(self) -> list[Line]:
        """Queues with runs that no worker listens to, where there are workers at all."""
        return [line for line in self.lines if line.waits and not line.workers]

    @property
    def saved_calls(self) -> int:
        return sum(saved.calls for saved in self.saved)

    @property
    def saved_ms(self) -> int:
        return sum(saved.ms for saved in self.saved)

    @property
    def at_work(self) -> list[tuple[Worker, list[Branch]]]:
        return [(worker, self.held.get(worker.name, [])) for worker in self.workers]

    def tag(self) -> list[object]:
        """What must change for the page to be drawn anew: no ages."""
        return [
            *(self.ready, self.later, self.running, self.asked, self.failures),
            *(self.steps_a_minute, self.rings, self.saved_calls, sorted(self.agents)),
            *((line.name, line.waits, line.workers) for line in self.lines),
            *((worker.name, worker.state, worker.turns) for worker in self.workers),
            *(
                (branch.pk, branch.head_step)
                for found in self.held.values()
                for branch in found
            ),
        ]


def health(principal: UserPrincipal) -> Health:
    """Eight statements, and one question to Redis."""
    now = clock.now()
    runs = Run.objects.for_user(principal)
    due = Q(status=Run.Status.READY) & (Q(wake_at=None) | Q(wake_at__lte=now))
    since = Greatest(Coalesce("ready_at", "created_at"), "wake_at")
    live = runs.filter(status__in=[Run.Status.READY, Run.Status.RUNNING])
    counts = list(
        live.order_by()
        .values("queue")
        .annotate(
            ready=Count("pk", filter=due),
            later=Count("pk", filter=Q(status=Run.Status.READY, wake_at__gt=now)),
            running=Count("pk", filter=Q(status=Run.Status.RUNNING)),
            oldest=Min(since, filter=due),
        )
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
    workers = list(
        Worker.objects.filter(Q(ended_at=None) | ended)
        .with_age()
        .order_by("started_at")
    )
    rings = queue.depths(timeout=PATIENCE)
    return Health(
        now=now,
        ready=sum(row["ready"] for row in counts),
        later=sum(row["later"] for row in counts),
        running=sum(row["running"] for row in counts),
        oldest=min((row["oldest"] for row in counts if row["oldest"]), default=None),
        asked=Approval.objects.for_user(principal).pending().count(),
        failures=failures[:CLASSES],
        failed=sum(n for _, n in failures),
        minutes=minutes,
        step_p95=slow,
        workers=workers,
        held=held,
        lines=_lines(counts, workers, rings or {}),
        saved=_saved(principal, now),
        rings=rings,
    )


def _lines(
    counts: list[Any], workers: list[Worker], rings: dict[str, int]
) -> list[Line]:
    """Every queue that settings, runs or workers name."""
    here = Counter(each.queue for each in workers if each.state in ("idle", "busy"))
    rows = {row.pop("queue"): row for row in map(dict, counts)}
    return [
        Line(
            name,
            **rows.get(name, {}),
            workers=here[name],
            rings=rings.get(name),
            is_listed=name in settings.QUEUES,
        )
        for name in sorted({*settings.QUEUES, *rows, *here})
    ]


def _saved(principal: UserPrincipal, now: datetime) -> list[Saved]:
    """What caches saved within a day: reads whose result was given again."""
    given = ToolCall.objects.for_user(principal).filter(
        recorded_from__isnull=False,
        effect__in=[ToolCall.Effect.NONE, ToolCall.Effect.READ],
        created_at__gt=now - DAY,
    )
    found = (
        given.order_by()
        .values_list("run__agent_version__agent__name", "tool")
        .annotate(
            calls=Count("pk"),
            ms=Coalesce(Sum("recorded_from__result_checkpoint__latency_ms"), 0),
        )
        .order_by("-ms", "-calls", "tool")
    )
    return [Saved(*row) for row in found]


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
