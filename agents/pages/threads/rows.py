"""Rows of the threads list: what each thread did last, took and cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.db.models import F, Sum

from agents.models import Run
from agents.pages.damage import open_each
from agents.pages.threads.find import Found
from checkpoints import gate
from checkpoints.access import UserPrincipal
from checkpoints.gate import Pass
from checkpoints.ids import short
from checkpoints.models import Branch, Checkpoint, CheckpointDelta, Deletion, Thread

SPARKS = 14  # steps in the little chart of a row


@dataclass(frozen=True)
class Bar:
    """One step's time in the little chart."""

    x: float
    y: float
    height: float
    hot: bool


@dataclass
class Row:
    thread: Found
    title: str
    status: str
    active_at: datetime
    run: Run | None
    last: str = ""  # the newest step's label
    steps: int = 0
    branches: int = 0
    cost: Decimal | None = None
    tokens: int = 0
    bars: list[Bar] = field(default_factory=list)
    readable: bool = True
    gone: str = ""  # "archived", "deleted"

    @property
    def agent(self) -> str:
        return self.run.agent_version.agent.name if self.run else ""


def rows_of(
    principal: UserPrincipal, threads: Sequence[Found], opened: Pass | None = None
) -> list[Row]:
    """The list's rows. Who may not read sees structure, and no titles."""
    if principal.may_read and threads and opened is None:
        opened = gate.admit(principal, purpose="threads list", threads=threads)
    titles = open_each(opened, threads, "title") if opened else [None] * len(threads)
    ids = [thread.pk for thread in threads]
    runs = {
        run.pk: run
        for run in Run.objects.for_user(principal)
        .filter(pk__in=[thread.run_id for thread in threads])
        .select_related("agent_version__agent")
        .defer("error", "agent_version__spec")
    }
    branches: dict[UUID, list[Branch]] = {}
    for branch in (
        Branch.objects.for_user(principal)
        .filter(thread__in=ids)
        .only("thread_id", "head_id", "head_step", "updated_at")
        .order_by("updated_at")
    ):
        branches.setdefault(branch.thread_id, []).append(branch)
    newest = {
        thread.pk: _of_run(branches[thread.pk], runs.get(thread.run_id))
        for thread in threads
    }
    labels = _labels(principal, newest.values(), opened)
    bars = _bars(principal, newest.values())
    sums = _sums(principal, ids)
    rows = []
    for thread, title in zip(threads, titles, strict=True):
        cost, tokens = sums.get(thread.pk, (None, 0))
        branch = newest[thread.pk]
        status = thread.run_status or (
            "imported" if thread.origin == Thread.Origin.IMPORT else "idle"
        )
        rows.append(
            Row(
                thread=thread,
                title=title or f"Thread {short(thread.pk)}",
                status=status,
                active_at=thread.active_at,
                run=runs.get(thread.run_id),
                last=labels.get(branch.head_id, ""),
                steps=max(each.head_step for each in branches[thread.pk]) + 1,
                branches=len(branches[thread.pk]),
                cost=cost,
                tokens=tokens,
                bars=bars.get(branch.pk, []),
                readable=title is not None or opened is None,
                gone=_gone(thread),
            )
        )
    return rows


def _gone(thread: Found) -> str:
    """Where its content went; empty while it is here."""
    if thread.pruned_at is None:
        return ""
    return "deleted" if thread.gone == Deletion.What.SHREDDED else "archived"


def _of_run(branches: Sequence[Branch], run: Run | None) -> Branch:
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


def _sums(
    principal: UserPrincipal, threads: Sequence[UUID]
) -> dict[UUID, tuple[Decimal | None, int]]:
    rows = (
        Checkpoint.objects.for_user(principal)
        .filter(thread__in=threads)
        .values("thread")
        .annotate(cost=Sum("cost"), read=Sum("tokens_in"), written=Sum("tokens_out"))
    )
    return {
        row["thread"]: (row["cost"], (row["read"] or 0) + (row["written"] or 0))
        for row in rows
    }


def _bars(
    principal: UserPrincipal, branches: Iterable[Branch]
) -> dict[UUID, list[Bar]]:
    """The times of the newest steps, as bars; a failed step's is hot."""
    rows = (
        Checkpoint.objects.for_user(principal)
        .filter(
            branch__in=[branch.pk for branch in branches],
            step__gt=F("branch__head_step") - SPARKS,
        )
        .order_by("step")
        .values_list("branch_id", "latency_ms", "status", "kind")
    )
    found: dict[UUID, list[tuple[int, bool]]] = {}
    for branch, latency, status, kind in rows:
        failed = status == Checkpoint.Status.FAILED or kind == Checkpoint.Kind.ERROR
        found.setdefault(branch, []).append((latency or 0, failed))
    return {branch: _chart(times) for branch, times in found.items()}


def _chart(times: list[tuple[int, bool]]) -> list[Bar]:
    """Heights by square root, so that one long step does not flatten the others."""
    top = max(time for time, _ in times) ** 0.5 or 1
    bars = []
    for n, (time, failed) in enumerate(times):
        height = round(2 + 15 * time**0.5 / top, 1)
        bars.append(Bar(round(n * 5.1, 1), round(18 - height, 1), height, failed))
    return bars
