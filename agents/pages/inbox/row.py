"""The lines of the list of requests.

Written here and not as a template: a page has fifty of them, and a template takes ten
times as many calls for the same line (docs/decisions/0022).
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from agents.models import Approval
from agents.pages.inbox.queue import Group, Row
from agents.pages.marks import icon
from agents.pages.signs import chip, initials, risk, status
from agents.pages.text import ago, visible

NOTHING = SafeString()
_ANY = UUID(int=0)


@dataclass(frozen=True)
class Around:
    """What the lines of a list have in common.

    `page`: address of a request's page, with `_ANY` in the place of its id. `here`: the
    query that keeps the tab and the filters. `picks`: whether its reader may select.
    """

    page: str
    here: str
    picks: bool

    @classmethod
    def of(cls, here: str, *, picks: bool) -> Around:
        return cls(reverse("agents:approval", args=[_ANY]), here, picks)

    def address(self, approval: Approval) -> str:
        return self.page.replace(str(_ANY), str(approval.pk)) + self.here


def lines(group: Group, here: str, picks: bool) -> SafeString:
    """The requests under one heading: `<li>` elements."""
    around = Around.of(here, picks=picks)
    return _joined(group.rows, around, late=group.late)


def _joined(rows: list[Row], around: Around, *, late: bool) -> SafeString:
    drawn = ((_line(row, around, late=late),) for row in rows)
    return format_html_join("", "{}", drawn)


def _line(row: Row, around: Around, *, late: bool) -> SafeString:
    """A request as an `<li>`, and another for those that are folded under it."""
    approval = row.approval
    picked = around.picks and approval.is_pending
    lone = row.parting or not picked
    return format_html(
        '<li class="item{}{}" id="apr-{}-row"{}>{}'
        '<a class="t" href="{}">{}</a>{}'
        '<span class="s">{}<span class="faint clip">{}</span>'
        '<span class="grow"></span>{}</span></li>\n{}',
        " lone" if lone else "",
        " parting" if row.parting else "",
        approval.pk,
        _CURRENT if row.current else "",
        _box(approval) if picked else "",
        around.address(approval),
        _title(row.title),
        _when(row, late=late),
        format_html("<code>{}</code>", tool) if (tool := approval.call.tool) else "",
        row.agent,
        _signs(row),
        _alike(row, around, late=late) if row.alike else "",
    )


_CURRENT = SafeString(' aria-current="true"')


def _box(approval: Approval) -> SafeString:
    return format_html(
        '<input type="checkbox" name="id" value="{}" form="batch" aria-label="Select {}">',
        approval.pk,
        approval,
    )


def _title(title: str | None) -> SafeString:
    if title is None:
        return format_html('<span class="row">{}Sealed</span>', icon("lock", "s"))
    return format_html("<span hx-ignore>{}</span>", visible(title))


def _when(row: Row, *, late: bool) -> SafeString:
    """When it was decided, or is due, or was asked."""
    approval = row.approval
    if row.parting or not approval.is_pending:
        colour, before, when = "muted", NOTHING, approval.decided_at
    elif approval.due_at and late:
        colour, before, when = "bad", _DUE, approval.due_at
    else:
        colour, before, when = "faint", NOTHING, approval.due_at or approval.asked_at
    return format_html(
        '<span class="when num {}">{}{}</span>', colour, before, ago(when)
    )


_DUE = SafeString('<span class="vh">due </span>')


def _signs(row: Row) -> SafeString:
    """What came of it; or of what kind it is, how risky, and who looks after it."""
    approval = row.approval
    if row.parting:
        rejected = approval.status == Approval.Status.REJECTED
        return format_html(
            '<span class="row" role="status">{}{}</span>',
            icon("x" if rejected else "check", "s"),
            row.decider or approval.get_status_display(),
        )
    if not approval.is_pending:
        by = row.decider
        named = format_html('<span class="faint clip">{}</span>', by) if by else ""
        return format_html("{}{}", named, status(approval.status))
    claimed = _claimed(row.claimer) if approval.claimed_by_id else NOTHING
    return format_html("{}{}", claimed, _kind(approval))


def _claimed(by: str) -> SafeString:
    return format_html(
        '<span class="av" title="{0} has claimed it" aria-hidden="true">{1}</span>'
        '<span class="vh">{0} has claimed it</span>',
        by,
        initials(by),
    )


def _kind(approval: Approval) -> SafeString:
    guard = approval.Guard
    match approval.kind:
        case Approval.Kind.QUESTION:
            return chip("indigo", "ask", "question")
        case Approval.Kind.UNKNOWN:
            return chip("amber", "alert", "outcome unknown")
    if approval.guard in (guard.CHANGED, guard.INVALID, guard.FAILED):
        colour = "red" if approval.guard == guard.INVALID else "amber"
        found = chip(colour, "alert", approval.get_guard_display())
        return format_html("{}{}", found, risk(approval.risk))
    return risk(approval.risk)


def _alike(row: Row, around: Around, *, late: bool) -> SafeString:
    return format_html(
        '<li class="alike" id="apr-{0}-alike"><details id="apr-{0}-more"{1}>'
        "<summary>+{2} similar</summary>"
        '<ul aria-label="Similar to {3}">{4}</ul></details></li>\n',
        row.approval.pk,
        SafeString(" open") if row.opens else "",
        len(row.alike),
        row.approval,
        _joined(row.alike, around, late=late),
    )
