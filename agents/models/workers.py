from __future__ import annotations

from datetime import timedelta
from typing import Self

from django.db import models

from checkpoints.clock import ClockTimestamp

SILENT = timedelta(seconds=20)  # four beats that did not come (runs/roster.py)


class WorkerQuerySet(models.QuerySet["Worker"]):
    def present(self) -> Self:
        """Those that have not said that they ended, and whose end nobody saw."""
        return self.filter(ended_at=None)

    def with_age(self) -> Self:
        """Each with `age`: how long ago its last beat was, a timedelta."""
        return self.annotate(
            age=models.ExpressionWrapper(
                ClockTimestamp() - models.F("beat_at"),
                output_field=models.DurationField(),
            )
        )


class Worker(models.Model):
    """A worker process as it speaks of itself, every few seconds.

    For people who look after workers; nothing is decided by it. Who holds a run is on
    its branch, with a lease. Workers serve every workspace, so this belongs to none,
    and names no run.
    """

    class Ending(models.TextChoices):
        STOPPED = "stopped"
        RECYCLED = "recycled"  # a new process took its place
        LOST = "lost"  # its supervisor saw it die

    age: timedelta  # with_age

    name = models.CharField(primary_key=True, max_length=100)
    host = models.CharField(max_length=60)
    pid = models.PositiveIntegerField()
    queue = models.CharField(max_length=60)
    busy_since = models.DateTimeField(null=True, editable=False)
    agents = models.JSONField(
        default=list, help_text="Names of the agents that it can run."
    )
    turns = models.PositiveBigIntegerField(
        default=0, help_text="Runs that it was asked to take on."
    )
    memory = models.PositiveBigIntegerField(default=0, help_text="Bytes, resident.")
    started_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)
    beat_at = models.DateTimeField(
        db_default=ClockTimestamp(),
        editable=False,
        help_text="Of the reaper in it: after a sweep that came to its end.",
    )
    ended_at = models.DateTimeField(null=True, editable=False)
    ending = models.CharField(max_length=10, choices=Ending, blank=True)
    cause = models.CharField(
        max_length=60, blank=True, help_text="SIGKILL, exit 1, 10000 turns, 1030 MB"
    )

    objects = models.Manager.from_queryset(WorkerQuerySet)()

    def __str__(self) -> str:
        return self.name

    @property
    def short_name(self) -> str:
        """As pages call it: the last part of `host:supervisor:random`."""
        return self.name.rpartition(":")[2]

    @property
    def is_silent(self) -> bool:
        """Not heard of for a while, and nobody saw it end. Needs `with_age`."""
        return self.ended_at is None and self.age > SILENT

    @property
    def state(self) -> str:
        """lost, recycled, stopped, silent, busy or idle. Needs `with_age`."""
        if self.ended_at is not None:
            return self.ending
        if self.is_silent:
            return "silent"
        return "idle" if self.busy_since is None else "busy"
