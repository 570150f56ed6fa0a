"""In an emergency an admin approves alone, against quorum, groups and exclusions.

What else the request demands stays: its deadline, its guard, password and typing, the
grace window. The decision is marked, its MAC binds the mark, and the audit log has it
under its own name; `verify` takes one approval for a quorum only if it is so marked.
"""

from __future__ import annotations

from agents.approvals import who
from agents.approvals.decide import text_of
from agents.approvals.given import Given
from agents.approvals.settle import Verdict, decide
from agents.errors import InvalidDecision, NotEligible
from agents.models import Approval, Decision
from agents.models.approvals import Seen
from agents.pure.terms import Terms
from checkpoints.access import UserPrincipal

ADMINS = "Only an admin with the right to approve can break the glass."
NOT_NEEDED = "Nothing stands in your way: approve it as usual."


def may(approval: Approval, by: UserPrincipal) -> bool:
    """Whether to offer it: `by` is an admin, and the terms keep them from deciding alone."""
    return who.is_admin(by) and _is_needed(approval, by)


def approve(
    approval: Approval,
    *,
    seen: Seen,
    by: UserPrincipal,
    reason: str,
    password_ok: bool = False,
    typed: str = "",
    shown: bytes | None = None,
) -> Decision:
    """Approve alone, for a reason that everyone who may audit can ask for.

    Raises as `decide.approve`; NotEligible for everyone but admins who may approve, and
    InvalidDecision without a reason, or where nothing had to be broken.
    """
    if not who.is_admin(by):
        raise NotEligible(ADMINS)
    text = text_of("reason", reason, "Say why: it is kept with the decision.")
    if not _is_needed(approval, by):
        raise InvalidDecision({"verdict": NOT_NEEDED})
    given = Given({"reason": text}, password_ok, typed, shown, break_glass=True)
    return decide(approval, seen, by, Verdict.APPROVE, given)


def _is_needed(approval: Approval, by: UserPrincipal) -> bool:
    if Terms.of(approval.terms).approvers > 1:
        return True
    return bool(who.not_asked(approval, by.user_id))
