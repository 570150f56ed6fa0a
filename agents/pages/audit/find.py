"""Which events the audit page shows: filters, and pages by position."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Self
from uuid import UUID

from django.http import QueryDict
from django.utils.dateparse import parse_date

from checkpoints.access import ScopedQuerySet, UserPrincipal
from checkpoints.models import AuditEvent
from checkpoints.pure.strict import shortened

PAGE = 50  # rows
LAST_POSITION = 2**63 - 1
# A row is given its position and its time at once, so that of two events so far apart the
# later one has the greater position. With that, a page is read from where its dates are,
# not from the newest event on. (Asked by itself: under row security PostgreSQL does not
# look up in an index what a subquery gives.)
APART = timedelta(minutes=1)

# The filter's choices; "" is any.
OUTCOMES = ("ok", "refused", "failed", "undelivered", "skipped", "broken")
CHANNELS = ("web", "api", "worker", "command", "admin")
OBJECTS = {
    "checkpoints.thread": "thread",
    "checkpoints.branch": "branch",
    "checkpoints.threadinput": "message",
    "checkpoints.entry": "memory entry",
    "checkpoints.entrylock": "lock of a board",
    "checkpoints.grant": "grant",
    "checkpoints.apitoken": "API token",
    "checkpoints.workspace": "workspace",
    "checkpoints.membership": "membership",
    "checkpoints.group": "group",
    "checkpoints.workspacekey": "workspace key",
    "checkpoints.retentionpolicy": "retention policy",
    "checkpoints.retentiontask": "retention task",
    "agents.agent": "agent",
    "agents.run": "run",
    "agents.approval": "approval",
    "agents.toolcall": "call",
    "agents.channel": "channel",
    "agents.policy": "policy",
    "agents.stickyrule": "sticky rule",
    "auth.user": "user",
    "auth.group": "permission group",
}
# Every action that is recorded, with its icon.
ACTIONS = {
    "login": "user",
    "logout": "leave",
    "refused": "x",
    "open": "eye",
    "start": "run",
    "message": "mail",
    "remark": "write",
    "remark_remove": "x",
    "memory_put": "memory",
    "memory_delete": "x",
    "board_lock": "lock",
    "board_unlock": "lock",
    "board_release": "lock",
    "ask": "ask",
    "revalidate": "retry",
    "approve": "check",
    "edit": "write",
    "reject": "x",
    "respond": "ask",
    "break_glass": "alert",
    "undo": "undo",
    "overdue": "clock",
    "expire": "clock",
    "escalate": "up",
    "claim": "user",
    "release": "leave",
    "assign": "user",
    "snooze": "clock",
    "unsnooze": "clock",
    "note": "write",
    "share": "eye",
    "deliver": "mail",
    "deliver_retry": "retry",
    "deliver_leave": "x",
    "channel_make": "mail",
    "channel_test": "mail",
    "channel_on": "mail",
    "channel_off": "mail",
    "begin": "run",
    "execute": "run",
    "fork": "fork",
    "retry": "retry",
    "take_over": "user",
    "cancel": "stop",
    "pause": "clock",
    "resume": "run",
    "prioritise": "run",
    "halt": "stop",
    "halt_lift": "run",
    "agent_on": "agent",
    "agent_off": "agent",
    "interrupt": "stop",
    "import": "import",
    "export": "out",
    "ask_archive": "out",
    "ask_restore": "undo",
    "ask_shred": "x",
    "ask_sweep": "x",
    "archive": "out",
    "restore": "undo",
    "prune": "x",
    "shred": "x",
    "pin": "pin",
    "unpin": "pin",
    "hold": "lock",
    "lift": "lock",
    "policy": "policy",
    "policy_remove": "policy",
    "policy_save": "policy",
    "auto_approve": "check",
    "auto_reject": "x",
    "stop_run": "stop",
    "sticky": "pin",
    "sticky_make": "pin",
    "sticky_revoke": "x",
    "key_rewrap": "lock",
    "key_rotate": "lock",
    "key_destroy": "lock",
    "revoke": "lock",
    "token_make": "lock",
    "token_revoke": "lock",
    "verify_audit": "audit",
    "admin_add": "admin",
    "admin_change": "admin",
    "admin_delete": "admin",
}


@dataclass(frozen=True)
class Filters:
    actor: str = ""  # a user's id, or "none": nobody's
    action: str = ""
    object: str = ""  # a model's label
    object_id: str = ""
    outcome: str = ""
    via: str = ""
    since: str = ""  # dates in UTC, both included
    until: str = ""

    wrong: tuple[str, ...] = ()  # what the address asked for and there is not: in words
    typed_id: str = ""  # the object's id, as it was typed

    @classmethod
    def of(cls, query: QueryDict) -> Self:
        """What an address says; what makes no sense there filters nothing, and says so."""
        given = {name: query.get(name, "").strip() for name in _READ}
        found = {name: read(given[name]) for name, (_, read) in _READ.items()}
        wrong = tuple(
            f"“{shortened(given[name])}” is no {words}."
            for name, (words, _) in _READ.items()
            if given[name] and not found[name]
        )
        return cls(**found, wrong=wrong, typed_id=given["object_id"])

    @property
    def chosen(self) -> dict[str, str]:
        return {name: value for name in _READ if (value := getattr(self, name))}

    def address(self, **more: Any) -> str:
        """The page's address with these filters, and `more`."""
        query = QueryDict(mutable=True)
        for name, value in {**self.chosen, **more}.items():
            if value:
                query[name] = str(value)
        return f"?{query.urlencode()}" if query else "?"

    def events(self, principal: UserPrincipal) -> ScopedQuerySet[AuditEvent]:
        """Those of the principal's workspace that the filters leave."""
        everything = events = AuditEvent.objects.for_user(principal)
        for column in ("action", "outcome", "via"):
            if value := getattr(self, column):
                events = events.filter(**{column: value})
        if self.actor:
            nobody = self.actor == "none"
            events = events.filter(actor=None if nobody else int(self.actor))
        if self.object or self.object_id:
            # The index begins with the type.
            events = events.filter(
                object_type__in=[self.object] if self.object else list(OBJECTS)
            )
        if self.object_id:
            events = events.filter(object_id=self.object_id)
        if self.since:
            begins = _midnight(self.since)
            events = events.filter(at__gte=begins)
            before = everything.filter(at__lt=begins - APART).order_by("-at").first()
            if before is not None:
                events = events.filter(position__gt=before.position)
        if self.until:
            ends = _midnight(self.until) + timedelta(days=1)
            events = events.filter(at__lt=ends)
            after = everything.filter(at__gte=ends + APART).order_by("at").first()
            if after is not None:
                events = events.filter(position__lt=after.position)
        return events


