"""The panel of working memory: what the agent keeps in mind at a step, and what is new in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from django.utils.safestring import SafeString

from agents.pages.chips import Chip, Chips
from agents.pages.thread.diff import in_line
from agents.pages.tree import Blame
from agents.pure.memory import CHANNELS, Entry, memory_of
from checkpoints.pure.codec import State
from checkpoints.pure.compare import Change
from checkpoints.pure.refs import is_ref

MOST = 50  # entries of a channel: the last of more; the tree below has all
_TITLES = {
    "goal": "Goal",
    "plan": "Plan",
    "facts": "Facts",
    "decisions": "Decisions",
    "todos": "To do",
    "vars": "Notes",
    "summary": "Summary",
}


@dataclass(frozen=True)
class Line:
    """One thing that is remembered."""

    name: str
    text: str
    more: str
    status: str  # of a planned step; else empty
    note: str  # what this step did to it: "new", "changed", "gone"; else empty
    chips: Sequence[Chip]
    at: SafeString  # the step that set it


@dataclass(frozen=True)
class Part:
    """One channel. `earlier`: how many of its first entries are left out."""

    channel: str
    title: str
    lines: Sequence[Line]
    earlier: int
    total: int
    done: int  # of a plan


class Marks:
    """What a step did to which paths: asked for each entry, so made once."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self._kinds: dict[str, str] = {}
        self._above: set[str] = set()  # paths that something changed below
        self._removed: set[str] = set()
        for change in changes:
            if change.kind == "removed":
                self._removed.add(change.path)
            else:
                self._kinds[change.path] = change.kind
                self._above.update(_above(change.path))

    def note(self, path: str) -> str:
        """What the step did to the entry, by the differences at its path, above and below."""
        for each in (path, *_above(path)):
            if (kind := self._kinds.get(each)) is not None:
                return "new" if kind == "added" else "changed"
        return "changed" if path in self._above else ""

    def is_gone(self, path: str) -> bool:
        return any(each in self._removed for each in (path, *_above(path)))


def _above(path: str) -> Iterator[str]:
    """The paths that this one lies below."""
    while path:
        path = path.rpartition("/")[0]
        yield path


def panel(
    before: State,
    after: State,
    changes: Sequence[Change],
    chips: Chips,
    blame: Blame | None,
) -> list[Part]:
    """What the state holds in its channels of working memory; nothing where it has none.

    `changes` lead from the state before the step to the one after it.
    """
    memory, earlier = memory_of(after), memory_of(before)
    marks = Marks(changes)
    parts = []
    for channel in CHANNELS:
        entries = _entries(getattr(memory, channel))
        shown = entries[-MOST:]
        lines = [_line(entry, marks, chips, blame) for entry in shown]
        were = _entries(getattr(earlier, channel))
        gone = [entry for entry in were if marks.is_gone(entry.path)]
        lines += [_gone(entry, chips) for entry in gone[:MOST]]
        if lines:
            parts.append(
                Part(
                    channel,
                    _TITLES[channel],
                    lines,
                    len(entries) - len(shown),
                    len(entries),
                    sum(entry.status in ("done", "skipped") for entry in entries),
                )
            )
    return parts


def _entries(found: Entry | Iterable[Entry] | None) -> list[Entry]:
    if found is None:
        return []
    return [found] if isinstance(found, Entry) else list(found)


def _line(entry: Entry, marks: Marks, chips: Chips, blame: Blame | None) -> Line:
    return Line(
        name=entry.name,
        text=_text(entry, chips),
        more=entry.more,
        status=entry.status,
        note=marks.note(entry.path),
        chips=chips.within(entry.value),
        at=blame.link(entry.path) if blame else SafeString(),
    )


def _gone(entry: Entry, chips: Chips) -> Line:
    return Line(
        entry.name, _text(entry, chips), entry.more, "", "gone", (), SafeString()
    )


def _text(entry: Entry, chips: Chips) -> str:
    if isinstance(entry.value, str):
        return entry.value
    return "" if is_ref(entry.value) else in_line(entry.value, chips)
