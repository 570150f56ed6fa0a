"""Rows of the threads list: what each thread did last, took and cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from uuid import UUID

from django.db.models import F, Sum

from agents.models import Run
from agents.pages import text
from agents.pages.damage import open_columns, open_each
from agents.pages.delegated import Relative, waited_for
from agents.pages.remarks.shown import Topic, of_threads, thread_topic
from agents.pages.threads.load import Found, OfThreads
from checkpoints import gate
from checkpoints.access import UserPrincipal
from checkpoints.db import session
from checkpoints.gate import Pass
from checkpoints.ids import short
from checkpoints.models import Branch, Checkpoint, CheckpointDelta, Deletion, Thread

SPARKS = 14  # steps in the little chart of a row


@dataclass(frozen=True)
class Chart:
    """The times of the newest steps: as two SVG paths of bars, and in words."""

    bars: str = ""
    hot: str = ""  # of steps that failed
    said: str = ""


@dataclass(frozen=True)
class Spent:
    """What all runs of a thread used together; nothing where it has none."""

    cost: Decimal | None = None
    tokens: int = 0
    worked: timedelta | None = None


@dataclass
class Row:
    thread: Thread
    title: str
    status: str
    active_at: datetime
    run: Run | None
    last: str = ""  # the newest step's label
    steps: int = 0
    branches: int = 0
    spent: Spent = field(default_factory=Spent)
    chart: Chart = field(default_factory=Chart)
    readable: bool = True
    gone: str = ""  # "archived", "deleted"
    remarks: Topic | None = None  # on the thread itself; None: sealed
    waits_for: Sequence[Relative] = ()  # agents, with their threads

    @property
    def agent(self) -> str:
        return self.run.agent_version.agent.name if self.run else ""


def rows_of(
    principal: UserPrincipal, found: Sequence[Found], opened: Pass | None = None
) -> list[Row]:
    """The list's rows. Who may not read sees structure, and no titles."""
    threads = [each.thread for each in found]
    if principal.may_read and threads and opened is None:
        opened = gate.admit(principal, purpose="threads list", threads=threads)
    titles: list[str | None] = [None] * len(threads)
    topics: dict[UUID, Topic] = {}
    if opened is not None:
        titles, topics = _opened(principal, threads, opened)
    ids = [thread.pk for thread in threads]
    branches = branches_of(principal, ids)
    newest = {
        each.thread.pk: telling(branches[each.thread.pk], each.run) for each in found
    }
    labels = _labels(principal, newest.values(), opened)
    charts = _charts(principal, newest.values())
    spent = _spent(principal, ids)
    awaited = waited_for(principal, [each.run for each in found if each.run])
    rows = []
    for each, title in zip(found, titles, strict=True):
        thread, branch = each.thread, newest[each.thread.pk]
        rows.append(
            Row(
                thread=thread,
                title=title or f"Thread {short(thread.pk)}",
                status=each.status or _without_run(thread),
                active_at=each.active_at,
                run=each.run,
                last=labels.get(branch.head_id, ""),
                steps=max(each.head_step for each in branches[thread.pk]) + 1,
                branches=len(branches[thread.pk]),
                spent=spent.get(thread.pk, Spent()),
                chart=charts.get(branch.pk, Chart()),
                readable=title is not None or opened is None,
                gone=_gone(each),
                remarks=topics.get(thread.pk),
                waits_for=awaited.get(each.run.pk, ()) if each.run else (),
            )
        )
    return rows


def branches_of(
    principal: UserPrincipal, threads: Sequence[UUID]
) -> Mapping[UUID, list[Branch]]:
    """The branches of each, the one that moved last at the end."""
    found: dict[UUID, list[Branch]] = {}
    for branch in _BRANCHES.rows(principal, threads):
        found.setdefault(branch.thread_id, []).append(branch)
    return found


_BRANCHES = OfThreads(
    lambda by, threads: (
        Branch.objects.for_user(by)
        .filter(thread__in=threads)
        .only("thread_id", "head_id", "head_step", "updated_at")
        .order_by("updated_at")
    )
)


