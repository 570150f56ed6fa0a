"""/metrics: figures of the whole installation, as Prometheus reads them.

Text format 0.0.4. Counts, ages and ids of worker processes; nothing of a workspace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from django.conf import settings
from django.db import Error as DatabaseError
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from agents import queue
from agents.models import Worker
from agents.runs import figures
from checkpoints.db import session

Labels: TypeAlias = dict[str, str]
Value: TypeAlias = float | None
Samples: TypeAlias = Iterable[tuple[Labels, Value]]

FORMAT = "text/plain; version=0.0.4; charset=utf-8"


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """The figures, to whoever has METRICS_TOKEN; 404 to everybody else.

    Without a token there is nothing to ask for, except in the demo, on one machine. An
    address proves nothing: behind a proxy on the same machine all come from there.
    """
    if not _may(request):
        raise Http404
    try:
        with session.overseeing():
            lines = list(_lines())
    except DatabaseError:
        return HttpResponse(
            "PostgreSQL does not answer.\n", content_type=FORMAT, status=503
        )
    return HttpResponse("".join(lines), content_type=FORMAT)


def _may(request: HttpRequest) -> bool:
    if settings.METRICS_TOKEN is None:
        return bool(settings.LOCAL)
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return scheme.lower() == "bearer" and constant_time_compare(
        token.strip(), settings.METRICS_TOKEN
    )


def _lines() -> Iterator[str]:
    live, recent, rings = figures.live(), figures.recent(), queue.depths()
    queues = [({"queue": name}, line) for name, line in live.queues.items()]
    yield from _gauge(
        "runs",
        "Runs that are not over; later: ready, but not before a time.",
        (
            ({"status": status, **label}, getattr(line, status))
            for status in ("ready", "later", "running", "waiting")
            for label, line in queues
        ),
    )
    yield from _gauge(
        "oldest_ready_seconds",
        "How long the oldest run that could be taken has waited for a worker.",
        ((label, line.oldest_ready or 0.0) for label, line in queues),
    )
    yield from _gauge(
        "queue_workers",
        "Workers that listen to the queue, and were heard of lately.",
        ((label, line.workers) for label, line in queues),
    )
    yield from _one(
        "lease_overdue_seconds",
        "How long ago the first lease lapsed that no reaper has ended.",
        live.overdue or 0.0,
    )
    yield from _one(
        "sweep_age_seconds",
        "Since a reaper last came to the end of a sweep; absent without workers.",
        live.swept,
    )
    yield from _gauge(
        "runs_failed_hour",
        "Runs that failed within the last hour, by the class of the error.",
        (({"error_class": name}, count) for name, count in recent.failed.items()),
    )
    yield from _one("steps_5m", "Steps within the last five minutes.", recent.steps)
    yield from _gauge(
        "step_seconds_5m",
        "How long model calls and tools took within the last five minutes.",
        [
            ({"quantile": "0.5"}, recent.step_p50),
            ({"quantile": "0.95"}, recent.step_p95),
        ],
    )
    yield from _one("approvals_pending", "Requests that wait.", recent.pending)
    yield from _one(
        "approval_oldest_seconds",
        "How long the oldest request has waited.",
        recent.oldest_pending or 0.0,
    )
    told = figures.told()
    yield from _one(
        "approvals_expired_7d", "Requests that expired undecided.", told.expired
    )
    yield from _one("deliveries_queued", "Messages that are to go out.", told.queued)
    yield from _one(
        "delivery_oldest_due_seconds",
        "How long the oldest message that could be sent has waited.",
        told.oldest_due or 0.0,
    )
    yield from _one(
        "deliveries_undelivered", "Messages that were given up.", told.undelivered
    )
    yield from _one("redis_up", "1: it answers.", float(rings is not None))
    yield from _gauge(
        "rings",
        "Rings that nobody heard yet; absent without Redis.",
        (({"queue": name}, count) for name, count in (rings or {}).items()),
    )
    yield from _workers()


def _workers() -> Iterator[str]:
    """One series for each process: a counter that ends with it, not one that falls."""
    present = list(Worker.objects.present().with_age().order_by("name"))
    states = dict.fromkeys(("idle", "busy", "silent"), 0)
    for worker in present:
        states[worker.state] += 1
    yield from _gauge(
        "workers", "Worker processes.", (({"state": s}, n) for s, n in states.items())
    )
    named = [({"worker": worker.name}, worker) for worker in present]
    yield from _gauge(
        "worker_beat_age_seconds",
        "Since the worker was last heard of.",
        ((labels, worker.age.total_seconds()) for labels, worker in named),
    )
    yield from _gauge(
        "worker_memory_bytes",
        "Resident memory.",
        ((labels, worker.memory) for labels, worker in named),
    )
    yield from _series(
        "worker_turns_total",
        "Runs that the worker was asked to take on.",
        ((labels, worker.turns) for labels, worker in named),
        kind="counter",
    )


def _one(name: str, words: str, value: Value) -> Iterator[str]:
    return _gauge(name, words, [({}, value)])


def _gauge(name: str, words: str, samples: Samples) -> Iterator[str]:
    return _series(name, words, samples, kind="gauge")


def _series(name: str, words: str, samples: Samples, *, kind: str) -> Iterator[str]:
    """A value that is not known is left out."""
    name = f"holdpoint_{name}"
    yield f"# HELP {name} {words}\n# TYPE {name} {kind}\n"
    for labels, value in samples:
        if value is not None:
            said = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            yield (
                f"{name}{{{said}}} {value:.10g}\n" if said else f"{name} {value:.10g}\n"
            )


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
