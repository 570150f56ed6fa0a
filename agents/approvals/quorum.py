"""Several people approve one request: who has, and how many are still waited for.

An approval counts for one revision and one digest. Whatever changes the request (an
edit, something taken back) makes another revision, and everybody approves anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agents.approvals import who
from agents.models import Approval, Decision
from agents.pure.terms import Terms
from checkpoints.access import Reason, Role
from checkpoints.models import Membership


@dataclass(frozen=True)
class Standing:
    """How far a request is: for pages."""

    needed: int
    approvals: list[Decision]  # of this revision, by people who still may; oldest first
    groups: list[str]  # names of those that are asked; empty: all with the right
    excluded: dict[int, str]  # user id → "starter", "author" or "editor"

    @property
    def missing(self) -> int:
        return max(self.needed - len(self.approvals), 0)


def standing(approval: Approval) -> Standing:
    """Of a pending request. A few queries where its terms are not the usual ones."""
    terms = Terms.of(approval.terms)
    return Standing(
        needed=terms.approvers,
        approvals=counted(approval, given(approval)) if terms.approvers > 1 else [],
        groups=who.group_names(approval, terms) if terms.groups else [],
        excluded=who.excluded(approval) if terms.exclude else {},
    )


def given(approval: Approval) -> list[Decision]:
    """Approvals of the revision that is there now, oldest first, one a person."""
    return list(
        Decision.objects.unscoped(Reason.WORKER)
        .filter(
            approval=approval.pk,
            revision=approval.revision,
            digest=approval.digest,
            verdict=Decision.Verdict.APPROVE,
        )
        .select_related("by")
        .order_by("at")
    )


def counted(approval: Approval, approvals: Sequence[Decision]) -> list[Decision]:
    """Those whose people may still approve, and are not left out by the terms."""
    return [each for each in approvals if not no_longer(approval, each)]


def no_longer(approval: Approval, decision: Decision) -> str:
    """Why who approved this, or answered it, could not do so now; empty when they could."""
    member = (
        Membership.objects.unscoped(Reason.WORKER)
        .filter(
            workspace_id=decision.workspace_id,
            user_id=decision.by_id,
            user__is_active=True,
        )
        .first()
    )
    if member is None or not who.has_right(
        approval, member.role, can_approve=member.can_approve
    ):
        return "no longer may"
    if decision.break_glass:
        return "" if member.role == Role.ADMIN else "no longer may"
    if not approval.terms:
        return ""
    if who.not_asked(approval, decision.by_id, decision.verdict):
        return "is not among those who may decide it"
    return ""
