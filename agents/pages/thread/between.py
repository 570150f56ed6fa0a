"""The two states that a tab compares: of a step and the one before it, or another chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import Http404

from agents.pages.damage import DAMAGE
from agents.pages.thread.place import Place
from agents.pages.thread.steps import Step
from agents.pages.thread.subject import Subject
from agents.pages.thread.versions import shown
from checkpoints.log.hydrate import History, read
from checkpoints.pure.codec import State


@dataclass(frozen=True)
class Between:
    """`step` and `label`, which is a branch's name, say what it is compared with."""

    before: State
    after: State
    step: int
    label: str = ""
    chosen: bool = False
    note: str = ""

    @property
    def context(self) -> dict[str, Any]:
        """What `_diff_head.html` says of it."""
        return {
            "base_step": self.step,
            "base_label": self.label,
            "chosen_base": self.chosen,
            "note": self.note,
        }


def between(subject: Subject, history: History, place: Place, at: Step) -> Between:
    """As the place asks; the step before, where nothing was chosen or it cannot be opened."""
    note = ""
    try:
        base = _base(subject, history, place.base)
    except DAMAGE as damage:  # of another branch: this one can be looked at
        base, note = None, f"The step to compare with cannot be opened. {damage}"
    if base is None:
        old, new = neighbours(history, at.step)
        return Between(old, new, at.step - 1, note=note)
    step, label, before = base
    both = shown(subject.agent, before, history.state_at(at.step))
    old, new = both.states
    return Between(old, new, step, label, chosen=True, note=both.note)


def neighbours(history: History, step: int) -> tuple[State, State]:
    """The states before and after a step."""
    if step == 0:
        return {}, history.state_at(0)
    before, after = history.states(step - 1, step)
    return before, after


def _base(
    subject: Subject, history: History, base: UUID | None
) -> tuple[int, str, State] | None:
    """The step that somebody chose to compare with, on any branch of the thread."""
    if base is None:
        return None
    for step in history.near:
        if history.place(step)[0] == base:
            return step, "", history.state_at(step)
    found = (
        subject.thread.checkpoints.filter(pk=base)
        .values_list("branch_id", "step")
        .first()
    )
    if found is None or subject.opened is None:
        raise Http404
    if found[1] < len(history.records) and history.place(found[1])[0] == base:
        return found[1], "", history.state_at(found[1])
    branch = next(b for b in subject.branches if b.pk == found[0])
    other = read(subject.opened, branch, to_step=found[1])
    return found[1], subject.names[branch.pk], other.state_at(found[1])
