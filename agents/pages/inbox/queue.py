"""The list: a page of the queue with its opened titles, under headings, folded.

A list that is open stays as it is: when it asks again it names what it shows
(`shown`), and what has come since is counted, never put between. What others decided
meanwhile stays for a few seconds and says by whom.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from django.db.models import F

from agents.approvals.asked import title_of
from agents.models import Approval, ToolCall
from agents.pages import live
from agents.pages.damage import open_each
from agents.pages.inbox import find
from agents.pages.inbox.filters import TABS, Filters
from agents.pages.text import name_of
from checkpoints import gate
from checkpoints.access import UserPrincipal
from checkpoints.clock import now
from checkpoints.compiled import Compiled
from checkpoints.db import session
from checkpoints.gate import Pass

SEARCHED = 2_000  # titles that are opened for one search
FOLDED = 12  # rows of a page from which on those of the same tool are folded
PARTING = timedelta(seconds=5)  # for which a request that others decided is still there


@dataclass(frozen=True)
class Row:
    """One request of the list. `title` is None where it may not or cannot be read.

    `parting`: somebody else decided it, just now. `alike`: requests folded under it.
    """

    approval: Approval
    title: str | None
    current: bool = False
    parting: bool = False
    alike: list[Row] = field(default_factory=list)

    @property
    def agent(self) -> str:
        """Its name, which `_shown` brings."""
        name: str = self.approval.agent  # type: ignore[attr-defined]  # annotated
        return name

    @property
    def opens(self) -> bool:
        """Whether one of those under it is the one that is open."""
        return any(row.current for row in self.alike)

    @property
    def decider(self) -> str:
        by = self.approval.decided_by
        return name_of(by) if by else ""

    @property
    def claimer(self) -> str:
        by = self.approval.claimed_by
        return name_of(by) if by else ""


@dataclass(frozen=True)
class Group:
    """Requests under one heading; `count` is "12", or "12+" where the next page has more."""

    name: str
    rows: list[Row]
    count: str

    @property
    def late(self) -> bool:
        return self.name == find.OVERDUE


@dataclass(frozen=True)
class Page:
    """The requests of one page, before anything is opened but what a search opens."""

    filters: Filters
    approvals: list[Approval]
    end: int = 0  # number of its last request, where more follow
    new: int = 0  # that came since the list was drawn
    parting: frozenset[int] = frozenset()  # numbers
    opened: Pass | None = None
    cut: bool = False  # a search has not looked at everything

    @property
    def shown(self) -> str:
        """How the list names what it shows."""
        return ".".join(str(one.number) for one in self.approvals)

    def tag(self, current: Approval | None) -> str:
        """Changes when the list must be drawn anew."""
        return live.tag(
            [self.filters.here, current and current.pk, self.end, find.said(self.new)]
            + [
                f"{a.pk} {a.status} {a.revision} {a.priority} {a.claimed_by_id} {a.guard}"
                for a in self.approvals
            ]
        )


@dataclass(frozen=True)
class Queue:
    """What the list pane shows. Counts are as they are said: "7", "999+"."""

    filters: Filters
    groups: list[Group]
    tabs: dict[str, str]
    new: int
    older: str  # address of the page after this one; empty: it is the last
    shown: str
    end: int
    cut: bool
    parting: bool
    tag: str

    @property
    def show(self) -> str:
        return self.filters.show

    @property
    def said_new(self) -> str:
        return find.said(self.new)

    @property
    def waiting(self) -> str:
        return self.tabs["mine"]


BESIDE = ("thread", "call", "decided_by", "claimed_by")
# What a row shows: arguments may be long, and are no part of it.
COLUMNS = [
    "number",
    "workspace",
    "kind",
    "status",
    "risk",
    "revision",
    "guard",
    "alike",
    "asked_at",
    "due_at",
    "decided_at",
    "priority",
    "decided_by",
    "claimed_by",
    "thread__workspace",
    "call__workspace",
    "call__thread",
    "call__tool",
    "call__title",
    "decided_by__username",
    "decided_by__first_name",
    "decided_by__last_name",
    "claimed_by__username",
    "claimed_by__first_name",
    "claimed_by__last_name",
]


def page(principal: UserPrincipal, filters: Filters) -> Page:
    """A page of the queue, from the database as it is now."""
    if not filters.chosen and not filters.after:
        with session.joined_as_written():
            return _cut(Page(filters, _FIRST[filters.show].rows(principal)))
    rows = _rows(principal, filters)
    rows = find.beyond(rows, filters.show, find.place(principal, filters.after))
    if filters.text and principal.may_read:
        return _searched(principal, filters, rows)
    return _cut(Page(filters, list(rows[: find.PAGE + 1])))


def places(principal: UserPrincipal, show: str) -> list[Approval]:
    """The requests of a tab's first page, with where they stand and nothing else."""
    return _PLACES[show].rows(principal)


