"""A person decides: exactly one decision for what was shown, and one wake for the run.

Locks in the order branch, run, approval serialise decisions on one run, so the last
of several wakes it, exactly once. The compare-and-set on status, revision and digest
holds without them: nobody decides what they did not see, or what is decided.

The call itself stays `waiting` until the run takes the decision in, as a step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import transaction

from agents.approvals.binding import digest_of, mac_of
from agents.errors import (
    AlreadyDecided,
    ArgumentsDoNotFit,
    InvalidDecision,
    LostRace,
    NotEligible,
    Stale,
    UnknownAgent,
    UnknownTool,
)
from agents.models import Approval, Decision, Run, ToolCall
from agents.models.approvals import Seen
from agents.tools import Tool, registry
from agents.tools.schema import Schema
from agents.tools.secrets import capture, captured
from agents.wake import adopt, wake
from checkpoints import audit, clock, gate
from checkpoints.access import Role, UserPrincipal
from checkpoints.models import Branch, Membership

__all__ = [
    "AlreadyDecided",
    "InvalidDecision",
    "LostRace",
    "NotEligible",
    "Seen",
    "Stale",
    "approve",
    "edit",
    "ineligible",
    "reject",
    "respond",
    "schema_of",
]

Verdict = Decision.Verdict

TEXT_CHARACTERS = 10_000  # of a reason or an answer

_STATUS = {
    Verdict.APPROVE: Approval.Status.APPROVED,
    Verdict.EDIT: Approval.Status.APPROVED,
    Verdict.REJECT: Approval.Status.REJECTED,
    Verdict.RESPOND: Approval.Status.RESPONDED,
}


def approve(approval: Approval, *, seen: Seen, by: UserPrincipal) -> Decision:
    """Let the call go ahead as it was shown; wake the run once every call is decided.

    Of a call in doubt: it did not happen, and is made again.

    Raises AlreadyDecided when someone was faster, Stale when the request changed since
    it was shown, NotEligible when `by` may not decide it (it names the rule), and
    InvalidDecision when this request cannot be approved.
    """
    return _decide(approval, seen, by, Verdict.APPROVE, None)


def edit(
    approval: Approval, *, seen: Seen, by: UserPrincipal, arguments: dict[str, Any]
) -> Decision:
    """Let the call go ahead with these arguments instead. They are kept apart.

    Arguments that are what they were count as an approval. Raises as `approve`, and
    InvalidDecision with a message for each argument that does not fit.
    """
    _require_right(approval, by)
    tool = _tool(approval)
    try:
        kept, _ = tool.validate(arguments)
    except ArgumentsDoNotFit as wrong:
        raise InvalidDecision(wrong.fields) from None
    if secrets := capture(kept)[1]:
        raise InvalidDecision(
            {
                "": "The arguments hold what looks like a secret "
                f"({', '.join(secrets)}). Tools take secrets by name."
            }
        )

    def settle(call: ToolCall) -> bytes:
        call.effective = gate.seal(call, "effective", kept)
        return digest_of(call, tool, kept)

    call = ToolCall.objects.for_user(by).select_related("reply", "run")
    if digest_of(call.get(pk=approval.call_id), tool, kept) == seen.digest:
        return approve(approval, seen=seen, by=by)
    return _decide(approval, seen, by, Verdict.EDIT, {"arguments": kept}, settle)


def reject(
    approval: Approval, *, seen: Seen, by: UserPrincipal, reason: str
) -> Decision:
    """Refuse the call; the agent reads the reason. Raises as `approve`.

    Of a call in doubt: leave it so.
    """
    text = _text("reason", reason, "Say why: the agent reads it and can do better.")
    return _decide(approval, seen, by, Verdict.REJECT, {"reason": text})


def respond(
    approval: Approval, *, seen: Seen, by: UserPrincipal, response: str
) -> Decision:
    """Answer a question; the answer is the call's result. Raises as `approve`.

    Of a call in doubt: it happened, and gave this.
    """
    empty = "Write an answer, or reject the question."
    if approval.kind == Approval.Kind.UNKNOWN:
        empty = "Write what it gave, or what you found: the agent goes on with it."
    text = _text("response", response, empty)
    return _decide(approval, seen, by, Verdict.RESPOND, {"response": text})


def ineligible(approval: Approval, by: UserPrincipal) -> str:
    """Why this person may not decide the request; empty when they may."""
    member = Membership.objects.for_user(by).filter(
        user_id=by.user_id, user__is_active=True
    )
    found = member.first()
    if found is None:
        return "You are no longer a member of this workspace."
    if found.role == Role.AUDITOR:
        return "Auditors read the audit log; they decide nothing."
    if found.can_approve:
        return ""
    if approval.kind == Approval.Kind.QUESTION:
        if found.role in (Role.OPERATOR, Role.ADMIN):
            return ""
        return "Questions are answered by operators and by people who may approve."
    rule = f"“{approval.rule}” asks" if approval.rule else "This asks"
    return f"{rule} someone with the right to approve. An admin of the workspace can give it."


def schema_of(approval: Approval) -> Schema:
    """What the arguments of an edit are checked against.

    Raises InvalidDecision when this server does not know the tool.
    """
    return _tool(approval).schema


def _decide(
    approval: Approval,
    seen: Seen,
    by: UserPrincipal,
    verdict: Decision.Verdict,
    content: dict[str, Any] | None,
    settle: Callable[[ToolCall], bytes] | None = None,
) -> Decision:
    _require_right(approval, by)
    with transaction.atomic():
        row = _locked(approval, by)
        _require_open(row, seen)
        if verdict not in row.allowed:
            raise InvalidDecision({"verdict": _not_allowed(row.allowed)})
        call = ToolCall.objects.for_user(by).select_related("reply", "run")
        called = call.get(pk=row.call_id)
        settled = settle(called) if settle else bytes(row.digest)
        if row.kind == Approval.Kind.UNKNOWN:
            content = {**(content or {}), "in_doubt": True}
        decision = Decision(
            workspace_id=row.workspace_id,
            thread_id=row.thread_id,
            approval=row,
            revision=row.revision,
            verdict=verdict,
            by_id=by.user_id,
            role=by.role,
            session=by.session,
            digest=seen.digest,
            at=clock.now(),
        )
        if content is not None:
            decision.content = gate.seal(decision, "content", content)
        decision.mac = mac_of(decision, content=content, settled=settled)
        _close(row, seen, by, decision, settled)
        if settle:
            called.save(update_fields=["effective"])
        decision.save(force_insert=True)
        audit.record(
            by,
            verdict,
            obj=row,
            run=row.run_id,
            call=row.call_id,
            revision=row.revision,
        )
        # Whoever decides takes over what its owner left, if they may.
        run = Run.objects.for_user(by).select_related("grant").get(pk=row.run_id)
        if run.needs_owner and by.may_operate:
            adopt(run, by)
        wake(row.run_id)
    return decision


def _locked(approval: Approval, by: UserPrincipal) -> Approval:
    """The request as it is now, with its branch, run and row locked, in this order."""
    branch = Branch.objects.for_user(by).select_for_update(no_key=True, of=("self",))
    if branch.filter(pk=approval.branch_id).first() is None:
        raise NotEligible("This thread is not shared with you.")
    run = Run.objects.for_user(by).select_for_update(no_key=True, of=("self",))
    live = run.get(pk=approval.run_id).is_live
    row = Approval.objects.for_user(by).select_for_update(no_key=True, of=("self",))
    found = row.get(pk=approval.pk)
    if found.is_pending and not live:
        raise AlreadyDecided("", "closed with its run", None)
    return found


def _require_open(row: Approval, seen: Seen) -> None:
    """Raises AlreadyDecided, Stale."""
    if not row.is_pending:
        who = row.decided_by
        name = (who.get_full_name() or who.get_username()) if who else ""
        raise AlreadyDecided(name, row.get_status_display().lower(), row.decided_at)
    if seen != row.as_shown():
        raise Stale(seen.revision, row.revision)


def _close(
    row: Approval, seen: Seen, by: UserPrincipal, decision: Decision, settled: bytes
) -> None:
    """Compare-and-set. An edit makes a revision of its own: other bytes will run."""
    changed = settled != seen.digest
    closed = (
        Approval.objects.for_user(by)
        .filter(
            pk=row.pk,
            status=Approval.Status.PENDING,
            revision=seen.revision,
            digest=seen.digest,
        )
        .update(
            status=_STATUS[Verdict(decision.verdict)],
            revision=seen.revision + changed,
            digest=settled,
            decided_at=decision.at,
            decided_by_id=decision.by_id,
        )
    )
    if not closed:
        raise Stale(seen.revision, row.revision)


def _require_right(approval: Approval, by: UserPrincipal) -> None:
    if why := ineligible(approval, by):
        raise NotEligible(why)


def _tool(approval: Approval) -> Tool:
    call = approval.call
    try:
        return registry.tool(approval.run.agent_version.agent.name, call.tool)
    except (UnknownAgent, UnknownTool):
        raise InvalidDecision(
            {"verdict": "This server does not know the tool, so it cannot check edits."}
        ) from None


def _text(field: str, text: str, empty: str) -> str:
    stripped = captured(text.replace("\r\n", "\n").strip())
    if not stripped:
        raise InvalidDecision({field: empty})
    if len(stripped) > TEXT_CHARACTERS:
        raise InvalidDecision({field: f"At most {TEXT_CHARACTERS:,} characters."})
    return stripped


def _not_allowed(allowed: list[str]) -> str:
    return f"This request can be decided by: {', '.join(allowed)}."
