"""What the page of a board shows: a part of it, the locks, and an entry with its history."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import Http404
from django.urls import reverse
from django.utils.http import urlencode

from agents.models import Run
from agents.pages import live
from agents.pages.damage import open_each
from agents.pages.memory.page import rows_of
from agents.tools.board import board_of_branch
from checkpoints import entries, entry_locks, gate
from checkpoints.access import Board, UserPrincipal
from checkpoints.entries import Scope
from checkpoints.entry_locks import Held
from checkpoints.errors import NotPermitted
from checkpoints.ids import short
from checkpoints.models import Branch, Entry, EntryLock, Thread
from checkpoints.models.entries import EntryQuerySet

ELSEWHERE = (
    "The agent of this branch works on the board of the thread that called it, which is"
    " not shared with you."
)


@dataclass(frozen=True)
class Shown:
    """Where the page stands: a branch, its board, and the part of it that is listed."""

    branch: Branch
    board: Board

    @property
    def thread(self) -> Thread:
        return self.branch.thread

    @property
    def query(self) -> str:
        line = {"line": str(self.board.line)} if self.board.line else {}
        return "?" + urlencode({"branch": str(self.branch.pk), **line})

    @property
    def address(self) -> str:
        return reverse("agents:board", args=[self.thread.pk]) + self.query

    def of(self, entry: Entry) -> str:
        return (
            reverse("agents:board_entry", args=[self.thread.pk, entry.pk]) + self.query
        )


@dataclass(frozen=True)
class LockRow:
    """A lock that is held, and who has it."""

    held: Held
    who: str
    source: str  # the address of the holder's thread; "" where it is out of sight


def shown(by: UserPrincipal, pk: UUID, branch: str, line: str) -> Shown:
    """The board of a branch of this thread; of its first, where none is named.

    Of a sub-agent's, that is the one of the branch where the work began, on the thread
    that it is of. Raises Http404 for what is not there, or not for this person, and
    NotPermitted where they see the branch, but not the thread where the work began.
    """
    branches = Branch.objects.for_user(by).filter(thread=pk).select_related("thread")
    if branch:
        branches = branches.filter(pk=_uuid(branch))
    found = branches.order_by("created_at").first()
    if found is None:
        raise Http404
    board = Board(board_of_branch(found.pk), _uuid(line) if line else None)
    if board.of != found.pk:
        above = Branch.objects.for_user(by).filter(pk=board.of)
        found = above.select_related("thread").first()
    if found is None:
        raise NotPermitted(ELSEWHERE)
    return Shown(found, board)


def context_of(
    by: UserPrincipal, at: Shown, entry: Entry | None = None, **more: Any
) -> dict[str, Any]:
    """The part, the locks, and of an `entry` its newest version and history. Opening is
    recorded."""
    context: dict[str, Any] = {"at": at, "thread": at.thread, "entry": entry}
    if not by.may_read:
        return {**context, "title": f"Thread {short(at.thread.pk)}", **more}
    listed = entries.listed(by, at.board)
    opened = gate.admit(by, purpose="board", threads=[at.thread])
    context |= {
        "title": open_each(opened, [at.thread], "title")[0]
        or f"Thread {short(at.thread.pk)}",
        "parts": _parts(by, at),
        "rows": rows_of(by, listed.found, at.of),
        "total": listed.total,
        "is_whole": listed.is_whole,
        "locks": _locks(by, at),
        "tag": tag_of(by, at),
    }
    if entry is not None:
        versions = entries.history(by, entry)
        context |= {
            "newest": versions[0],
            "versions": rows_of(by, versions, at.of),
            "entry_address": at.of(entry),
        }
    return context | more


def tag_of(by: UserPrincipal, at: Shown) -> str:
    """Changes with each write to the part and each lock that comes, goes or ends."""
    board = at.board
    rows = _on_board(by, at).filter(line=board.line).order_by("pk")
    locks = EntryLock.objects.for_user(by).filter(owner=board.of).held()
    return live.tag(
        [
            *rows.values_list("pk", "version"),
            *locks.order_by("pk").values_list("pk", "fence", "until"),
        ]
    )


def entry_of(by: UserPrincipal, at: Shown, pk: UUID) -> Entry:
    """An entry of this board. Raises Http404."""
    found = _on_board(by, at).filter(pk=pk, version__gt=0).first()
    if found is None:
        raise Http404
    return found


def _on_board(by: UserPrincipal, at: Shown) -> EntryQuerySet:
    return entries.seen(by).filter(scope=Scope.BOARD, owner=at.board.of)


def _parts(by: UserPrincipal, at: Shown) -> list[tuple[str, str, bool]]:
    """What is shared, and what each agent keeps for itself: address, name, whether it is
    listed now."""
    kept = _on_board(by, at).exclude(line=None).order_by("line")
    lines = [line for line in kept.values_list("line", flat=True).distinct() if line]
    runs = Run.objects.for_user(by).filter(branch__in=lines).order_by("created_at")
    agents = dict(runs.values_list("branch", "agent_version__agent__name"))
    parts: list[tuple[UUID | None, str]] = [(None, "Shared")]
    for line in lines:
        parts.append((line, f"{agents.get(line, 'Branch')} {short(line)}, private"))
    return [
        (
            Shown(at.branch, Board(at.board.of, line)).address,
            said,
            line == at.board.line,
        )
        for line, said in parts
    ]


def _locks(by: UserPrincipal, at: Shown) -> list[LockRow]:
    held = entry_locks.held(by, at.board)
    runs = _runs(by, [one.lock.run for one in held])
    return [
        LockRow(
            one,
            *runs.get(one.lock.run, (entry_locks.who(one.lock), "")),
        )
        for one in held
    ]


def _runs(
    by: UserPrincipal, ids: Iterable[UUID | None]
) -> dict[UUID | None, tuple[str, str]]:
    """Of runs that this person may see: agent and run, and the address of their branch."""
    found = Run.objects.for_user(by).filter(pk__in=[pk for pk in ids if pk])
    rows = found.values_list("pk", "thread", "branch", "agent_version__agent__name")
    return {
        pk: (
            f"{agent}, run {short(pk)}",
            f"{reverse('agents:thread', args=[thread])}?branch={branch}",
        )
        for pk, thread, branch, agent in rows
    }


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Http404 from None
