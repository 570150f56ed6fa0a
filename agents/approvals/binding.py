"""What a request binds: computed when it is asked, edited, and before it runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from agents.models import Approval, Decision, ToolCall
from agents.pure.digest import approval_digest, decision_mac
from agents.tools import Tool
from checkpoints.keys.hierarchy import thread_keys, workspace_mac
from checkpoints.models import DataKey


def digest_of(
    call: ToolCall,
    tool: Tool,
    arguments: Mapping[str, Any],
    *,
    under: Approval,
    in_doubt: bool = False,
) -> bytes:
    """The digest of a request to run the call with these arguments.

    What the request demands is as it was frozen in `under`: a policy that changes later
    changes no request. The tool's schema and rule are those of this process: a request
    that was shown under others has another digest. `in_doubt`: it was tried, so many
    times, and what came of that is not known; a decision holds for one more try.
    """
    return approval_digest(
        thread_keys(call.thread_id).mac,
        workspace=call.workspace_id,
        thread=call.thread_id,
        branch=call.branch_id,
        reply=call.reply_id,
        reply_mac=bytes(call.reply.state_mac),
        call=call.pk,
        tool=tool.name,
        tool_version=call.tool_version,
        schema_hash=tool.schema_hash,
        arguments=arguments,
        policy={
            "tool": tool.rule.version if tool.rule else "none",
            "policy": str(under.policy_id or ""),
            "rule": under.rule,
            "risk": str(under.risk),
            "allowed": under.allowed,
            "terms": under.terms,
        },
        agent_version=call.reply.agent_version,  # that asked: its run may go on as another
        guards=_guards(call, under, in_doubt=in_doubt),
    )


def _guards(call: ToolCall, under: Approval, *, in_doubt: bool) -> dict[str, Any]:
    """What else must be as it was shown. Of what a guard saw: the sealed record, which
    opens to nothing else, so that who only compares digests need not open it."""
    guards: dict[str, Any] = {"tried": call.attempts} if in_doubt else {}
    if under.guard_seen is not None:
        guards["seen"] = sha256(bytes(under.guard_seen)).hexdigest()
    return guards


def mac_of(decision: Decision, *, content: Any, settled: bytes) -> bytes:
    """The MAC of a decision over its columns, its opened content, and what it settled on."""
    return decision_mac(
        workspace_mac(decision.workspace_id, DataKey.Purpose.DECISION),
        decision=decision.pk,
        approval=decision.approval_id,
        revision=decision.revision,
        verdict=str(decision.verdict),
        by=decision.by_id,
        role=str(decision.role),
        session=decision.session,
        at=_moment(decision.at),
        content=content,
        shown=bytes(decision.digest),
        settled=settled,
        fragment=None if decision.shown is None else bytes(decision.shown),
        confirmed=decision.confirmed,
        break_glass=decision.break_glass,
    )


def last_decision(approval: Approval) -> Decision | None:
    """The one that closed the request, as it stands."""
    return approval.decisions.select_related("by").order_by("-revision", "-at").first()


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()
