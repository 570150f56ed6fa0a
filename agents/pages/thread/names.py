"""What the branches of a thread are called: of many, those that somebody asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import UUID

from agents.pages.damage import open_columns, open_each
from checkpoints.gate import Pass
from checkpoints.ids import short
from checkpoints.models import Branch, Thread

FEW = 24  # branches; of so many all names are opened together


class Names:
    """Names by branch, each opened once. For who may not read: a word and an id."""

    def __init__(self, branches: Iterable[Branch]) -> None:
        self._branches = {branch.pk: branch for branch in branches}
        self._opened: Pass | None = None
        self._known: dict[UUID, str] = {}

    def __getitem__(self, branch: UUID) -> str:
        return next(self.of([branch]))

    def of(self, branches: Iterable[UUID]) -> Iterator[str]:
        """Those of these, in order, with one query for all that are not open yet."""
        wanted = list(branches)
        self.look(wanted)
        return (self._known[branch] for branch in wanted)

    def all(self) -> Iterator[str]:
        return self.of(self._branches)

    def open_with(
        self, opened: Pass, thread: Thread, near: Iterable[UUID | None]
    ) -> str | None:
        """From now on names are opened: at once those `near`, or, of a few branches, all.

        Gives the thread's title, with one query for all their keys.
        """
        self._opened = opened
        self._known = {}
        is_few = len(self._branches) <= FEW
        wanted = self._branches if is_few else self._branches.keys() & set(near)
        first = [self._branches[pk] for pk in wanted]
        named = [(row, "name") for row in first]
        title, *names = open_columns(opened, [(thread, "title"), *named])
        self._know(first, names)
        return title  # type: ignore[no-any-return]  # it was sealed as a text

    def look(self, wanted: Iterable[UUID]) -> None:
        """Open those of these that are not open yet, so that nobody asks for each."""
        unknown = dict.fromkeys(pk for pk in wanted if pk not in self._known)
        rows = [self._branches[pk] for pk in unknown]
        if not rows:
            return
        if self._opened is None:
            self._know(rows, [None] * len(rows))
        else:
            self._know(rows, open_each(self._opened, rows, "name"))

    def _know(self, rows: Iterable[Branch], names: Iterable[str | None]) -> None:
        for row, name in zip(rows, names, strict=True):
            self._known[row.pk] = name or sealed_name(row)


def sealed_name(branch: Branch) -> str:
    return "main" if branch.parent_id is None else f"branch {short(branch.pk)}"
