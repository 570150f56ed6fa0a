"""The Files tab: what the agent's files are at a step, and what became of them since another.

The file that is open is the path that is watched (`path=/files/notes~1plan.md`): so the page
also says which steps changed it, and leads to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.safestring import SafeString

from agents.errors import FileRefused
from agents.pages.chips import Chip
from agents.pages.damage import GONE
from agents.pages.thread.between import between
from agents.pages.thread.blob import why
from agents.pages.thread.diff import Entry, entries
from agents.pages.thread.memory import Marks
from agents.pages.thread.place import Place
from agents.pages.thread.steps import Step
from agents.pages.thread.subject import Subject
from agents.pages.thread.watch import Blamer
from agents.pure.files import (
    CHANNEL,
    DEEPEST,
    LARGEST,
    MOST,
    File,
    files_of,
    held,
    normal,
    ref_of,
)
from checkpoints.blobs import Contents
from checkpoints.log.hydrate import History
from checkpoints.pure.changes import ABSENT
from checkpoints.pure.codec import State
from checkpoints.pure.compare import compare
from checkpoints.pure.pointer import pointer, split

MANY = 60  # files: of more, folders are closed where nothing changed
LINES = 200  # of a text; the others are folded
MOST_TEXT = 200_000  # characters of a text on the page; the download has all
MOST_DIFF = 1_000  # lines of a difference


@dataclass(frozen=True)
class Row:
    """A file of the list."""

    file: File
    name: str
    note: str  # "new", "changed", "gone"; else empty
    place: Place  # the page with it open
    at: SafeString  # the step that left it so


@dataclass
class Folder:
    """What lies in a folder; of the whole tree, the name is empty."""

    name: str
    folders: dict[str, Folder] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    count: int = 0  # of files that are there, here and below
    size: int = 0  # bytes
    changed: bool = False
    is_open: bool = True

    @property
    def below(self) -> Iterable[Folder]:
        return self.folders.values()


@dataclass(frozen=True)
class Opened:
    """The file that is open: as it is at the step, or was before, where it is gone."""

    file: File | None  # None: there is none at this path
    path: str
    note: str
    entries: Sequence[Entry] = ()  # what changed in it
    more_diff: int = 0  # lines of that which are not shown
    start: str = ""  # the text's first lines
    rest: str = ""
    more_lines: int = 0  # that `rest` has
    cut: int = 0  # characters that are not on the page
    is_text: bool = False
    chip: Chip | None = None  # where it is kept as a blob
    trouble: str = ""  # why what it holds cannot be shown
    download: str = ""


def has_files(subject: Subject, at: Step | None) -> bool:
    """Whether there are files at the step, as far as one may read."""
    history = subject.history
    if history is None or at is None:
        return False
    return bool(history.state_at(at.step).get(CHANNEL))


def files_view(
    subject: Subject, history: History, place: Place, at: Step
) -> dict[str, Any]:
    """What the tab shows."""
    found = between(subject, history, place, at)
    old, new = files_of(found.before.get(CHANNEL)), files_of(found.after.get(CHANNEL))
    # Everything is new at the first step; saying so everywhere would say nothing.
    changes = (
        compare(_channel(found.before), _channel(found.after))
        if at.step or found.chosen
        else ()
    )
    marks = Marks(changes)
    blamer = None if found.note else Blamer(subject, place, at)
    path = _open_path(place.path)
    shown: dict[str, Any] = {
        **found.context,
        "split": place.split,
        "listing": place.watching(""),
    }
    if path is not None:
        return {**shown, "open": _opened(subject, at, path, old, new, marks)}
    return {**shown, **_tree(place, old, new, marks, blamer)}


def _channel(state: State) -> State:
    return {CHANNEL: state[CHANNEL]} if CHANNEL in state else {}


def _open_path(watched: str) -> str | None:
    """The file that the watched path names."""
    parts = split(watched)
    return parts[1] if len(parts) > 1 and parts[0] == CHANNEL else None


def _note(path: str, old: dict[str, File], new: dict[str, File], marks: Marks) -> str:
    if path not in new:
        return "gone" if path in old else ""
    return marks.note(pointer(CHANNEL, path))


# The list


def _tree(
    place: Place,
    old: dict[str, File],
    new: dict[str, File],
    marks: Marks,
    blamer: Blamer | None,
) -> dict[str, Any]:
    noted = {path: _note(path, old, new, marks) for path in (*new, *old)}
    # Those that changed before all others, where not all are shown.
    wanted = sorted(noted, key=lambda path: (not noted[path], path))[:MOST]
    whole = Folder("")
    for path in sorted(wanted):
        file, note = new.get(path) or old[path], noted[path]
        at = pointer(CHANNEL, path)
        linked = blamer.link(at) if blamer and note != "gone" else SafeString()
        # A state from elsewhere may hold a longer path than a tool would write.
        *folders, name = path.split("/", DEEPEST)
        row = Row(file, name, note, place.watching(at), linked)
        _add(whole, folders, row, is_open=len(wanted) <= MANY)
    return {
        "tree": whole,
        "count": len(new),
        "size": sum(file.size for file in new.values()),
        "more": len(noted) - len(wanted),
        "changed": _counts(noted.values()),
    }


def _add(whole: Folder, folders: Iterable[str], row: Row, *, is_open: bool) -> None:
    here = whole
    for name in (None, *folders):
        if name is not None:
            here = here.folders.setdefault(name, Folder(name, is_open=is_open))
        if row.note != "gone":
            here.count += 1
            here.size += row.file.size
        if row.note:
            here.changed = here.is_open = True
    here.rows.append(row)


def _counts(notes: Iterable[str]) -> str:
    """ "1 new, 2 changed"; empty where all are as they were."""
    said = list(notes)
    kinds = ("new", "changed", "gone")
    return ", ".join(f"{n} {kind}" for kind in kinds if (n := said.count(kind)))


# One file


def _opened(
    subject: Subject,
    at: Step,
    path: str,
    old: dict[str, File],
    new: dict[str, File],
    marks: Marks,
) -> Opened:
    note = _note(path, old, new, marks)
    file = new.get(path) or (old.get(path) if note == "gone" else None)
    opened = Opened(file, path, note)
    if file is None:
        return opened
    ref = ref_of(file.value)
    chip = subject.chips.of(ref) if ref is not None else None
    opened = replace(opened, chip=chip)
    if path in new and (chip is not None or ref is None):
        opened = replace(opened, download=_download(subject, at, path))
    if ref is not None and (chip is None or chip.size > LARGEST):
        trouble = "" if chip else "What this stood for is not there."
        return replace(opened, trouble=trouble)
    assert subject.opened is not None  # nobody gets here who may not read
    contents = Contents(subject.opened, subject.thread.pk)
    try:
        content = held(contents.restore({path: file.value})[path])
        if note == "changed":
            was, became = (
                _comparable(path, old, contents),
                _comparable(path, new, contents),
            )
            found = entries(pointer(CHANNEL, path), was, became, subject.chips)
            opened = replace(opened, **_cut(found))
    except GONE as gone:
        return replace(opened, trouble=why(gone))
    return replace(opened, **_text(content)) if isinstance(content, str) else opened


def _comparable(path: str, files: dict[str, File], contents: Contents) -> Any:
    """A file's text, also of one that is kept as a blob; of one that is too long to be
    compared on a page, what stands for it."""
    if path not in files:
        return ABSENT
    file = files[path]
    if file.size > MOST_TEXT:
        return file.value
    content = held(contents.restore({path: file.value})[path])
    return content if isinstance(content, str) else file.value


def _cut(found: Sequence[Entry]) -> dict[str, Any]:
    """Of each entry, as many lines as a page shows."""
    shown = [replace(entry, lines=entry.lines[:MOST_DIFF]) for entry in found]
    more = sum(max(0, len(entry.lines) - MOST_DIFF) for entry in found)
    return {"entries": shown, "more_diff": more}


def _text(content: str) -> dict[str, Any]:
    shown = content[:MOST_TEXT]
    lines = shown.split("\n")
    return {
        "is_text": True,
        "start": "\n".join(lines[:LINES]),
        "rest": "\n".join(lines[LINES:]),
        "more_lines": len(lines[LINES:]),
        "cut": len(content) - len(shown),
    }


def _download(subject: Subject, at: Step, path: str) -> str:
    """The address of the file itself, where its path is one that our tools make."""
    try:
        if normal(path) != path:
            return ""
    except FileRefused:
        return ""
    address = reverse("agents:file", args=[subject.thread.pk, at.id])
    return f"{address}?{urlencode({'path': path})}"
