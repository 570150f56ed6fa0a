"""Grants end when the person, or the session that made them, may no longer act.

A revoked grant opens nothing more: a run that acted under it waits until somebody who
may operate takes it over. Each use asks anew anyway (`gate`); revoking makes it visible
at once, and for good: who is let in again does not get old grants back.
"""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.db.models import Q

from checkpoints import audit
from checkpoints.access import Actor, Reason, ServicePrincipal
from checkpoints.clock import ClockTimestamp
from checkpoints.db.session import recording
from checkpoints.models import Grant


def token_of(by: Actor) -> UUID | None:
    """The token of a program; None: a person asks."""
    return by.token_id if isinstance(by, ServicePrincipal) else None


def grant_for(by: Actor, thread_id: UUID) -> Grant:
    """Let runs of this thread act for a person or a program, in the open transaction."""
    return Grant.objects.create(
        workspace_id=by.workspace_id,
        thread_id=thread_id,
        user_id=by.user_id,
        token_id=token_of(by),
        session=by.session,
    )


def revoke(
    which: Q,
    *,
    workspace_id: UUID,
    why: str,
    via: str,
    by_id: int | None = None,
) -> int:
    """End the workspace's grants that this is true of; gives how many there were.

    One event says so, in the transaction that ends them.
    """
    with recording(workspace_id), transaction.atomic():
        ended = (
            Grant.objects.unscoped(Reason.GATE)
            .filter(which, workspace_id=workspace_id, revoked_at=None)
            .update(revoked_at=ClockTimestamp())
        )
        if ended:
            audit.record(
                None,
                "revoke",
                workspace_id=workspace_id,
                actor_id=by_id,
                purpose=why,
                via=via,
                grants=ended,
            )
    return ended
