"""The steps of a branch that a filter leaves, and the form that says which.

Kind, outcome and tool are answered by SQL, in two statements however long the branch is:
the numbers of the steps that match, and the rows of those that are listed. Labels are
sealed: their words are looked for in what the page has opened for its state, so no more is
opened for it, and by nobody who may not read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.pages.thread.filter import EVERY, OUTCOMES, StepFilter, kind_word
from agents.pages.thread.place import Place
from agents.pages.thread.settled import Settled
from agents.pages.thread.steps import (
    WINDOW,
    Step,
    StepList,
    filtered_list,
    start_of,
)
from agents.pages.thread.structure import Bare, bare, of_line
from agents.pages.thread.subject import Subject


@dataclass(frozen=True)
class Matches:
    steps: Sequence[int]  # all that match, in order
    start: int  # of the listed ones among them
    rows: Sequence[Bare]  # the listed ones

    @property
    def earlier(self) -> int | None:
        """The step that the list can be moved to, so that it shows those before."""
        return self.steps[max(0, self.start - WINDOW // 2)] if self.start else None

    @property
    def later(self) -> int | None:
        end, last = self.start + WINDOW, len(self.steps) - 1
        return self.steps[min(last, end + WINDOW // 2)] if end <= last else None


def find(subject: Subject, wanted: StepFilter, *, current: int) -> Matches:
    """Those of the shown branch; listed are so many around the open step."""
    rows = subject.thread.checkpoints.filter(
        of_line(subject.branches, subject.branch),
        wanted.condition,
        step__lt=len(subject.steps),  # there may be a step since these were read
    ).order_by("step")
    steps: list[int] = list(rows.values_list("step", flat=True))
    if wanted.label and subject.history is not None:
        words, label = wanted.label.casefold(), subject.history.label
        steps = [step for step in steps if words in label(step).casefold()]
    start = start_of(bisect_left(steps, current), len(steps))
    listed = steps[start : start + WINDOW]
    return Matches(steps, start, bare(rows.filter(step__in=listed)) if listed else [])


def list_of(matches: Matches, subject: Subject, tip: Place, current: int) -> StepList:
    """`tip`: the page at the branch's tip, with the filter."""
    history = subject.history

    def label(row: Step) -> str:
        return row.label if history is None else history.label(row.step)

    return filtered_list(
        matches.rows,
        place=tip,
        branch=subject.branch.pk,
        branch_name=subject.names[subject.branch.pk],
        parent_name=subject.parent_name,
        current=current,
        label=label,
        earlier=matches.earlier,
        later=matches.later,
        matches=len(matches.steps),
        where=subject.where,
    )


@dataclass(frozen=True)
class FilterForm:
    """`here` is the page as it stands, with no filter; `unread`: labels do not open."""

    filter: StepFilter
    here: Place
    tip: Place  # as `here`, with the branch named
    kinds: Sequence[tuple[str, str]]
    statuses: Sequence[tuple[str, str]]
    tools: Sequence[tuple[str, str]]
    unread: bool
    left_out: bool  # a label was asked for all the same

    @property
    def chips(self) -> list[tuple[str, Place]]:
        """Each filter in words, and the page without it."""
        return [
            (self.filter.said(name), self.here.listing(self.filter.without(name)))
            for name in self.filter.chosen
        ]

    @property
    def said(self) -> str:
        return ", ".join(words for words, _ in self.chips)


def filter_form(
    wanted: StepFilter, sums: Settled, *, here: Place, tip: Place, unread: bool
) -> FilterForm:
    """`wanted` is what the address says; of `sums` the kinds and tools are offered."""
    kept = wanted.without("label") if unread else wanted
    return FilterForm(
        filter=kept,
        here=here.listing(EVERY),
        tip=tip.listing(EVERY),
        kinds=_menu(
            "Any kind", {kind: kind_word(kind) for kind in sums.kinds}, kept.kind
        ),
        statuses=_menu("Any outcome", OUTCOMES, kept.status),
        tools=_menu("Any tool", {tool: tool for tool in sums.tools}, kept.tool),
        unread=unread,
        left_out=bool(unread and wanted.label),
    )


def _menu(
    anything: str, known: Mapping[str, str], chosen: str
) -> Sequence[tuple[str, str]]:
    """With what was chosen, though nothing here is so."""
    gone = () if not chosen or chosen in known else ((chosen, chosen),)
    return ("", anything), *known.items(), *gone
