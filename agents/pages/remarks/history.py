"""All that was said about a thread, the newest first, with what was taken back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from agents.pages.damage import open_columns
from agents.pages.remarks.shown import Said, said
from agents.pages.thread.place import Place
from checkpoints import gate
from checkpoints.access import UserPrincipal
from checkpoints.ids import short
from checkpoints.models import Remark, Thread

PAGE = 100  # rows


@dataclass(frozen=True)
class Entry:
    """A remark, and what it is about."""

    said: Said
    place: Place
    where: str


def all_of(by: UserPrincipal, thread: Thread, *, before: str) -> dict[str, Any]:
    """What the page of all remarks shows; `before` is the id that its address has.

    Stars are one's own, and are not among them. Opening is recorded; who may not read sees
    kinds, people and times.
    """
    rows = (
        thread.remarks.exclude(kind=Remark.Kind.STAR)
        .select_related("by", "removed_by", "branch", "checkpoint")
        .order_by("-pk")
    )
    if (last := _id(before)) is not None:
        rows = rows.filter(pk__lt=last)
    found = list(rows[: PAGE + 1])
    shown = found[:PAGE]
    branches = {row.branch_id: row.branch for row in shown if row.branch}
    names = {pk: f"branch {short(pk)}" for pk in branches if pk}
    title, texts = f"Thread {short(thread.pk)}", dict[UUID, str | None]()
    if by.may_read:
        opened = gate.admit(by, purpose="remarks", threads=[thread])
        values = open_columns(
            opened,
            [
                (thread, "title"),
                *((branch, "name") for branch in branches.values()),
                *((row, "text") for row in shown),
            ],
        )
        title = values[0] or title
        for pk, name in zip(branches, values[1 : len(branches) + 1], strict=True):
            if pk and name:
                names[pk] = name
        texts = dict(
            zip((row.pk for row in shown), values[len(branches) + 1 :], strict=True)
        )
    return {
        "thread": thread,
        "title": title,
        "sealed": not by.may_read,
        "entries": [_entry(by, row, texts.get(row.pk), names) for row in shown],
        "earlier": f"?before={shown[-1].pk}" if len(found) > PAGE else "",
    }


def _entry(
    by: UserPrincipal, row: Remark, text: str | None, names: dict[UUID, str]
) -> Entry:
    place, where = Place(row.thread_id), "the thread"
    if row.branch_id is not None:
        place, where = place.tip(row.branch_id), names[row.branch_id]
    if row.checkpoint is not None:
        place = place.at(row.checkpoint.pk, own=True)
        where = f"step {row.checkpoint.step} of {where}"
    return Entry(said(by, row, text), place, where)


def _id(text: str) -> UUID | None:
    """None for what is none."""
    try:
        return UUID(text)
    except ValueError:
        return None
