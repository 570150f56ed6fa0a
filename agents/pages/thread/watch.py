"""Blame on the thread's page: which steps changed a path, and the path that is watched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from urllib.parse import quote

from django.utils.html import format_html
from django.utils.safestring import SafeString

from agents.models import ToolCall
from agents.pages.chips import Chip
from agents.pages.thread.diff import DiffView, Entry, in_line
from agents.pages.thread.line import about
from agents.pages.thread.place import Place
from agents.pages.thread.steps import Step
from agents.pages.thread.subject import Subject
from checkpoints.log.hydrate import History
from checkpoints.pure.blame import LastChanged, blames
from checkpoints.pure.changes import ABSENT, look
from checkpoints.pure.ops import Op
from checkpoints.pure.pointer import split

BLAMED = 10  # entries of a diff
EARLIER = 3  # steps that are named beside a path; its history has all
DEEP = 2  # parts of a path that is always named a step; deeper ones if written apart


@dataclass(frozen=True)
class At:
    """A step that changed a path, and the page there with the path watched."""

    step: int
    place: Place


@dataclass(frozen=True)
class Watch:
    """The watched path at the open step."""

    path: str
    value: str | None  # None: there is nothing
    chips: Sequence[Chip]
    here: bool  # the open step changed it
    last: At | None  # the step that left what is there: this one, or an earlier
    asked: At | None  # where that is a call's result: the step that asked for the call
    before: At | None  # changes that the keys [ and ] lead to
    after: At | None
    steps: frozenset[int]  # that changed it
    history: str
    stop: Place


@dataclass(frozen=True)
class Blame:
    """Beside a path that a step changed: others that did."""

    earlier: Sequence[At]  # the last first
    later: At | None
    history: str


class Blamer:
    """Finds the steps that changed paths of one branch; leads to them on its page."""

    def __init__(self, subject: Subject, place: Place, at: Step) -> None:
        assert subject.history is not None  # nobody gets here who may not read
        self._history: History = subject.history
        self._subject = subject
        # Steps of ancestors are looked at as steps of this branch.
        self._place = replace(place, branch=subject.branch.pk)
        self._at = at

    def _records(self, until: int | None = None) -> Iterable[tuple[int, list[Op]]]:
        return self._history.operations(until)

    def at(self, step: int, path: str) -> At:
        checkpoint, branch = self._history.place(step)
        own = branch == self._subject.branch.pk
        return At(step, self._place.at(checkpoint, own=own).watching(path))

    def history(self, path: str) -> str:
        return about(
            "agents:path_history",
            self._subject.thread.pk,
            self._subject.branch.pk,
            path=path,
            at=str(self._at.step),
        )

    def watch(self, calls: Iterable[ToolCall]) -> Watch:
        """The watched path; `calls` are the branch's."""
        path = self._place.path
        [steps] = blames(self._records(), [path])
        here = self._at.step
        earlier = [step for step in steps if step < here]
        later = [step for step in steps if step > here]
        value = look(self._history.state_at(here), split(path))
        chips = self._subject.chips
        before = self.at(earlier[-1], path) if earlier else None
        last = self.at(here, path) if here in steps else before
        return Watch(
            path=path,
            value=None if value is ABSENT else in_line(value, chips),
            chips=() if value is ABSENT else chips.within(value),
            here=here in steps,
            last=last,
            asked=self._asked(last, calls) if last else None,
            before=before,
            after=self.at(later[0], path) if later else None,
            steps=frozenset(steps),
            history=self.history(path),
            stop=self._place.at(
                self._at.id, own=self._at.branch_id == self._subject.branch.pk
            ).watching(""),
        )

    def _asked(self, last: At, calls: Iterable[ToolCall]) -> At | None:
        made, _ = self._history.place(last.step)
        placed = self._subject.placed
        asked = [
            placed[call.reply_id]
            for call in calls
            if call.result_checkpoint_id == made
            and placed.get(call.reply_id, last.step) < last.step
        ]
        return self.at(max(asked), self._place.path) if asked else None

    def beside(self, view: DiffView) -> list[tuple[Entry, Blame]]:
        """Entries with their blame. Messages change with every step: theirs is left out."""
        wanted = [e.path for e in view.entries if e.path not in {"/", "/messages"}]
        wanted = wanted[:BLAMED]
        found: dict[str, list[int]] = {}
        if wanted:
            found = dict(zip(wanted, blames(self._records(), wanted), strict=True))
        return [
            (entry, self._blame(entry.path, found.get(entry.path, [])))
            for entry in view.entries
        ]

    def _blame(self, path: str, steps: Sequence[int]) -> Blame:
        here = self._at.step
        earlier = [step for step in reversed(steps) if step < here][:EARLIER]
        later = next((step for step in steps if step > here), None)
        return Blame(
            earlier=[self.at(step, path) for step in earlier],
            later=None if later is None else self.at(later, path),
            history="" if path == "/" else self.history(path),
        )

    # Beside each path of a state

    @cached_property
    def _last(self) -> LastChanged:
        return LastChanged(self._records(self._at.step + 1))

    def link(self, pointer: str) -> SafeString:
        """The step that set what is there, for a tree of the open step's state."""
        step, apart = self._last.at(pointer)
        if not apart and pointer.count("/") > DEEP:
            return SafeString()
        return format_html(
            ' <a class="at" href="{}{}"><span class="vh">set at </span>step {}</a>',
            self._start(step),
            quote(pointer, safe="/"),
            step,
        )

    def _start(self, step: int) -> str:
        """The address of a step up to the path: made once, as there are many paths."""
        if step not in self._starts:
            place = self.at(step, "").place
            self._starts[step] = f"{place.page}{'&' if place.query else '?'}path="
        return self._starts[step]

    @cached_property
    def _starts(self) -> dict[int, str]:
        return {}
