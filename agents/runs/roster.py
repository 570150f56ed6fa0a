"""The roster: which worker processes there are, as they and their supervisors say.

A beat goes with the reaper's sweep, so a worker whose reaper is stuck falls silent,
too. Beats are not waited for until they are on disk: one that is lost costs nothing.
"""

from __future__ import annotations

import os
import resource
import socket
import sys
from dataclasses import dataclass
from datetime import timedelta

from django.db import connection, transaction

from agents.models import Worker
from agents.tools import registry
from checkpoints.clock import ClockTimestamp

BEAT = 5.0  # seconds between two signs of life
GIVEN_UP = timedelta(minutes=5)  # after the last beat of one whose end nobody saw
KEPT = timedelta(days=1)  # an ended worker's row

MB = 1024 * 1024


@dataclass(frozen=True)
class Sign:
    """What a worker says of itself."""

    queue: str
    turns: int = 0
    busy: timedelta | None = None  # how long it has been at its run


def beat(name: str, sign: Sign) -> None:
    """Say that a worker is there: the first time, from then on, and when it was given up."""
    now = ClockTimestamp()
    row = Worker(
        name=name,
        host=host(),
        pid=os.getpid(),
        queue=sign.queue,
        agents=[agent.name for agent in registry],
        turns=sign.turns,
        memory=memory(),
        busy_since=None if sign.busy is None else now - sign.busy,
        beat_at=now,
    )
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL synchronous_commit = off")
        Worker.objects.bulk_create(
            [row],
            update_conflicts=True,
            unique_fields=["name"],
            update_fields=[
                *("busy_since", "turns", "memory", "beat_at"),
                *("ended_at", "ending", "cause"),
            ],
        )


def end(name: str, how: Worker.Ending, *, cause: str = "") -> bool:
    """Say that a worker is no longer there. The first who says so is believed."""
    return bool(
        Worker.objects.filter(name=name, ended_at=None).update(
            ended_at=ClockTimestamp(), busy_since=None, ending=how, cause=cause
        )
    )


def tidy() -> None:
    """Give up who was silent for long, and forget who is gone for long."""
    now = ClockTimestamp()
    Worker.objects.filter(ended_at=None, beat_at__lt=now - GIVEN_UP).update(
        ended_at=now, busy_since=None, ending=Worker.Ending.LOST, cause="silence"
    )
    Worker.objects.filter(ended_at__lt=now - KEPT).delete()


def host() -> str:
    return socket.gethostname()[:60]


def memory() -> int:
    """Bytes that this process has in memory now; elsewhere than on Linux, at most had."""
    try:
        with open("/proc/self/statm", "rb") as file:
            pages = int(file.read().split()[1])
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return pages * resource.getpagesize()