@dataclass(frozen=True)
class Page:
    """Events of one page, newest first, and positions of older and newer ones."""

    events: list[AuditEvent]
    earlier: int = 0
    later: int = 0
    opened: UUID | None = None  # the one whose details are shown


def page_of(principal: UserPrincipal, filters: Filters, query: QueryDict) -> Page:
    """The page before or after a position; the one with the event that is opened; or
    the newest."""
    events = filters.events(principal).select_related("actor", "link")
    newer, older = _position(query.get("after")), _position(query.get("before"))
    opened = _uuid(query.get("open", ""))
    if opened and not newer and not older:
        at = AuditEvent.objects.for_user(principal).filter(pk=opened).first()
        # Not where it begins a page: with what came just after it, for context.
        older = min(at.position + 5, LAST_POSITION) if at else 0
    if newer:
        ordered = events.filter(position__gt=newer).order_by("position")
    elif older:
        ordered = events.filter(position__lt=older).order_by("-position")
    else:
        ordered = events.order_by("-position")
    found = list(ordered[: PAGE + 1])
    more, shown = len(found) > PAGE, found[:PAGE]
    if newer:
        shown.reverse()
    return Page(
        shown,
        earlier=shown[-1].position if shown and (more or newer) else 0,
        later=shown[0].position if shown and (more if newer else older) else 0,
        opened=UUID(opened) if opened else None,
    )


def _one_of(known: Container[str]) -> Callable[[str], str]:
    return lambda value: value if value in known else ""


def _actor(text: str) -> str:
    is_one = text == "none" or (text.isascii() and text.isdigit() and len(text) < 10)
    return text if is_one else ""


def _uuid(text: str) -> str:
    try:
        return str(UUID(text.strip()))
    except ValueError:
        return ""


def _day(text: str) -> str:
    try:
        found = parse_date(text)
    except ValueError:
        return ""
    return found.isoformat() if found and 2000 <= found.year < 3000 else ""


def _midnight(day: str) -> datetime:
    return datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC)


def _position(text: str | None) -> int:
    if not text or not (text.isascii() and text.isdigit()) or len(text) > 18:
        return 0
    return int(text)


# Of each filter: what it should be, in words, and what reads it; "" for what it is not.
_READ: dict[str, tuple[str, Callable[[str], str]]] = {
    "actor": ("person's number", _actor),
    "action": ("action that is recorded", _one_of(ACTIONS)),
    "object": ("kind of object that is recorded", _one_of(OBJECTS)),
    "object_id": ("object's id, such as 01a20896-a229-707f-ad80-9346927727fe", _uuid),
    "outcome": ("outcome", _one_of(OUTCOMES)),
    "via": ("channel", _one_of(CHANNELS)),
    "since": ("day, such as 2026-11-30", _day),
    "until": ("day, such as 2026-11-30", _day),
}
