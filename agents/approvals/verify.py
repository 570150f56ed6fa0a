"""Just before a call runs: is this, byte for byte, what people let go ahead?

Everything is computed anew from what is stored; the model is never asked again. Whoever
can write the database but has no keys can neither change what runs nor make a decision.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agents.approvals import quorum, who
from agents.approvals.binding import digest_of, mac_of
from agents.approvals.given import wanted
from agents.errors import ApprovalInvalid
from agents.models import Approval, Decision, ToolCall
from agents.pure.digest import equal
from agents.pure.terms import Terms
from agents.tools import Tool
from checkpoints.access import Reason
from checkpoints.gate import Pass
from checkpoints.pure.codec import same

Verdict = Decision.Verdict

_VERDICTS: dict[str, tuple[str, ...]] = {
    Approval.Status.APPROVED: (Verdict.APPROVE, Verdict.EDIT),
    Approval.Status.REJECTED: (Verdict.REJECT,),
    Approval.Status.RESPONDED: (Verdict.RESPOND,),
}
ALTERED = "The record of the decision was altered."
CHANGED = "The request changed after it was approved."


@dataclass(frozen=True)
class EffectiveArguments:
    """What may run. `decision` closed the request; `approvals` are all that counted."""

    arguments: dict[str, Any] = field(repr=False)
    edited: bool
    decision: Decision
    approvals: tuple[Decision, ...] = ()


def verify(call: ToolCall, *, tool: Tool, opener: Pass) -> EffectiveArguments:
    """The arguments that were approved.

    Raises ApprovalInvalid, which says why the approval does not hold (any more): the
    request changed, the tool changed, the record of a decision is not as it was
    written, or one of the people lost the right. Then people must be asked again.
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
    said = _said(approval)
    decision = _closing(approval, said)
    edited = decision.verdict == Verdict.EDIT
    # An edit makes a revision of its own; asking again makes another.
    if approval.revision != decision.revision + edited:
        raise ApprovalInvalid(CHANGED)
    in_doubt = approval.kind == Approval.Kind.UNKNOWN
    arguments = proposed = opener.open(call, "arguments")
    settled = digest_of(call, tool, arguments, under=approval, in_doubt=in_doubt)
    shown = settled
    if call.effective is not None:
        arguments = opener.open(call, "effective")
        settled = digest_of(call, tool, arguments, under=approval, in_doubt=in_doubt)
        # Who edits and approves at once saw what was to run before.
        if edited:
            before = opener.open(approval, "guard_found") or {}
            was = before.get("arguments", proposed)
            shown = digest_of(call, tool, was, under=approval)
        else:
            shown = settled
    elif edited:
        raise ApprovalInvalid(ALTERED)
    if not equal(decision.digest, shown) or not equal(approval.digest, settled):
        raise ApprovalInvalid("This is not the request that was approved.")
    terms = Terms.of(approval.terms)
    if edited and who.edit_stays_open(terms):
        raise ApprovalInvalid("Whoever edits this is not the one who approves it.")
    approvals, problems = [], []
    for each in _candidates(terms, decision, said):
        try:
            content = opener.open(each, "content")
            if edited and not same(content, {"arguments": arguments}):
                raise ApprovalInvalid("These are not the arguments that were decided.")
            _require_genuine(each, content, settled)
            _require_right(approval, terms, each)
        except ApprovalInvalid as problem:
            problems.append(problem)
        else:
            approvals.append(each)
    _require_quorum(terms, decision, approvals, problems)
    return EffectiveArguments(
        arguments, call.effective is not None, decision, tuple(approvals)
    )


def verify_answer(approval: Approval, *, opener: Pass) -> Decision:
    """The decision behind a rejection or an answer, when its record is genuine.

    An answer is the call's result, so whoever gave it may still do so; by a rejection
    nothing runs. Raises ApprovalInvalid.
    """
    decision = _closing(approval, _said(approval))
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
    if decision.verdict == Verdict.RESPOND:
        _require_right(approval, Terms.of(approval.terms), decision)
    return decision


def _said(approval: Approval) -> list[Decision]:
    """All that people said to the request, the last first."""
    return list(approval.decisions.select_related("by").order_by("-revision", "-at"))


def _closing(approval: Approval, said: list[Decision]) -> Decision:
    """The one that closed the request, if it says what the request's status says."""
    if not said:
        raise ApprovalInvalid("There is no record of a decision.")
    if said[0].verdict not in _VERDICTS.get(approval.status, ()):
        raise ApprovalInvalid("The decision on record says something else.")
    return said[0]


def _candidates(
    terms: Terms, closing: Decision, said: list[Decision]
) -> list[Decision]:
    """Approvals of what was closed; one alone where it is to be enough by itself."""
    if closing.break_glass or terms.approvers == 1:
        return [closing]
    of = {
        each.by_id: each
        for each in said
        if each.verdict == Verdict.APPROVE
        and each.revision == closing.revision
        and equal(each.digest, closing.digest)
    }
    return list(of.values())


def _require_quorum(
    terms: Terms,
    closing: Decision,
    approvals: list[Decision],
    problems: list[ApprovalInvalid],
) -> None:
    """As many people as the terms ask for; or one, where that is marked."""
    needed = 1 if closing.break_glass else terms.approvers
    if len(approvals) >= needed:
        return
    if problems:
        raise problems[0]
    raise ApprovalInvalid(
        f"{needed} people have to approve this; {len(approvals)} did."
    )


def _require_genuine(decision: Decision, content: Any, settled: bytes) -> None:
    if not equal(decision.mac, mac_of(decision, content=content, settled=settled)):
        raise ApprovalInvalid(ALTERED)


def _require_right(approval: Approval, terms: Terms, decision: Decision) -> None:
    """The person may still decide this, and gave what was asked for, in time."""
    name = decision.by.get_full_name() or decision.by.get_username()
    did = "answered" if decision.verdict == Verdict.RESPOND else "approved"
    if why := quorum.no_longer(approval, decision):
        raise ApprovalInvalid(f"{name}, who {did} this, {why}.")
    if decision.confirmed.split() != wanted(terms):
        raise ApprovalInvalid(f"{name} {did} this without what it asks for.")
    late = approval.due_at is not None and decision.at >= approval.due_at
    if late and terms.then == "reject":
        raise ApprovalInvalid(f"{name} {did} this after its deadline.")
