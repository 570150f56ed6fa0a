"""Notes, labels, stars and verdicts as pages show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import Q

from agents.pages.damage import open_columns
from agents.pages.thread.steps import Step
from agents.pages.thread.subject import Subject
from checkpoints.access import Role, UserPrincipal
from checkpoints.compiled import Compiled
from checkpoints.gate import Pass
from checkpoints.models import Branch, Remark, Thread
from checkpoints.models.remarks import RemarkQuerySet

_Kind = Remark.Kind

UNREADABLE = "This cannot be opened."


@dataclass(frozen=True)
class Said:
    """One remark, opened; of one that was taken back, who did that and when."""

    remark: Remark
    text: str = field(repr=False)
    may_remove: bool

    @property
    def is_good(self) -> bool:
        return self.remark.kind == _Kind.GOOD


@dataclass(frozen=True)
class Topic:
    """What is said about one thing: the open step, the shown branch, or the thread."""

    name: str  # as the form calls it: "step", "branch", "thread"
    title: str = field(repr=False)
    starred: bool
    verdict: Said | None
    labels: Sequence[Said]
    notes: Sequence[Said]


@dataclass(frozen=True)
class Beside:
    """What is said beside a thread's page. Of a sealed thread: nothing, not even how much."""

    topics: Sequence[Topic] = ()
    noted: frozenset[UUID] = frozenset()  # checkpoints that somebody spoke of
    starred: frozenset[UUID] = frozenset()  # those with a star of one's own
    starred_branches: frozenset[UUID] = frozenset()
    may_write: bool = False
    sealed: bool = False


def beside(subject: Subject, at: Step | None) -> Beside:
    """What a thread's page shows at a step: one statement, and one for keys where there is
    something to open."""
    if subject.opened is None:
        return Beside(sealed=True)
    by = subject.principal
    rows = _OF_THREAD.rows(by, thread=subject.thread.pk)
    branch = subject.branch
    of = {
        "step": [row for row in rows if at and row.checkpoint_id == at.id],
        "branch": [row for row in rows if row.about == "branch"],
        "thread": [row for row in rows if row.about == "thread"],
    }
    of["branch"] = [row for row in of["branch"] if row.branch_id == branch.pk]
    titles = {"step": f"Step {at.step}"} if at else {}
    titles |= {"branch": f"Branch {subject.names[branch.pk]}", "thread": "Thread"}
    said = opened(subject.opened, by, [row for found in of.values() for row in found])
    standing = [row for row in rows if row.removed_at is None and row.checkpoint_id]
    return Beside(
        topics=[_topic(name, title, of[name], said) for name, title in titles.items()],
        noted=_steps(row for row in standing if row.kind != _Kind.STAR),
        starred=_steps(row for row in standing if row.kind == _Kind.STAR),
        starred_branches=frozenset(
            row.branch_id
            for row in rows
            if row.about == "branch" and row.kind == _Kind.STAR and row.branch_id
        ),
        may_write=by.may_operate,
    )


def opened(opened: Pass, by: UserPrincipal, rows: Sequence[Remark]) -> dict[UUID, Said]:
    """The rows with their words; what does not open says so."""
    texts = open_columns(opened, [(row, "text") for row in rows])
    return {row.pk: said(by, row, text) for row, text in zip(rows, texts, strict=True)}


def said(by: UserPrincipal, row: Remark, text: str | None) -> Said:
    """One whose text is `text`; None for one that has none, or does not open."""
    mine = by.role is Role.ADMIN or row.by_id == by.user_id
    return Said(
        row,
        text=text or (UNREADABLE if row.text else ""),
        may_remove=mine and row.removed_at is None,
    )


def verdicts_of(
    by: UserPrincipal, branches: Iterable[Branch], opened: Pass | None
) -> Mapping[UUID, Said]:
    """The verdict that counts on each of these branches, where there is one.

    Empty for who may not read.
    """
    if opened is None:
        return {}
    found = (
        Remark.objects.for_user(by)
        .verdicts()
        .filter(branch__in=[branch.pk for branch in branches], checkpoint=None)
        .select_related("by")
    )
    newest = {row.branch_id: row for row in found}
    texts = open_columns(opened, [(row, "text") for row in newest.values()])
    return {
        row.branch_id: said(by, row, text)
        for row, text in zip(newest.values(), texts, strict=True)
        if row.branch_id is not None
    }


def of_threads(
    by: UserPrincipal, threads: Iterable[Thread]
) -> dict[UUID, list[Remark]]:
    """Labels, verdicts and one's own stars of these threads themselves; not opened."""
    found: dict[UUID, list[Remark]] = {}
    rows = Remark.objects.for_user(by).filter(
        thread__in=[thread.pk for thread in threads], branch=None
    )
    for row in _current(rows, by).exclude(kind=_Kind.NOTE):
        found.setdefault(row.thread_id, []).append(row)
    return found


def thread_topic(
    rows: Sequence[Remark], texts: Mapping[UUID, str | None], by: UserPrincipal
) -> Topic:
    """The rows of `of_threads` of one thread, with their texts by id."""
    return _topic(
        "thread", "", rows, {row.pk: said(by, row, texts.get(row.pk)) for row in rows}
    )


def _current(rows: RemarkQuerySet, by: UserPrincipal) -> RemarkQuerySet:
    """What stands, and notes that were taken back. Stars of others are nobody's business."""
    return (
        rows.filter(Q(removed_at=None) | Q(kind=_Kind.NOTE))
        .exclude(~Q(by=by.user_id), kind=_Kind.STAR)
        .select_related("by", "removed_by")
        .order_by("created_at", "pk")
    )


_OF_THREAD = Compiled(lambda by, thread: _current(Thread(pk=thread).remarks.all(), by))


def _topic(
    name: str, title: str, rows: Sequence[Remark], said: Mapping[UUID, Said]
) -> Topic:
    verdicts = [row for row in rows if row.is_verdict]
    return Topic(
        name=name,
        title=title,
        starred=any(row.kind == _Kind.STAR for row in rows),
        verdict=said[verdicts[-1].pk] if verdicts else None,
        labels=[said[row.pk] for row in rows if row.kind == _Kind.LABEL],
        notes=[said[row.pk] for row in rows if row.kind == _Kind.NOTE],
    )


def _steps(rows: Iterable[Remark]) -> frozenset[UUID]:
    return frozenset(row.checkpoint_id for row in rows if row.checkpoint_id)
