"""Just before a call runs: is this, byte for byte, what people let go ahead?

Everything is computed anew from what is stored; the model is never asked again. Whoever
can write the database but has no keys can neither change what runs nor make a decision.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agents.approvals.binding import digest_of, last_decision, mac_of
from agents.errors import ApprovalInvalid
from agents.models import Approval, Decision, ToolCall
from agents.pure.digest import equal
from agents.tools import Tool
from checkpoints.access import Reason, Role
from checkpoints.gate import Pass
from checkpoints.models import Membership
from checkpoints.pure.codec import same

_VERDICTS: dict[str, tuple[str, ...]] = {
    Approval.Status.APPROVED: (Decision.Verdict.APPROVE, Decision.Verdict.EDIT),
    Approval.Status.REJECTED: (Decision.Verdict.REJECT,),
    Approval.Status.RESPONDED: (Decision.Verdict.RESPOND,),
}


@dataclass(frozen=True)
class EffectiveArguments:
    """What may run."""

    arguments: dict[str, Any] = field(repr=False)
    edited: bool
    decision: Decision


def verify(call: ToolCall, *, tool: Tool, opener: Pass) -> EffectiveArguments:
    """The arguments that were approved.

    Raises ApprovalInvalid, which says why the approval does not hold (any more): the
    request changed, the tool changed, the record of the decision is not as it was
    written, or the person lost the right. Then a person must be asked again.
    """
    call = (
        ToolCall.objects.unscoped(Reason.WORKER)
        .select_related("reply", "run")
        .get(pk=call.pk)
    )
    approval = Approval.objects.unscoped(Reason.WORKER).filter(call=call).first()
    if approval is None or approval.status != Approval.Status.APPROVED:
        raise ApprovalInvalid("This call was not approved.")
    if call.tool != tool.name or call.tool_version != tool.version:
        raise ApprovalInvalid("The tool has changed since this was approved.")
    decision = _decision(approval)
    edited = decision.verdict == Decision.Verdict.EDIT
    # An edit makes a revision of its own; asking again makes another.
    if approval.revision != decision.revision + edited:
        raise ApprovalInvalid("The request changed after it was approved.")
    in_doubt = approval.kind == Approval.Kind.UNKNOWN
    # What is in doubt was shown as it was tried: with the edits of an earlier decision.
    if not in_doubt and edited == (call.effective is None):
        raise ApprovalInvalid("The record of the decision was altered.")
    proposed: dict[str, Any] = opener.open(call, "arguments")
    content = opener.open(decision, "content")
    arguments = proposed if call.effective is None else opener.open(call, "effective")
    settled = digest_of(call, tool, arguments, in_doubt=in_doubt)
    shown = settled if in_doubt else digest_of(call, tool, proposed)
    if not equal(decision.digest, shown) or not equal(approval.digest, settled):
        raise ApprovalInvalid("This is not the request that was approved.")
    if edited and not same(content, {"arguments": arguments}):
        raise ApprovalInvalid("These are not the arguments that were decided.")
    _require_genuine(decision, content, settled)
    _require_right(decision)
    return EffectiveArguments(arguments, call.effective is not None, decision)


def verify_answer(approval: Approval, *, opener: Pass) -> Decision:
    """The decision behind a rejection or an answer, when its record is genuine.

    Raises ApprovalInvalid.
    """
    decision = _decision(approval)
    if approval.revision != decision.revision:
        raise ApprovalInvalid("The request changed after it was decided.")
    if not equal(approval.digest, decision.digest):
        raise ApprovalInvalid("This is not the request that was decided.")
    content = opener.open(decision, "content")
    # What is said of a call in doubt means something else of any other.
    if bool((content or {}).get("in_doubt")) != (
        approval.kind == Approval.Kind.UNKNOWN
    ):
        raise ApprovalInvalid("This is not the request that was decided.")
    _require_genuine(decision, content, bytes(decision.digest))
    return decision


def _decision(approval: Approval) -> Decision:
    """The one that closed the request, if it says what the request's status says."""
    decision = last_decision(approval)
    if decision is None:
        raise ApprovalInvalid("There is no record of a decision.")
    if decision.verdict not in _VERDICTS.get(approval.status, ()):
        raise ApprovalInvalid("The decision on record says something else.")
    return decision


def _require_genuine(decision: Decision, content: Any, settled: bytes) -> None:
    if not equal(decision.mac, mac_of(decision, content=content, settled=settled)):
        raise ApprovalInvalid("The record of the decision was altered.")


def _require_right(decision: Decision) -> None:
    """The person who approved may still do so."""
    may = (
        Membership.objects.unscoped(Reason.WORKER)
        .filter(
            workspace_id=decision.workspace_id,
            user_id=decision.by_id,
            user__is_active=True,
            can_approve=True,
        )
        .exclude(role=Role.AUDITOR)
    )
    if not may.exists():
        name = decision.by.get_full_name() or decision.by.get_username()
        raise ApprovalInvalid(f"{name}, who approved this, no longer may.")
