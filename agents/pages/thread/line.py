"""One branch, opened to look for something in all its steps; rows only of those found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

from django.http import Http404
from django.shortcuts import get_object_or_404
from django.urls import reverse

from agents.models import ToolCall
from agents.pages.chips import Chips
from agents.pages.damage import DAMAGE, open_each
from agents.pages.principal import MemberRequest
from agents.pages.thread.people import people
from agents.pages.thread.place import Place
from checkpoints import gate
from checkpoints.access import UserPrincipal
from checkpoints.errors import CheckpointsError
from checkpoints.gate import Pass
from checkpoints.ids import short
from checkpoints.log.hydrate import Operations, operations
from checkpoints.models import Branch, Checkpoint, Thread


@dataclass
class Line:
    """A branch of a thread, as far as this person may see it."""

    principal: UserPrincipal
    thread: Thread
    branch: Branch
    title: str
    name: str  # the branch's
    operations: Operations | None  # None: sealed, not to be opened, or it does not open
    damage: CheckpointsError | None = None

    @cached_property
    def chips(self) -> Chips:
        return Chips(self.thread)

    @property
    def sealed(self) -> bool:
        return not self.principal.may_read

    @property
    def last(self) -> int:
        return len(self.operations) - 1 if self.operations else self.branch.head_step

    def place(self, checkpoint: UUID | None, path: str = "") -> Place:
        """A step on the thread's page, with this path watched."""
        return Place(
            thread=self.thread.pk,
            branch=self.branch.pk,
            checkpoint=checkpoint,
            path=path,
        )

    def taken(self, steps: Iterable[int]) -> dict[int, Taken]:
        """Who took these steps, when, why, and what each is called: three queries."""
        if self.operations is None:
            return {}
        ids = [self.operations.checkpoint(step) for step in steps]
        found: list[Any] = list(self.thread.checkpoints.filter(pk__in=ids))
        names = people(found)
        calls = ToolCall.objects.for_user(self.principal).filter(
            thread=self.thread, result_checkpoint__in=ids
        )
        asked = {
            result: Asked(step, self.place(reply))
            for result, reply, step in calls.values_list(
                "result_checkpoint_id", "reply_id", "reply__step"
            )
        }
        return {
            row.step: Taken(
                row,
                self.operations.label(row.step),
                names.get(row.actor_id or 0, ""),
                asked.get(row.pk),
            )
            for row in found
        }


@dataclass(frozen=True)
class Asked:
    """The model's step that asked for a call."""

    step: int
    place: Place


@dataclass(frozen=True)
class Taken:
    """A step by what its row says, with its label; a call's result, with who wanted it."""

    row: Any
    label: str
    who: str
    asked: Asked | None

    @property
    def failed(self) -> bool:
        return bool(self.row.status == Checkpoint.Status.FAILED)


def open_line(
    request: MemberRequest, pk: UUID, *, purpose: str, opening: bool = True
) -> Line:
    """The branch that the address names, else the thread's first. Opening is recorded.

    Raises Http404 for what is not there or not theirs.
    """
    principal = request.principal
    thread = get_object_or_404(Thread.objects.for_user(principal), pk=pk)
    branch = _branch(thread, request.GET.get("branch", ""))
    line = Line(
        principal=principal,
        thread=thread,
        branch=branch,
        title=f"Thread {short(thread.pk)}",
        name="main" if branch.parent_id is None else f"branch {short(branch.pk)}",
        operations=None,
    )
    if opening and principal.may_read and branch.head_step >= 0:
        opened = gate.admit(
            principal,
            purpose=purpose,
            threads=[thread],
            steps=f"0-{branch.head_step}",
        )
        try:
            _open(line, opened)
        except DAMAGE as damage:
            line.damage = damage
    return line


def _open(line: Line, opened: Pass) -> None:
    [title] = open_each(opened, [line.thread], "title")
    [name] = open_each(opened, [line.branch], "name")
    line.title = title or line.title
    line.name = name or line.name
    line.operations = operations(opened, line.branch)


def _branch(thread: Thread, wish: str) -> Branch:
    branches = thread.branches.order_by("created_at", "pk")
    if wish:
        try:
            branches = branches.filter(pk=UUID(wish))
        except ValueError:
            raise Http404 from None
    branch = branches.first()
    if branch is None:
        raise Http404
    return branch


def address(name: str, line: Line, **query: str) -> str:
    """A page about this branch, with this query."""
    return about(name, line.thread.pk, line.branch.pk, **query)


def about(name: str, thread: UUID, branch: UUID, **query: str) -> str:
    path = reverse(name, args=[thread])
    return path + Place(thread, branch=branch).asking(**query)
