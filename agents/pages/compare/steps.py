"""What the states after two steps differ in: of any branches, of any threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.http import Http404
from django.urls import reverse

from agents.models import Run
from agents.pages.chips import Chips
from agents.pages.damage import DAMAGE, open_each
from agents.pages.principal import MemberRequest
from agents.pages.thread.diff import DiffView, diff_view
from agents.pages.thread.place import Place
from agents.pages.thread.versions import shown
from agents.pure.noise import quiet
from agents.tools import Agent, registry
from checkpoints import gate
from checkpoints.access import UserPrincipal
from checkpoints.gate import Pass
from checkpoints.ids import short
from checkpoints.log.hydrate import state
from checkpoints.models import Checkpoint
from checkpoints.pure.compare import compare


@dataclass(frozen=True)
class Step:
    """One of the two: its row, and what it is called by who may read it."""

    letter: str
    row: Checkpoint
    title: str = field(default="", repr=False)
    name: str = field(default="", repr=False)

    @property
    def page(self) -> str:
        return Place(self.row.thread_id, None, self.row.pk).page


def address(a: UUID, b: UUID, *, split: bool = False) -> str:
    page = reverse("agents:diff", args=[a, b])
    return f"{page}?split=1" if split else page


def context(request: MemberRequest, a: UUID, b: UUID) -> dict[str, Any]:
    """What the page shows. Opening is recorded. Raises Http404 for what is not theirs."""
    principal = request.principal
    rows = {
        row.pk: row
        for row in Checkpoint.objects.for_user(principal)
        .filter(pk__in={a, b})
        .select_related("branch", "thread")
    }
    if not {a, b} <= rows.keys():
        raise Http404
    first, second = rows[a], rows[b]
    split = request.GET.get("split") == "1"
    found: dict[str, Any] = {
        "split": split,
        "other_way": address(a, b, split=not split),
        "swapped": address(b, a, split=split),
        "branches": reverse(
            "agents:compare_branches", args=[first.branch_id, second.branch_id]
        )
        + f"?a_to={first.step}&b_to={second.step}",
    }
    steps = [_sealed("A", first), _sealed("B", second)]
    if not principal.may_read:
        return {**found, "steps": steps, "sealed": True}
    opened = gate.admit(
        principal,
        purpose="diff",
        threads={
            first.thread_id: first.thread,
            second.thread_id: second.thread,
        }.values(),
        steps=f"{first.step} and {second.step}",
    )
    titles = open_each(opened, [first.thread, second.thread], "title")
    names = open_each(opened, [first.branch, second.branch], "name")
    found["steps"] = [
        Step(step.letter, step.row, title or step.title, name or step.name)
        for step, title, name in zip(steps, titles, names, strict=True)
    ]
    try:
        view, note = _view(opened, first, second, _agent(principal, second))
    except DAMAGE as damage:
        return {**found, "sealed": True, "damage": damage}
    return {**found, "diff": view, "note": note}


def _view(
    opened: Pass, a: Checkpoint, b: Checkpoint, agent: Agent | None
) -> tuple[DiffView, str]:
    states = (state(opened, row.branch, step=row.step) for row in (a, b))
    view = shown(agent, *states)
    before, after = map(quiet, view.states)
    return diff_view(compare(before, after), Chips(a.thread, b.thread)), view.note


def _agent(principal: UserPrincipal, row: Checkpoint) -> Agent | None:
    """The agent that took the step, where its code is here."""
    name = (
        Run.objects.for_user(principal)
        .filter(pk=row.run)
        .values_list("agent_version__agent__name", flat=True)
        .first()
        if row.run
        else None
    )
    return registry.agent(name) if name and name in registry else None


def _sealed(letter: str, row: Checkpoint) -> Step:
    branch = row.branch
    name = "main" if branch.parent_id is None else f"branch {short(branch.pk)}"
    return Step(letter, row, f"Thread {short(row.thread_id)}", name)
