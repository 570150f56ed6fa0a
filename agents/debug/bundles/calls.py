"""Calls, requests and decisions as a bundle tells of them: what the inspector shows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model

from agents.models import AgentVersion, Approval, Decision, ToolCall
from checkpoints.access import Reason
from checkpoints.errors import CheckpointsError
from checkpoints.gate import Pass
from checkpoints.models import Thread


def calls_of(
    thread: Thread, seen: Pass, replies: Collection[UUID]
) -> dict[UUID, list[dict[str, Any]]]:
    """By the reply that made them, in order. Arguments and results are in the steps."""
    rows = [
        call
        for call in ToolCall.objects.unscoped(Reason.GATE)
        .filter(thread=thread)
        .select_related("approval__decided_by")
        .defer("arguments", "reason", "result")
        .order_by("reply_id", "ordinal", "created_at", "pk")
        if call.reply_id in replies
    ]
    titles = seen.open_each(rows, "title")
    decisions = _decisions(thread)
    found: dict[UUID, list[dict[str, Any]]] = defaultdict(list)
    for call, title in zip(rows, titles, strict=True):
        made = found[call.reply_id]
        if made and made[-1]["ordinal"] == call.ordinal:
            continue  # on a fork, the same call of an inherited reply again
        approval: Approval | None = getattr(call, "approval", None)
        made.append(
            {
                "ordinal": call.ordinal,
                "tool": call.tool,
                "title": "" if isinstance(title, CheckpointsError) else title or "",
                "effect": call.effect,
                "status": call.status,
                "error_class": call.error_class,
                "attempts": call.attempts,
                "started_at": _at(call.started_at),
                "finished_at": _at(call.finished_at),
                "approval": approval and _approval(approval, decisions),
            }
        )
    return found


def people(ids: Iterable[int | None]) -> dict[int, str]:
    """Names of those who took a step."""
    wanted = {id for id in ids if id}
    return {
        user.pk: _name(user) for user in get_user_model().objects.filter(pk__in=wanted)
    }


def agents(ids: Iterable[UUID | None]) -> dict[UUID | None, str]:
    """Agents with their versions, such as `trip-planner v3`."""
    versions = AgentVersion.objects.unscoped(Reason.GATE).filter(
        pk__in={id for id in ids if id}
    )
    return {
        version.pk: str(version)
        for version in versions.select_related("agent").defer("spec")
    }


def _approval(
    approval: Approval, decisions: dict[UUID, list[dict[str, Any]]]
) -> dict[str, Any]:
    return {
        "number": approval.number,
        "kind": approval.kind,
        "status": approval.status,
        "rule": approval.rule,
        "risk": approval.risk,
        "asked_at": _at(approval.asked_at),
        "decided_at": _at(approval.decided_at),
        "decided_by": _name(approval.decided_by),
        "decisions": decisions.get(approval.pk, []),
    }


def _decisions(thread: Thread) -> dict[UUID, list[dict[str, Any]]]:
    found: dict[UUID, list[dict[str, Any]]] = defaultdict(list)
    rows = Decision.objects.unscoped(Reason.GATE).filter(thread=thread)
    for row in rows.select_related("by").defer("content").order_by("at", "pk"):
        said = {"verdict": row.verdict, "by": _name(row.by), "at": _at(row.at)}
        found[row.approval_id].append(said)
    return found


def _name(user: Any) -> str:
    return "" if user is None else user.get_full_name() or user.get_username()


def _at(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
