"""Events as the page shows them: who, what, and where that leads."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.urls import reverse

from agents.models import Approval, Run
from agents.pages.audit.find import ACTIONS, OBJECTS, Page
from agents.pages.text import name_of
from checkpoints import audit_chain
from checkpoints.access import UserPrincipal
from checkpoints.ids import short
from checkpoints.models import AuditEvent, AuditLink, Branch, Thread

SHOWN = 60  # characters of a value in the list; its details have all of it
FEW = 3  # values of a list
UUID_LIKE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
HASH_LIKE = re.compile(r"[0-9a-f]{64}")
NOBODY = {
    "api": "a program",
    "worker": "a worker",
    "command": "a command",
    "admin": "the admin",
}


@dataclass(frozen=True)
class Row:
    event: AuditEvent
    who: str
    icon: str
    action: str
    object: str  # what it was done to, in a word or two
    href: str  # where that is; empty where there is no such page for this person
    what: str
    link: AuditLink | None
    is_open: bool
    is_bad: bool

    @property
    def holds(self) -> bool:
        """Whether the link is made of this event. Not whether it follows the one before."""
        return self.link is not None and audit_chain.covers(self.link, self.event)

    @property
    def facts(self) -> list[tuple[str, Any]]:
        """Everything that the event says, in the words of the export."""
        event = self.event
        return [
            ("event", event.pk),
            ("position", event.position),
            ("user id", event.actor_id),
            ("via", event.via),
            ("session", event.session),
            ("address", event.address),
            ("object", f"{event.object_type} {event.object_id or ''}".strip()),
            ("purpose", event.purpose),
            ("outcome", event.outcome),
            *((name, _said(value)) for name, value in sorted(event.detail.items())),
        ]


def rows_of(principal: UserPrincipal, page: Page, bad: UUID | None) -> list[Row]:
    places = _places(principal, page.events)
    return [
        _row(event, places, page.opened == event.pk, bad == event.pk)
        for event in page.events
    ]


def _row(
    event: AuditEvent,
    places: dict[UUID, tuple[str, str]],
    is_open: bool,
    is_bad: bool,
) -> Row:
    label = OBJECTS.get(event.object_type, event.object_type.rpartition(".")[2])
    name, href = f"{label} {short(event.object_id)}" if event.object_id else label, ""
    if event.object_id in places:
        name, href = places[event.object_id]
    actor = event.actor
    return Row(
        event=event,
        who=name_of(actor) if actor else NOBODY.get(event.via, "nobody"),
        icon=ACTIONS.get(event.action, "low"),
        action=event.action.replace("_", " "),
        object=name,
        href=href,
        what=_what(event),
        link=getattr(event, "link", None),
        is_open=is_open,
        is_bad=is_bad,
    )


def _what(event: AuditEvent) -> str:
    said = [event.outcome if event.outcome != "ok" else "", event.purpose]
    said += [f"{name} {_briefly(value)}" for name, value in event.detail.items()]
    return ", ".join(part for part in said if part)


def _briefly(value: Any) -> str:
    """Ids by their ends, hashes by their beginnings."""
    if isinstance(value, list):
        return f"{len(value)}" if len(value) > FEW else ", ".join(map(_briefly, value))
    text = str(value)
    if UUID_LIKE.fullmatch(text):
        return short(UUID(text))
    return f"{text[:8]}…" if HASH_LIKE.fullmatch(text) else text[:SHOWN]


def _said(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _places(
    principal: UserPrincipal, events: Iterable[AuditEvent]
) -> dict[UUID, tuple[str, str]]:
    """Name and address of the objects that this person may see."""
    ids: dict[str, set[UUID]] = {}
    for event in events:
        if event.object_id is not None:
            ids.setdefault(event.object_type, set()).add(event.object_id)
    found: dict[UUID, tuple[str, str]] = {}
    for pk in _seen(Thread, principal, ids).values_list("pk", flat=True):
        found[pk] = f"thread {short(pk)}", reverse("agents:thread", args=[pk])
    for pk, thread in _seen(Branch, principal, ids).values_list("pk", "thread_id"):
        found[pk] = f"branch {short(pk)}", _thread(thread, pk)
    runs = _seen(Run, principal, ids).values_list("pk", "thread_id", "branch_id")
    for pk, thread, branch in runs:
        found[pk] = f"run {short(pk)}", _thread(thread, branch)
    for pk, number in _seen(Approval, principal, ids).values_list("pk", "number"):
        found[pk] = f"APR-{number}", reverse("agents:approval", args=[pk])
    return found


def _seen(model: Any, principal: UserPrincipal, ids: dict[str, set[UUID]]) -> Any:
    wanted = ids.get(model._meta.label_lower, set())
    # Django does not ask the database for rows of an empty list.
    return model.objects.for_user(principal).filter(pk__in=wanted)


def _thread(thread: UUID, branch: UUID) -> str:
    return f"{reverse('agents:thread', args=[thread])}?branch={branch}"
