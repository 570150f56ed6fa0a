"""The list: which requests wait, or were decided, with their opened titles."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from agents.models import Approval
from agents.pages import live
from agents.pages.damage import open_each
from checkpoints import gate
from checkpoints.access import UserPrincipal
from checkpoints.clock import now

LIMIT = 200  # rows of a list; more than a person clears before looking again


@dataclass(frozen=True)
class Row:
    """One request of the list. `title` is None where it may not or cannot be read."""

    approval: Approval
    title: str | None
    current: bool = False


@dataclass(frozen=True)
class Group:
    """Requests under one heading, soonest first."""

    name: str
    rows: list[Row]


@dataclass(frozen=True)
class Queue:
    """What the list pane shows. `show` is "waiting" or "decided"."""

    show: str
    groups: list[Group]
    waiting: int
    tag: str


def find(principal: UserPrincipal, *, show: str) -> list[Approval]:
    """The requests that `principal` may see: those that wait, or the last decided."""
    every = Approval.objects.for_user(principal).select_related(
        "thread", "call", "run__agent_version__agent", "decided_by"
    )
    if show == "decided":
        found = every.exclude(status=Approval.Status.PENDING).order_by("-decided_at")
    else:
        found = every.pending().order_by("due_at", "asked_at")
    return list(found[:LIMIT])


def tag_of(approvals: list[Approval], current: Approval | None) -> str:
    """Changes when the list must be drawn anew."""
    return live.tag(
        [current and current.pk]
        + [f"{a.pk} {a.status} {a.revision}" for a in approvals]
    )


def queue(
    principal: UserPrincipal,
    approvals: list[Approval],
    *,
    show: str,
    current: Approval | None = None,
) -> Queue:
    """The list of `approvals`. Opening their titles is recorded."""
    titles = _titles(principal, approvals)
    rows = [
        Row(approval, title, current is not None and approval.pk == current.pk)
        for approval, title in zip(approvals, titles, strict=True)
    ]
    groups = [Group("Decided", rows)] if show == "decided" else _by_deadline(rows)
    if show == "decided" or len(rows) == LIMIT:
        waiting = Approval.objects.for_user(principal).pending().count()
    else:
        waiting = len(rows)
    return Queue(
        show=show,
        groups=[group for group in groups if group.rows],
        waiting=waiting,
        tag=tag_of(approvals, current),
    )


def _titles(principal: UserPrincipal, approvals: list[Approval]) -> list[str | None]:
    if not principal.may_read:
        return [None] * len(approvals)
    if not approvals:
        return []
    opened = gate.admit(
        principal,
        purpose="inbox",
        threads={
            approval.thread_id: approval.thread for approval in approvals
        }.values(),
    )
    return open_each(opened, [approval.call for approval in approvals], "title")


def _by_deadline(rows: list[Row]) -> list[Group]:
    if all(row.approval.due_at is None for row in rows):
        return [Group("Waiting", rows)]
    at = now()
    overdue, due, open_end = [], [], []
    for row in rows:
        due_at: datetime | None = row.approval.due_at
        if due_at is None:
            open_end.append(row)
        elif due_at < at:
            overdue.append(row)
        else:
            due.append(row)
    return [
        Group("Overdue", overdue),
        Group("Due", due),
        Group("No deadline", open_end),
    ]
