"""A request is found for its reader, and opened for its page; the opening is recorded."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from agents.approvals.asked import title_of
from agents.errors import UnknownAgent, UnknownTool
from agents.models import Approval, Decision
from agents.pages.chips import Chips
from agents.pages.damage import DAMAGE
from agents.pages.inbox import activity, similar
from agents.pages.inbox.activity import Entry, Said, said_of
from agents.pages.inbox.arguments import marked, table
from agents.pages.inbox.detail import Detail
from agents.pages.inbox.guarded import guarded, preview
from agents.pages.inbox.previewed import folded
from agents.pages.inbox.standing import standing_of
from agents.tools import Tool, registry
from checkpoints import gate
from checkpoints.access import UserPrincipal
from checkpoints.compiled import Compiled
from checkpoints.db import session
from checkpoints.log import content

# What a decision asks of a request; its page names more.
_DECIDED_BY = ("thread", "call", "run__agent_version__agent", "checkpoint")
_NAMED = (
    *("branch", "checkpoint__parent__parent__parent"),
    *("decided_by", "claimed_by", "assigned_to"),
)


def _with(*rows: str) -> Compiled:
    return Compiled(
        lambda by, pk: Approval.objects.for_user(by).filter(pk=pk).select_related(*rows)
    )


_DECISIONS = Compiled(
    lambda by, approval: (
        Decision.objects.for_user(by)
        .filter(approval=approval)
        .select_related("by")
        .order_by("at")
    )
)
_TO_DECIDE, _FOUND = _with(*_DECIDED_BY), _with(*_DECIDED_BY, *_NAMED)


def to_decide(principal: UserPrincipal, pk: UUID) -> Approval | None:
    """The request, with the rows that a decision asks for; None for a stranger's."""
    with session.joined_as_written():
        found: Approval | None = _TO_DECIDE.first(principal, pk=pk)
    return found


def find(principal: UserPrincipal, pk: UUID) -> Approval | None:
    """The request, with the rows that its page names; None for a stranger's."""
    with session.joined_as_written():
        found: Approval | None = _FOUND.first(principal, pk=pk)
    return found


def open_request(
    principal: UserPrincipal, approval: Approval, *, read: Collection[str] = ()
) -> Detail:
    """Open a request for its page; the opening is recorded.

    `read`: the tokens of long arguments that were opened (`arguments.marked`).
    """
    if not principal.may_read:
        why_not = "Your role reads the audit log, not state."
        return Detail(
            approval, True, why_not, log=_activity(principal, approval, None, [])
        )
    try:
        return _opened(principal, approval, read)
    except DAMAGE as damage:
        why_not = f"This request cannot be opened. {damage}"
        return Detail(approval, sealed=True, why_not=why_not)


def open_asked(
    principal: UserPrincipal, approval: Approval, *, read: Collection[str] = ()
) -> Detail:
    """What is asked alone, without who stands where; the opening is recorded.

    Raises DAMAGE.
    """
    return _asked(_admit(principal, approval), principal, approval, read)


def _opened(
    principal: UserPrincipal, approval: Approval, read: Collection[str]
) -> Detail:
    opened = _admit(principal, approval)
    asked = _asked(opened, principal, approval, read)
    result = opened.open(approval.call, "result")
    kept_apart = Chips(approval.thread).of(result)
    decisions = _DECISIONS.rows(principal, approval=approval.pk)
    contents = opened.open_all(decisions, "content")
    said = [said_of(*one) for one in zip(decisions, contents, strict=True)]
    return replace(
        asked,
        standing=standing_of(principal, approval),
        said=said,
        log=_activity(principal, approval, opened, said),
        similar=similar.find(principal, approval),
        result=None if kept_apart else _result(result),
        kept_apart=kept_apart,
        guarded=guarded(opened, approval, asked.tool),
    )


def _asked(
    opened: gate.Pass,
    principal: UserPrincipal,
    approval: Approval,
    read: Collection[str],
) -> Detail:
    call = approval.call
    if approval.thread.pruned_at is not None:
        content.explain(approval.thread_id)
    proposed = opened.open(call, "arguments")
    effective = opened.open(call, "effective")
    tool = tool_of(approval)
    rows = table(proposed, effective, tool.schema if tool else None)
    shown = preview(opened, approval)
    previewed = folded(shown)
    return Detail(
        approval=approval,
        sealed=False,
        title=title_of(approval, opened.open(call, "title"), effective),
        tool=tool,
        proposed=proposed,
        effective=effective,
        arguments=marked(rows, approval, principal, read),
        reason=opened.open(call, "reason") or "",
        preview=shown,
        previewed=previewed and marked([previewed], approval, principal, read)[0],
    )


def _admit(principal: UserPrincipal, approval: Approval) -> gate.Pass:
    return gate.admit(
        principal,
        purpose="approval",
        threads=[approval.thread],
        steps=activity.opened_as(approval),
    )


def _activity(
    principal: UserPrincipal,
    approval: Approval,
    opened: gate.Pass | None,
    said: Sequence[Said],
) -> list[Entry]:
    """Without a pass: what the log says alone."""
    place = activity.opened_as(approval)
    return activity.activity(
        approval,
        activity.events(principal, approval, place),
        said,
        activity.open_notes(principal, approval, opened),
        asker=approval.run.agent_version.agent.name,
    )


def tool_of(approval: Approval) -> Tool | None:
    """The tool as this server knows it."""
    name = approval.run.agent_version.agent.name
    try:
        return registry.tool(name, approval.call.tool)
    except (UnknownAgent, UnknownTool):
        return None


def _result(content: Any) -> Any:
    """What the tool gave: results are kept as the text that the model was sent."""
    if not isinstance(content, str):
        return content
    try:
        return json.loads(content)
    except ValueError:
        return content
