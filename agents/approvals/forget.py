"""What was remembered from an approval goes with it."""

from __future__ import annotations

from agents.models import Approval, StickyRule
from checkpoints import audit
from checkpoints.access import Reason, RunPrincipal, UserPrincipal
from checkpoints.clock import ClockTimestamp


def forget(row: Approval, by: UserPrincipal | RunPrincipal) -> None:
    """Revoke the rules that were made from this request, in the open transaction.

    The approval that they stand on was taken back, or does not hold any more: another one
    of the same request must not bring them to life again.
    """
    person = by.user_id if isinstance(by, UserPrincipal) else None
    kept = StickyRule.objects.unscoped(Reason.WORKER).filter(
        workspace_id=row.workspace_id, approval=row.pk
    )
    for rule in kept.filter(revoked_at=None):
        live = kept.filter(pk=rule.pk, revoked_at=None)
        if not live.update(revoked_at=ClockTimestamp(), revoked_by_id=person):
            continue  # by somebody else, just now
        via = "worker" if person is None else "web"
        audit.record(by, "sticky_revoke", obj=rule, via=via)
