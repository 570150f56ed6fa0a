"""Taking a run, and giving it back. Each is a compare-and-set; the row count decides.

A run is held through its branch: fence + 1, holder, worker and a lease by the
database's clock. Locks are taken in the order branch, run.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Coalesce

from agents.errors import UnknownAgent
from agents.models import Run
from agents.tools import Agent, registry
from agents.wake import make_ready
from checkpoints.access import Reason, RunPrincipal, unscoped
from checkpoints.clock import ClockTimestamp
from checkpoints.errors import Fenced
from checkpoints.models import Branch

USED = ["steps", "tokens", "cost", "unpriced", "worked"]  # what the last holder wrote
MAX_ATTEMPTS = 5  # claims in a row that ended without a committed step


class Held(Exception):
    """A person paused the run, or the workspace is halted: nothing is to begin."""


@dataclass(frozen=True)
class Claim:
    """A run that this worker holds, and its branch as it stood when it was taken."""

    run: Run
    branch: Branch
    agent: Agent
    lease: timedelta

    @property
    def principal(self) -> RunPrincipal:
        """The run, acting for the person who started it."""
        return RunPrincipal(
            run_id=self.run.pk,
            workspace_id=self.run.workspace_id,
            thread_id=self.run.thread_id,
            grant_id=self.run.grant_id,
        )

    @property
    def exhausted(self) -> bool:
        """Whether it was taken too often without getting anywhere."""
        return self.run.attempts > MAX_ATTEMPTS


def lease() -> timedelta:
    """How long a holder that does not renew keeps its branch."""
    return timedelta(seconds=settings.LEASE_SECONDS)


def claim(run_id: UUID, worker: str) -> Claim | None:
    """Take the run: it is ready and due, or its holder's lease lapsed. None: not ours.

    No SKIP LOCKED: a ring that met a passing lock would be dropped.
    """
    with unscoped(Reason.WORKER), transaction.atomic():
        run = (
            Run.objects.select_related("branch", "agent_version__agent", "workspace")
            .filter(pk=run_id, status__in=[Run.Status.READY, Run.Status.RUNNING])
            .first()
        )
        if run is None or run.workspace.halted_at is not None:
            return None
        try:
            agent = registry.agent(run.agent_version.agent.name)
        except UnknownAgent:
            return None  # another worker may have it
        now = ClockTimestamp()
        branch = run.branch
        if not Branch.objects.take(
            branch.pk, holder=run.pk, worker=worker, lease=lease()
        ):
            return None
        started = Run.objects.filter(
            Q(wake_at=None) | Q(wake_at__lte=now),
            pk=run.pk,
            paused_at=None,
            status__in=[Run.Status.READY, Run.Status.RUNNING],
        ).update(
            status=Run.Status.RUNNING,
            worker=worker,
            attempts=F("attempts") + 1,
            rings=0,
            rung_at=None,
            wake_at=None,
            started_at=Coalesce("started_at", now),
        )
        if not started:
            transaction.set_rollback(True)
            return None
        branch.refresh_from_db()
        run.refresh_from_db(
            fields=["status", "attempts", "cancel_requested", "started_at", *USED]
        )
    return Claim(run=run, branch=branch, agent=agent, lease=lease())


def let_go(claim: Claim) -> None:
    """End the lease, inside the transaction that says why. Raises Fenced."""
    held = Branch.objects.for_run(claim.principal)
    if not held.release(claim.branch.pk, fence=claim.branch.fence):
        raise Fenced("Another worker holds the branch.")


def give_back(claim: Claim, *, blameless: bool) -> None:
    """Leave the run, between two steps, to the next worker. Raises Fenced.

    Blameless: it does not count as an attempt that got nowhere.
    """
    with transaction.atomic():
        let_go(claim)
        if blameless:
            Run.objects.for_run(claim.principal).filter(
                pk=claim.run.pk, attempts__gt=0
            ).update(attempts=F("attempts") - 1)
        make_ready(claim.run.pk, was=Run.Status.RUNNING, fence=claim.branch.fence)
