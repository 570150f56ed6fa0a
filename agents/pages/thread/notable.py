"""The notable steps of a line whose rows are not on the page, asked of the database.

Each step that somebody looks at asks, so both statements are compiled once, for as many
branches as the line goes through.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from agents.pages.thread.steps import NOTABLE
from agents.pages.thread.structure import lasts
from agents.pages.thread.subject import Subject
from checkpoints.compiled import Compiled, Value
from checkpoints.models import Checkpoint, Thread


def last(subject: Subject, *, before: int) -> int | None:
    """The last one before this step, by its row as it stands."""
    return _step(_LAST, subject, before=before)


def next(subject: Subject, *, after: int) -> int | None:
    """The first one after this step."""
    return _step(_NEXT, subject, after=after)


def _step(statement: Compiled, subject: Subject, **bound: int) -> int | None:
    asked: dict[str, Value] = {"thread": subject.thread.pk, **bound}
    line = lasts(subject.branches, subject.branch)
    for n, (branch, until) in enumerate(line.items()):
        asked |= {f"branch_{n}": branch, f"until_{n}": until}
    found: int | None = statement.first(subject.principal, **asked)
    return found


def _notable(thread: UUID, line: dict[str, Any]) -> QuerySet[Checkpoint]:
    """Of what is reached from a thread that was found for this person."""
    parts = [
        Q(branch=line[f"branch_{n}"], step__lte=line[f"until_{n}"])
        for n in range(len(line) // 2)
    ]
    # As `steps.is_notable`.
    wanted = Q(kind__in=sorted(NOTABLE)) | Q(status=Checkpoint.Status.FAILED)
    return Thread(pk=thread).checkpoints.filter(reduce(or_, parts), wanted)


_LAST = Compiled(
    lambda _, thread, before, **line: (
        _notable(thread, line)
        .filter(step__lt=before)
        .order_by("-step")
        .values_list("step", flat=True)[:1]
    )
)
_NEXT = Compiled(
    lambda _, thread, after, **line: (
        _notable(thread, line)
        .filter(step__gt=after)
        .order_by("step")
        .values_list("step", flat=True)[:1]
    )
)
