"""What a message says: ids, the tool, the risk, where to look. Never state.

The title comes with it only where a channel says so; what could deceive or lead away in
it is spelled out, as whoever reads it may have a program that makes links of text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.conf import settings

from agents.models import Approval, Delivery, Event
from agents.pure.visible import flat

TITLE = 200  # characters


@dataclass(frozen=True)
class Message:
    """One message: `data` for programs, `subject` and `text` for people."""

    id: UUID
    event: str
    at: datetime
    data: Mapping[str, Any] = field(repr=False)
    subject: str = field(repr=False)
    text: str = field(repr=False)

    @property
    def body(self) -> bytes:
        """Of a webhook: the same at each try."""
        return json.dumps(
            {
                "type": "test"
                if self.event == Event.TEST
                else f"approval.{self.event}",
                "timestamp": self.at.astimezone(UTC).isoformat(),
                "data": dict(self.data),
            },
            separators=(",", ":"),
        ).encode()


def message_of(delivery: Delivery, *, title: str = "") -> Message:
    """`delivery` with its channel and, unless it is a test, approval and call."""
    approval = delivery.approval
    if approval is None:
        return Message(
            id=delivery.pk,
            event=delivery.event,
            at=delivery.created_at,
            data={"channel": str(delivery.channel_id)},
            subject="[Holdpoint] A test of this channel",
            text="An admin of Holdpoint tries whether messages arrive here. They do.\n",
        )
    said = harmless(title) if title else ""
    return Message(
        id=delivery.pk,
        event=delivery.event,
        at=delivery.created_at,
        data=_data(delivery, approval, said),
        subject=_subject(delivery, approval),
        text=_text(delivery, approval, said),
    )


def address_of(approval: Approval) -> str:
    """Of the page where it is decided, by whoever signs in."""
    return f"{settings.PUBLIC_URL}/inbox/{approval.pk}/"


def harmless(text: str) -> str:
    """In one line, with nothing hidden in it and nothing that becomes a link or a picture."""
    shown = " ".join(flat(text).split())
    if len(shown) > TITLE:
        shown = f"{shown[:TITLE]}…"
    shown = shown.replace("://", "[:]//").replace("@", "[at]").replace("](", "] (")
    return re.sub(r"(?<=\w)\.(?=[^\W\d])", "[.]", shown)


def _data(delivery: Delivery, approval: Approval, title: str) -> dict[str, Any]:
    due = approval.due_at
    return {
        "approval": str(approval.pk),
        "number": approval.number,
        "workspace": str(approval.workspace_id),
        "thread": str(approval.thread_id),
        "branch": str(approval.branch_id),
        "run": str(approval.run_id),
        "call": str(approval.call_id),
        "kind": approval.kind,
        "tool": approval.call.tool,
        "risk": approval.risk,
        "revision": delivery.revision,
        "status": delivery.outcome,
        "level": delivery.level,
        "due_at": due.astimezone(UTC).isoformat() if due else None,
        "url": address_of(approval),
        "api_url": f"{settings.PUBLIC_URL}/api/v1/approvals/{approval.pk}",
        **({"title": title} if title else {}),
    }


def _subject(delivery: Delivery, approval: Approval) -> str:
    what = {
        Event.ASKED: "waits for a decision",
        Event.ESCALATED: "still waits for a decision",
        Event.EXPIRED: "expired undecided",
        Event.DECIDED: f"was {delivery.outcome}",
        Event.EXECUTED: f"was run: {delivery.outcome}",
    }[Event(delivery.event)]
    return f"[Holdpoint] {approval}: {approval.call.tool} {what}"


def _text(delivery: Delivery, approval: Approval, title: str) -> str:
    lines = [
        f"{approval} {_subject(delivery, approval).partition(f'{approval}: ')[2]}.",
        *(
            [f"\n    {title}\n\nThe agent's words, not checked by anybody.\n"]
            if title
            else []
        ),
        "",
        f"Tool:  {approval.call.tool}",
        f"Risk:  {approval.risk}",
    ]
    if approval.due_at and delivery.event in (Event.ASKED, Event.ESCALATED):
        lines.append(f"Until: {approval.due_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC")
    lines += [
        "",
        address_of(approval),
        "",
        "Opening the page decides nothing. Nobody can decide by answering this mail.",
        "",
    ]
    return "\n".join(lines)
