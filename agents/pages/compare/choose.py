"""What to compare: two branches, or two threads by the branches that tell of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import Http404, QueryDict
from django.urls import reverse

from agents.models import Run
from agents.pages.damage import open_each
from agents.pages.principal import MemberRequest
from checkpoints import gate
from checkpoints.access import UserPrincipal
from checkpoints.ids import short
from checkpoints.models import Branch, Thread

RECENT = 20  # threads that are suggested
MOST = 200  # branches of one thread that are


@dataclass(frozen=True)
class Wanted:
    """What the address names: branches, of which two can be compared."""

    branches: tuple[UUID, ...] = ()
    named: int = 0  # how many branches or threads it named

    @property
    def both(self) -> tuple[UUID, UUID] | None:
        return (
            (self.branches[0], self.branches[1])
            if self.named == 2 and len(self.branches) == 2
            else None
        )


@dataclass(frozen=True)
class Option:
    id: UUID
    said: str


@dataclass(frozen=True)
class Group:
    """A thread, and its branches."""

    title: str
    options: list[Option]


def address(*branches: UUID) -> str:
    """Of the page that asks, with these chosen."""
    query = QueryDict(mutable=True)
    query.setlist("branch", [str(branch) for branch in branches])
    return f"{reverse('agents:compare')}?ask=1&{query.urlencode()}"


def wanted(principal: UserPrincipal, query: QueryDict) -> Wanted:
    """Raises Http404 for a branch or a thread that is not there, or not theirs."""
    branches = _uuids(query.getlist("branch"))
    threads = _uuids(query.getlist("thread"))
    found = [*_known(principal, branches), *_shown(principal, threads)]
    named = len(branches) + len(threads)
    if query.get("ask"):
        named = 0  # asks again, with those as they are
    return Wanted(tuple(found[:2]), named)


def context(request: MemberRequest, found: Wanted) -> dict[str, Any]:
    """The page that asks: branches of the threads that are named, and recent threads."""
    principal = request.principal
    threads = _threads(principal, found.branches)
    groups = _groups(principal, threads)
    chosen = [str(branch) for branch in found.branches]
    return {
        "groups": groups,
        "a": chosen[0] if chosen else "",
        "b": chosen[1] if len(chosen) > 1 else "",
        "too_many": found.named > 2,
    }


def _known(principal: UserPrincipal, branches: list[UUID]) -> list[UUID]:
    there = set(
        Branch.objects.for_user(principal)
        .filter(pk__in=branches)
        .values_list("pk", flat=True)
    )
    if there != set(branches):
        raise Http404
    return branches


def _shown(principal: UserPrincipal, threads: list[UUID]) -> list[UUID]:
    """The branch that tells of each thread: a live run's, else the one that ran last."""
    if not threads:
        return []
    found: dict[UUID, UUID] = {}
    moved = (
        Branch.objects.for_user(principal)
        .filter(thread__in=threads)
        .order_by("updated_at", "pk")
        .values_list("thread_id", "pk")
    )
    found.update(moved)
    runs = list(
        Run.objects.for_user(principal)
        .filter(thread__in=threads)
        .order_by("created_at", "pk")
        .values_list("thread_id", "branch_id", "status")
    )
    found.update((thread, branch) for thread, branch, _ in runs)
    found.update((t, branch) for t, branch, status in runs if status in Run.LIVE)
    if not set(threads) <= found.keys():
        raise Http404
    return [found[thread] for thread in threads]


def _threads(principal: UserPrincipal, branches: Iterable[UUID]) -> list[Thread]:
    named = list(
        Thread.objects.for_user(principal)
        .filter(branches__in=list(branches))
        .distinct()
    )
    recent = Thread.objects.for_user(principal).by_activity()[:RECENT]
    known = {thread.pk for thread in named}
    return named + [thread for thread in recent if thread.pk not in known]


def _groups(principal: UserPrincipal, threads: list[Thread]) -> list[Group]:
    by_thread: dict[UUID, list[Branch]] = {thread.pk: [] for thread in threads}
    for branch in (
        Branch.objects.for_user(principal)
        .filter(thread__in=list(by_thread), head_step__gte=0)
        .order_by("created_at", "pk")
    ):
        by_thread[branch.thread_id].append(branch)
    branches = [each for of in by_thread.values() for each in of[-MOST:]]
    titles: Mapping[UUID, str | None] = {}
    names: Mapping[UUID, str | None] = {}
    if principal.may_read and threads:
        opened = gate.admit(
            principal, purpose="choose what to compare", threads=threads
        )
        titles = _by_id(threads, open_each(opened, threads, "title"))
        names = _by_id(branches, open_each(opened, branches, "name"))
    return [
        Group(
            titles.get(thread.pk) or f"Thread {short(thread.pk)}",
            [
                Option(branch.pk, f"{_name(branch, names)}, step {branch.head_step}")
                for branch in by_thread[thread.pk][-MOST:]
            ],
        )
        for thread in threads
    ]


def _name(branch: Branch, names: Mapping[UUID, str | None]) -> str:
    sealed = "main" if branch.parent_id is None else f"branch {short(branch.pk)}"
    return names.get(branch.pk) or sealed


def _by_id(rows: Iterable[Any], values: Iterable[Any]) -> dict[UUID, str | None]:
    return {row.pk: value for row, value in zip(rows, values, strict=True)}


def _uuids(texts: Iterable[str]) -> list[UUID]:
    found: list[UUID] = []
    for text in filter(None, texts):  # a choice that was left open is none
        try:
            found.append(UUID(text))
        except ValueError:
            raise Http404 from None
    return found
