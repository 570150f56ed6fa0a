"""Whose entries of the store are meant, and whether they are the principal's to use.

A person's own and the workspace's are named by their scope alone: which person and which
workspace follows from the principal. A board is named by what it belongs to, and a run
has the one that its principal carries (`RunPrincipal.board`), while whom it acts for sees
it; a person has those of the branches that they see.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q

from checkpoints.access import Board, Reason, RunPrincipal, UserPrincipal
from checkpoints.errors import InvalidEntry, NotPermitted
from checkpoints.models import Branch, Entry, Grant, Group, Thread

Scope = Entry.Scope
By = UserPrincipal | RunPrincipal
Whose = str | Board  # “user”, “workspace”, or a board

NOBODY = (
    "This run acts for a program, which is no person and has no memory of its own. There"
    " is the workspace's."
)
ANOTHERS = "This is the board of other work, or what another agent keeps to itself."
UNSEEN = "Whom this run acts for does not see the thread whose board it would work on."


@dataclass(frozen=True)
class Owner:
    """Columns of an entry that say whose it is."""

    scope: str
    user_id: int | None = None
    owner: UUID | None = None
    line: UUID | None = None

    @property
    def columns(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def hashed(self) -> list[str]:
        """What the owner is in the hashes of names."""
        if self.scope == Scope.BOARD:
            return [str(self.scope), str(self.owner), str(self.line or "")]
        return [str(self.scope), str(self.user_id or "")]


def owner_of(by: By, whose: Whose) -> Owner:
    """Raises InvalidEntry for what is no scope, NotPermitted for what is not theirs."""
    if isinstance(whose, Board):
        if not _has(by, whose):
            raise NotPermitted(ANOTHERS)
        if isinstance(by, RunPrincipal) and not _sees(by, whose.of):
            raise NotPermitted(UNSEEN)
        return Owner(Scope.BOARD, owner=whose.of, line=whose.line)
    if whose == Scope.WORKSPACE:
        return Owner(Scope.WORKSPACE)
    if whose != Scope.USER:
        raise InvalidEntry("Memory is one's own (“user”), or the workspace's.")
    if isinstance(by, UserPrincipal):
        return Owner(Scope.USER, user_id=by.user_id)
    grants = Grant.objects.for_run(by).filter(pk=by.grant_id, revoked_at=None)
    granted = grants.values_list("user_id", flat=True).first()
    if granted is None:
        raise NotPermitted(NOBODY)
    return Owner(Scope.USER, user_id=granted)


def owner_as_stored(entry: Entry) -> Owner:
    return Owner(entry.scope, entry.user_id, entry.owner, entry.line)


def whose(entry: Entry) -> Whose:
    """As `owner_of` takes it."""
    if entry.scope != Scope.BOARD:
        return entry.scope
    assert entry.owner is not None  # a constraint says so
    return Board(entry.owner, entry.line)


def _has(by: By, board: Board) -> bool:
    if isinstance(by, UserPrincipal):
        wanted = {board.of, board.line or board.of}
        seen = Branch.objects.for_user(by).filter(pk__in=wanted)
        return seen.count() == len(wanted)
    return by.board is not None and board in (by.board, by.board.public)


def _sees(by: RunPrincipal, branch: UUID) -> bool:
    """Whether it is the run's own branch, or of a thread that whom it acts for sees.

    A sub-agent works on its caller's board; its thread may have been shared since with
    people who do not see the caller's.
    """
    if by.board is not None and branch == by.board.line:
        return True
    grants = Grant.objects.for_run(by).filter(pk=by.grant_id, revoked_at=None)
    person = grants.exclude(user=None).values("user")
    groups = Group.objects.unscoped(Reason.GATE).filter(
        members__user__in=person, members__workspace=by.workspace_id
    )
    seen = (
        Q(thread=by.thread_id)
        | Q(thread__visibility=Thread.Visibility.WORKSPACE)
        | Q(thread__owner__in=person)
        | Q(
            thread__visibility=Thread.Visibility.GROUP,
            thread__group__in=groups.values("pk"),
        )
    )
    branches = Branch.objects.unscoped(Reason.GATE).filter(workspace=by.workspace_id)
    return branches.filter(seen, pk=branch).exists()