def _opened(
    principal: UserPrincipal, threads: Sequence[Thread], opened: Pass
) -> tuple[list[str | None], dict[UUID, Topic]]:
    """Titles, and what is said about each thread: opened together, for their keys."""
    remarks = of_threads(principal, threads)
    said = [row for rows in remarks.values() for row in rows]
    values = open_columns(
        opened,
        [*((each, "title") for each in threads), *((row, "text") for row in said)],
    )
    ids = (row.pk for row in said)
    texts = dict(zip(ids, values[len(threads) :], strict=True))
    return values[: len(threads)], {
        pk: thread_topic(rows, texts, principal) for pk, rows in remarks.items()
    }


def _without_run(thread: Thread) -> str:
    return "imported" if thread.origin == Thread.Origin.IMPORT else "idle"


def _gone(found: Found) -> str:
    """Where its content went; empty while it is here."""
    if found.thread.pruned_at is None:
        return ""
    return "deleted" if found.gone == Deletion.What.SHREDDED else "archived"


def telling(branches: Sequence[Branch], run: Run | None) -> Branch:
    """The branch that a row tells of: its run's, else the one that moved last."""
    for branch in branches:
        if run is not None and branch.pk == run.branch_id:
            return branch
    return branches[-1]


def _labels(
    principal: UserPrincipal, branches: Iterable[Branch], opened: Pass | None
) -> dict[UUID | None, str]:
    """The newest step's label of each branch, or its kind and tool where sealed."""
    heads = [branch.head_id for branch in branches if branch.head_id]
    if opened is None:
        steps = Checkpoint.objects.for_user(principal).filter(pk__in=heads)
        return {
            pk: name or kind
            for pk, name, kind in steps.values_list("pk", "name", "kind")
        }
    deltas = list(CheckpointDelta.objects.for_user(principal).filter(pk__in=heads))
    records = open_each(opened, deltas, "record")
    return {
        delta.pk: record["label"]
        for delta, record in zip(deltas, records, strict=True)
        if record
    }


def _spent(principal: UserPrincipal, threads: Sequence[UUID]) -> dict[UUID, Spent]:
    rows = _SPENT.rows(principal, threads)
    return {
        thread: Spent(cost, tokens, worked) for thread, cost, tokens, worked in rows
    }


_SPENT = OfThreads(
    lambda by, threads: (
        Run.objects.for_user(by)
        .filter(thread__in=threads)
        .order_by()
        .values_list("thread")
        .annotate(Sum("cost"), Sum("tokens"), Sum("worked"))
    )
)


def _charts(principal: UserPrincipal, branches: Iterable[Branch]) -> dict[UUID, Chart]:
    """The times of the newest steps of each branch; a failed step's is hot."""
    found: dict[UUID, list[tuple[int, bool]]] = {}
    with session.joined_as_written():
        rows = _NEWEST_STEPS.rows(principal, [branch.pk for branch in branches])
    for branch, latency, status, kind in rows:
        failed = status == Checkpoint.Status.FAILED or kind == Checkpoint.Kind.ERROR
        found.setdefault(branch, []).append((latency or 0, failed))
    return {branch: _chart(times) for branch, times in found.items()}


# From the branch, by the whole index: so many steps are read, however many it has.
_NEWEST_STEPS = OfThreads(
    lambda by, branches: (
        Branch.objects.for_user(by)
        .filter(
            pk__in=branches,
            checkpoints__thread=F("thread"),
            checkpoints__step__gt=F("head_step") - SPARKS,
        )
        .order_by("checkpoints__step")
        .values_list(
            "pk",
            "checkpoints__latency_ms",
            "checkpoints__status",
            "checkpoints__kind",
        )
    )
)


def _chart(times: list[tuple[int, bool]]) -> Chart:
    """Heights by square root, so that one long step does not flatten the others."""
    top = max(time for time, _ in times) ** 0.5 or 1
    paths: dict[bool, list[str]] = {False: [], True: []}
    for n, (time, failed) in enumerate(times):
        height = 2 + 15 * time**0.5 / top
        paths[failed].append(f"M{n * 5.1:.1f} 18v-{height:.1f}h3.9v{height:.1f}z")
    return Chart("".join(paths[False]), "".join(paths[True]), _said(times))


def _said(times: list[tuple[int, bool]]) -> str:
    """What the chart shows, for who does not see it."""
    longest = text.duration(max(time for time, _ in times))
    failed = sum(failed for _, failed in times)
    said = f"Last {len(times)} steps, the longest {longest}"
    return f"{said}, {failed} failed" if failed else said