def again(
    principal: UserPrincipal, filters: Filters, *, shown: Sequence[int], end: int
) -> Page:
    """The page that shows these requests, as they are now.

    What was decided leaves, and further ones move up at its end. `end` is what `Page.end`
    was. Of a search, what came since is not counted: that would open it all once more.
    """
    rows = _rows(principal, filters)
    found = list(rows.filter(number__in=shown))
    parting = _parting(principal, set(shown) - {one.number for one in found})
    last = find.place(principal, end)
    if filters.text:
        new = 0
    else:
        fresh = rows.exclude(number__in=shown).order_by()
        fresh = find.up_to(fresh, last) if filters.show != "decided" else fresh.none()
        start = find.place(principal, filters.after)
        fresh = find.beyond(fresh, filters.show, start)
        new = fresh[: find.MOST + 1].count()
        if last is not None and len(found) <= find.PAGE:
            more = find.beyond(rows, filters.show, last)
            found += more[: find.PAGE + 1 - len(found)]
    page = Page(filters, found, new=new, parting=frozenset(p.number for p in parting))
    page = _cut(page) if last is not None and not filters.text else page
    if parting:
        both = sorted([*page.approvals, *parting], key=find.key)
        page = replace(page, approvals=both)
    return page


def _first(show: str, principal: UserPrincipal) -> find.Rows:
    rows = find.in_order(_shown(find.tab(principal, show)), show)
    return rows[: find.PAGE + 1]


def _places(show: str, principal: UserPrincipal) -> find.Rows:
    rows = find.in_order(find.tab(principal, show), show)
    return rows.only("number", *find.PLACE)[: find.PAGE + 1]


_FIRST = {show: Compiled(partial(_first, show)) for show in TABS}
_PLACES = {show: Compiled(partial(_places, show)) for show in TABS}


def _rows(principal: UserPrincipal, filters: Filters) -> find.Rows:
    rows = find.tab(principal, filters.show)
    rows = find.filtered(rows, principal, filters)
    return find.in_order(_shown(rows), filters.show)


def _shown(rows: find.Rows) -> find.Rows:
    """With what a row shows, and no more."""
    agent = F("run__agent_version__agent__name")
    return rows.annotate(agent=agent).select_related(*BESIDE).only(*COLUMNS)


def _cut(page: Page) -> Page:
    """To its length; its end is known where there was more."""
    if len(page.approvals) <= find.PAGE:
        return page
    kept = page.approvals[: find.PAGE]
    return replace(page, approvals=kept, end=kept[-1].number)


def _parting(principal: UserPrincipal, missing: set[int]) -> list[Approval]:
    """Those of a list that somebody else has decided a moment ago."""
    if not missing:
        return []
    return list(
        _shown(Approval.objects.for_user(principal))
        .filter(number__in=missing, decided_at__gt=now() - PARTING)
        .exclude(status=Approval.Status.PENDING)
        .exclude(decided_by=principal.user_id)
    )


def _searched(principal: UserPrincipal, filters: Filters, rows: find.Rows) -> Page:
    """Those whose title holds the text, of the first that the other filters leave."""
    wanted = filters.text.casefold()
    candidates = list(rows[: SEARCHED + 1])
    cut = len(candidates) > SEARCHED
    candidates = candidates[:SEARCHED]
    opened = _admit(principal, candidates, "search inbox")
    found = []
    if opened:
        titles = _titles(principal, opened, candidates)
        for one, title in zip(candidates, titles, strict=True):
            named = wanted in (str(one).casefold(), str(one.number))
            if named or wanted in (title or "").casefold():
                found.append(one)
    return _cut(Page(filters, found[: find.PAGE + 1], opened=opened, cut=cut))


