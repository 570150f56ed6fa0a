"""How a thread and its branches stand, in a word and a colour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from uuid import UUID

from agents.models import Run
from agents.pages import live
from agents.pages.thread.map import BranchMap, Line, colours_of
from agents.pages.thread.names import FEW
from agents.pages.thread.place import Place
from agents.pages.thread.relatives import ALONE, Relatives
from agents.pages.thread.subject import Subject, failed_step
from checkpoints.models import Branch

MENU = FEW  # branches
WORDS = {
    "": "no run",
    "ready": "queued",
    "running": "running",
    "waiting": "waiting",
    "succeeded": "done",
    "failed": "failed",
    "cancelled": "cancelled",
}


@dataclass(frozen=True)
class Status:
    colour: str
    icon: str
    words: str
    href: str = ""  # of the thread that it waits for


@dataclass(frozen=True)
class MenuItem:
    name: str
    colour: str
    said: str
    place: Place
    current: bool
    starred: bool = False


def thread_status(
    subject: Subject, near: Relatives = ALONE, *, asked: bool = False, lock: str = ""
) -> Status:
    """Of the branch that is shown: its newest run, or why there is none.

    A run that waits for an agent and a person is `asked`: the person can do something.
    `lock`: where to look who has the lock that it waits for.
    """
    run, agents = subject.run, "" if asked else near.waited_for
    if run is None:
        if subject.thread.origin == "import":
            return Status("slate", "import", "imported")
        return Status("slate", "fork", "not run yet")
    if run.is_live and run.cancel_requested:
        return Status("slate", "stop", "being cancelled")
    if run.needs_owner:
        return Status("amber", "user", "needs an owner")
    match run.status:
        case Run.Status.READY if run.is_paused or run.is_held:
            return Status("amber", "clock", "paused")
        case Run.Status.READY:
            return Status("slate", "queue", "queued")
        case Run.Status.RUNNING:
            return Status("indigo", "run", "running")
        case Run.Status.WAITING if run.is_held:
            return Status("amber", "clock", "paused, waits for a person")
        case Run.Status.WAITING if agents:
            return Status("slate", "clock", f"waiting for {agents}", near.address)
        case Run.Status.WAITING if lock and not asked:
            return Status("slate", "lock", "waiting for a lock", lock)
        case Run.Status.WAITING:
            return Status("amber", "clock", "waiting for a person")
        case Run.Status.FAILED:
            failed = failed_step(subject.steps)
            where = run.failed_step if run.failed_step is not None else None
            where = where if where is not None else failed.step if failed else None
            said = "failed" if where is None else f"failed at step {where}"
            return Status("red", "alert", said)
        case Run.Status.CANCELLED:
            return Status("slate", "x", "cancelled")
    return Status("jade", "check", "done")


def listed(lines: Sequence[Line], drawn: Iterable[UUID]) -> list[Line]:
    """All branches, or, of more than MENU, those that the map draws and the newest; in
    order of creation."""
    wanted = set(drawn)
    for line in reversed(lines):
        if len(wanted) >= MENU:
            break
        wanted.add(line.id)
    return [line for line in lines if line.id in wanted]


def branch_menu(
    subject: Subject, drawn: BranchMap, tip: Place, starred: Set[UUID] = frozenset()
) -> list[MenuItem]:
    """Those `listed`, first those that the reader starred; colours as on the map."""
    lines = subject.lines
    shown = listed(lines, (lane.line.id for lane in drawn.lanes))
    colours = colours_of(lines)
    items = [
        MenuItem(
            name=name,
            colour=colours[line.id],
            said=f"{WORDS[line.status]}, {line.about}",
            place=tip.tip(line.id),
            current=line.id == tip.branch,
            starred=line.id in starred,
        )
        for line, name in zip(
            shown, subject.names.of(line.id for line in shown), strict=True
        )
    ]
    return sorted(items, key=lambda item: not item.starred)


def siblings(
    lines: Sequence[Line], shown: UUID | None, step: int
) -> list[tuple[str, UUID]]:
    """The branches above and below that have this step, too: by the key that leads there."""
    there = [line for line in lines if line.head_step >= step or line.id == shown]
    at = next(n for n, line in enumerate(there) if line.id == shown)
    around = (("ArrowUp", there[max(0, at - 1) : at]), ("ArrowDown", there[at + 1 :]))
    return [(key, found[0].id) for key, found in around if found]


def version(branches: Sequence[Branch], runs: Sequence[Run]) -> str:
    """Changes with every step, branch and run: what a poll compares."""
    heads = sorted((str(branch.pk), branch.head_step) for branch in branches)
    states = sorted(
        (
            str(run.pk),
            run.shown_status,
            run.cancel_requested,
            run.needs_owner,
            run.is_held,
        )
        for run in runs
    )
    return live.tag([*heads, *states])
