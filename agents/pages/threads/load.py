"""What a page of the list needs of its threads: statements that are compiled once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, Subquery

from agents.models import Run
from agents.pages.threads.find import PAGE, Place, Threads, newest_runs
from checkpoints.access import UserPrincipal
from checkpoints.compiled import Compiled
from checkpoints.models import Deletion, Thread

MOST_AT_ONCE = 200  # threads that are loaded
NIL = UUID(int=0)  # of nothing


@dataclass(frozen=True)
class Found:
    """A thread of the list, and the run that says its status, if it ever had one."""

    thread: Thread
    active_at: datetime
    run: Run | None
    gone: str = ""  # what the deletion journal says last

    @property
    def status(self) -> str:
        return self.run.status if self.run else ""


class OfThreads:
    """`build(principal, ids)`, compiled: what it finds of at most 200 threads or branches.

    Their number is part of the statement, so it is rounded up, with ids of nothing.
    """

    def __init__(self, build: Callable[[UserPrincipal, list[UUID]], Any]) -> None:
        self._compiled = Compiled(lambda by, **ids: build(by, list(ids.values())))

    def rows(self, principal: UserPrincipal, ids: Sequence[UUID]) -> list[Any]:
        size = next(size for size in (PAGE, MOST_AT_ONCE) if size >= len(ids))
        padded = [*ids, *[NIL] * (size - len(ids))]
        named = {f"id {n}": pk for n, pk in enumerate(padded)}
        return self._compiled.rows(principal, **named)


def load(principal: UserPrincipal, shown: Sequence[Place]) -> list[Found]:
    """The threads of these places with their runs, in this order; who went is left out."""
    ids = [place.thread for place in shown]
    threads = {thread.pk: thread for thread in _THREADS.rows(principal, ids)}
    runs = {run.thread_id: run for run in _RUNS.rows(principal, ids)}
    return [
        Found(thread, place.at, runs.get(thread.pk), thread.gone or "")
        for place in shown
        if (thread := threads.get(place.thread))
    ]


def _threads(by: UserPrincipal, ids: list[UUID]) -> Threads:
    gone = Deletion.objects.filter(thread=OuterRef("pk")).order_by("-at")
    return (
        Thread.objects.for_user(by)
        .filter(pk__in=ids)
        .annotate(gone=Subquery(gone.values("what")[:1]))
    )


def _runs_of(by: UserPrincipal, ids: list[UUID]) -> Any:
    return (
        newest_runs(by.workspace_id)
        .for_user(by)
        .filter(thread__in=ids)
        .select_related("agent_version__agent")
        .defer("error", "agent_version__spec")
    )


_THREADS = OfThreads(_threads)
_RUNS = OfThreads(_runs_of)