def _titles(
    principal: UserPrincipal, opened: Pass, approvals: Sequence[Approval]
) -> list[str | None]:
    """Of what would run now; None for what does not open."""
    titles = open_each(opened, [one.call for one in approvals], "title")
    # An edit makes a revision, and so does a guard, but for what it found at first.
    moved = [
        one.call_id
        for one in approvals
        if one.revision > 1 or one.guard not in ("", Approval.Guard.SAME)
    ]
    if not moved:
        return titles
    calls = ToolCall.objects.for_user(principal).filter(pk__in=moved)
    put = list(calls.exclude(effective=None).only("workspace", "thread", "effective"))
    opened_put = open_each(opened, put, "effective")
    effective = dict(zip([call.pk for call in put], opened_put, strict=True))
    return [
        None if title is None else title_of(one, title, effective.get(one.call_id))
        for one, title in zip(approvals, titles, strict=True)
    ]


def _admit(
    principal: UserPrincipal, approvals: Sequence[Approval], purpose: str
) -> Pass | None:
    threads = {one.thread_id: one.thread for one in approvals}.values()
    if not principal.may_read or not threads:
        return None
    return gate.admit(principal, purpose=purpose, threads=threads)


def queue(
    principal: UserPrincipal, page: Page, *, current: Approval | None = None
) -> Queue:
    """The list of a page. Opening its titles is recorded."""
    filters = page.filters
    opened = page.opened or _admit(principal, page.approvals, "inbox")
    titles: list[str | None] = [None] * len(page.approvals)
    if opened:
        titles = _titles(principal, opened, page.approvals)
    rows = [
        Row(
            approval,
            title,
            current=current is not None and approval.pk == current.pk,
            parting=approval.number in page.parting,
        )
        for approval, title in zip(page.approvals, titles, strict=True)
    ]
    at, tomorrow = now(), find.end_of_today()
    counts = find.counts(principal)
    return Queue(
        filters=filters,
        groups=_groups(page, rows, at, tomorrow),
        tabs={name: find.said(count) for name, count in counts.items()},
        new=page.new,
        older=filters.address(after=page.end) if page.end else "",
        shown=page.shown,
        end=page.end,
        cut=page.cut,
        parting=bool(page.parting),
        tag=page.tag(current),
    )


def _groups(
    page: Page, rows: list[Row], at: datetime, tomorrow: datetime
) -> list[Group]:
    if page.filters.show == "decided":
        return [Group("Decided", rows, "")] if rows else []
    headed: dict[str, list[Row]] = {}
    for row in rows:
        name = find.heading(row.approval, now=at, tomorrow=tomorrow)
        headed.setdefault(name, []).append(row)
    by_tool = len(rows) > FOLDED and not page.filters.tool and not page.filters.text
    groups = []
    for name, of_name in headed.items():
        count = str(sum(not row.parting for row in of_name))
        if page.end and name == list(headed)[-1]:
            count += "+"  # its others are on the next page
        groups.append(Group(name, _folded(of_name, by_tool=by_tool), count))
    return groups


def _folded(rows: list[Row], *, by_tool: bool) -> list[Row]:
    """Equal requests under the first of them; in a long list also those of one tool.

    Each keeps its own decision: folding only makes the list shorter.
    """
    first: dict[object, Row] = {}
    kept = []
    for row in rows:
        same = _same(row, by_tool=by_tool)
        head = first.get(same) if same is not None and not row.parting else None
        if head is not None:
            head.alike.append(row)
            continue
        kept.append(row)
        if same is not None and not row.parting:
            first[same] = row
    return kept


def _same(row: Row, *, by_tool: bool) -> object:
    """What a request has in common with those it is folded with; None: it stands alone."""
    approval = row.approval
    if by_tool and approval.kind == Approval.Kind.APPROVAL:
        return row.agent, approval.call.tool, approval.risk
    return bytes(approval.alike) if approval.alike else None
