"""What happened to a request: from the audit log, and what people said with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from agents.models import Approval, ApprovalNote, Decision
from agents.pages.inbox.arguments import as_json, plain
from agents.pages.text import name_of as name_shown
from checkpoints.access import UserPrincipal
from checkpoints.compiled import Compiled
from checkpoints.gate import Pass
from checkpoints.models import AuditEvent

MOST = 100  # events of one request that its page shows

WORDS = {
    Decision.Verdict.APPROVE: ("Approved", "check"),
    Decision.Verdict.EDIT: ("Approved with edits", "write"),
    Decision.Verdict.REJECT: ("Rejected", "x"),
    Decision.Verdict.RESPOND: ("Answered", "send"),
}

# About a call of which nobody knew what came of it.
IN_DOUBT_WORDS = {
    **WORDS,
    Decision.Verdict.APPROVE: ("Told to run it again", "retry"),
    Decision.Verdict.REJECT: ("Left in doubt", "ask"),
    Decision.Verdict.RESPOND: ("Found to have happened", "check"),
}

# What the log calls it → icon and words; decisions and notes bring their own.
EVENTS = {
    "open": ("eye", "Opened"),
    "deliver": ("mail", "Delivered"),
    "claim": ("user", "Claimed"),
    "release": ("user", "Let go of"),
    "assign": ("user", "Assigned"),
    "snooze": ("clock", "Snoozed"),
    "unsnooze": ("clock", "Brought back"),
    "escalate": ("high", "Escalated"),
    "undo": ("undo", "Decision taken back"),
    "expire": ("clock", "Expired"),
    "break_glass": ("alert", "Rules overridden"),
    "revalidate": ("retry", "Checked again"),
    "guard": ("retry", "Checked again"),
    "sticky": ("policy", "Allowed by a remembered decision"),
    "remember": ("policy", "Remembered"),
    "execute": ("run", "The call was made"),
    "supersede": ("undo", "Superseded"),
    "cancel": ("stop", "Cancelled"),
}
NAMES = ("username", "first_name", "last_name")  # columns of a person
_SAID = {"approve", "edit", "reject", "respond", "note"}  # told by their own rows


@dataclass(frozen=True)
class Said:
    """A decision with its opened content: reason, response or edited arguments."""

    decision: Decision
    in_doubt: bool = False
    reason: str = field(default="", repr=False)
    response: Any = field(default=None, repr=False)

    @property
    def words(self) -> str:
        return self._look[0]

    @property
    def icon(self) -> str:
        return self._look[1]

    @property
    def _look(self) -> tuple[str, str]:
        words = IN_DOUBT_WORDS if self.in_doubt else WORDS
        return words[Decision.Verdict(self.decision.verdict)]

    @property
    def who(self) -> str:
        return name_of(self.decision.by)

    @property
    def answer(self) -> str:
        if self.response is None:
            return ""
        return plain(self.response) or as_json(self.response)


@dataclass(frozen=True)
class Entry:
    """One line of the activity. `text` is foreign; `words` are ours."""

    at: datetime
    icon: str
    words: str
    text: str = field(default="", repr=False)
    asked: int = 0  # the revision, where people were asked once more


def said_of(decision: Decision, content: dict[str, Any] | None) -> Said:
    content = content or {}
    return Said(
        decision,
        in_doubt=bool(content.get("in_doubt")),
        reason=content.get("reason", ""),
        response=content.get("response"),
    )


def events(
    principal: UserPrincipal, approval: Approval, place: str
) -> list[AuditEvent]:
    """What the log has of this request, oldest first. `place`: as `opened_as` gives it."""
    newest = _EVENTS.rows(
        principal, approval=approval.pk, thread=approval.thread_id, place=place
    )
    return newest[::-1]


def _events(
    principal: UserPrincipal, *, approval: UUID, thread: UUID, place: str
) -> QuerySet[AuditEvent]:
    of_request = Q(object_type="agents.approval", object_id=approval)
    opening = Q(
        object_type="checkpoints.thread",
        object_id=thread,
        action="open",
        purpose="approval",
        detail__steps=place,
    )
    return (
        AuditEvent.objects.for_user(principal)
        .filter(of_request | opening)
        .select_related("actor")
        .only("at", "action", "detail", *(f"actor__{name}" for name in NAMES))
        .order_by("-position")[:MOST]
    )


_EVENTS = Compiled(_events)


def opened_as(approval: Approval) -> str:
    """What an opening of the request's page says in the log that it opened."""
    return f"{approval.checkpoint.step}, call {approval.call.ordinal + 1}"


def activity(
    approval: Approval,
    logged: Iterable[AuditEvent],
    said: Sequence[Said],
    notes: Sequence[tuple[ApprovalNote, str]],
    *,
    asker: str,
) -> list[Entry]:
    """The lines, oldest first."""
    found = [
        *_logged(logged, asker, approval.checkpoint.step),
        *(
            Entry(
                one.decision.at,
                one.icon,
                f"{one.words} by {one.who}",
                one.reason or one.answer,
            )
            for one in said
        ),
        *(
            Entry(note.at, "write", f"Note by {name_of(note.by)}", text)
            for note, text in notes
        ),
    ]
    call = approval.call
    told = any(event.action == "execute" for event in logged)
    if call.started_at and not told:
        again = f", attempt {call.attempts}" if call.attempts > 1 else ""
        found.append(Entry(call.started_at, "run", f"The call was made{again}"))
    return sorted(found, key=lambda entry: entry.at)


def _logged(logged: Iterable[AuditEvent], asker: str, step: int) -> Iterable[Entry]:
    openers: set[int | None] = set()
    for event in logged:
        match event.action:
            case action if action in _SAID:
                continue
            case "ask":
                revision = int(event.detail.get("revision") or 1)
                if revision > 1:
                    yield Entry(event.at, "retry", "Asked again", asked=revision)
                else:
                    yield Entry(event.at, "ask", f"Asked by {asker}, step {step}")
            case "open":  # the first time that each of them did
                if event.actor_id not in openers and event.actor:
                    openers.add(event.actor_id)
                    yield Entry(event.at, "eye", f"Opened by {name_of(event.actor)}")
            case action:
                icon, words = EVENTS.get(
                    action, ("audit", action.replace("_", " ").capitalize())
                )
                by = f" by {name_of(event.actor)}" if event.actor else ""
                yield Entry(event.at, icon, words + by)


def name_of(user: User | None) -> str:
    if user is None:
        return "nobody"
    return name_shown(user)


_NOTES = Compiled(
    lambda by, approval: (
        ApprovalNote.objects.for_user(by)
        .filter(approval=approval)
        .select_related("by")
        .order_by("at")[:MOST]
    )
)


def open_notes(
    principal: UserPrincipal, approval: Approval, opened: Pass | None
) -> list[tuple[ApprovalNote, str]]:
    """What people wrote without deciding; without a pass, that they did."""
    notes = _NOTES.rows(principal, approval=approval.pk)
    if opened is None:
        return [(note, "") for note in notes]
    texts = opened.open_all(notes, "text") if notes else []
    return list(zip(notes, texts, strict=True))
