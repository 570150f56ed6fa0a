"""Taking a run, and giving it back. Each is a compare-and-set; the row count decides.

A run is held through its branch: fence + 1, holder, worker and a lease by the
database's clock. Locks are taken in the order branch, run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F

from agents import models
from agents.models import AgentVersion, Run
from agents.policies.stored import IN_FORCE, InForce
from agents.runs.beside import WAITING
from agents.runs.resume import LAST_WORK, Rest, Work, rest
from agents.runs.searched import Seen
from agents.runs.stop import stop_or_make_ready
from agents.tools import Agent, registry
from agents.wake import ring
from checkpoints.access import Reason, RunPrincipal
from checkpoints.db import rows
from checkpoints.db.prepared import Prepared
from checkpoints.errors import Fenced
from checkpoints.log.rules import MOST_STEPS
from checkpoints.models import Branch, Checkpoint, Workspace

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
    policies: InForce  # as they were when the run was taken
    version: bytes  # the digest of the version that worked on it last, or is to begin
    rest: Rest | None = None  # of the branch until now; None: no run worked there
    # As it was when the run was taken:
    schema_version: int | None = None  # of the state at the head
    most_steps: int | None = None  # of the thread, by its policy; None: no limit
    messages: bool = True  # whether there are some that no step holds
    seen: Seen = field(default_factory=lambda: Seen({}), repr=False, compare=False)

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


def claim(run_id: UUID, worker: str, *, queue: str = "") -> Claim | None:
    """Take the run: it is ready and due, or its holder's lease lapsed. None: not ours.

    Or one that goes first: of a higher priority and ready in the same queue, unless this
    one has been ready for as long as `Run.YIELDS`. `queue`: only a run of that one.

    One statement, and one answer with all that the holder needs to know of the two rows.
    No SKIP LOCKED: a ring that met a passing lock would be dropped.
    """
    return _claim(run_id, worker, queue=queue, yields=True)


def _claim(run_id: UUID, worker: str, *, queue: str, yields: bool) -> Claim | None:
    cursor = _CLAIM.execute(
        {
            "run": run_id,
            "worker": worker,
            "lease": lease().total_seconds(),
            "agents": [agent.name for agent in registry],
            "queue": queue,
            "yields": yields,
        }
    )
    found = cursor.fetchone()
    if found is None:
        return None
    *found, wanted = found
    if found[0] is None:
        # Another worker was faster. If that was with a run that goes first, ours is left.
        if wanted == run_id:
            return None
        return _claim(run_id, worker, queue=queue, yields=False)
    own = len(Branch._meta.concrete_fields)
    branch = rows.made(Branch, found[:own])
    started, more = found[own:-_MORE], found[-_MORE:]
    agent, version, was, schema_version, most_steps, messages, *more = more
    agent_id, policies, *last = more
    if started[0] is None:
        # Its run was paused or ended just then, by who had the row locked.
        _leave(branch)
        # If it was to go first, ours is left.
        if wanted == run_id:
            return None
        return _claim(run_id, worker, queue=queue, yields=False)
    run = rows.made(Run, started)
    assert branch.lease_until is not None  # it was just set
    rested = rest(
        run,
        Work(*last) if last[0] is not None else None,
        lapsed=was == Run.Status.RUNNING,
        now=branch.lease_until - lease(),
    )
    return Claim(
        run,
        branch,
        registry.agent(agent),
        lease(),
        InForce.of(run.workspace_id, agent_id, policies),
        bytes(version),
        rest=rested,
        schema_version=schema_version,
        most_steps=most_steps,
        messages=messages,
        seen=Seen(registry.agent(agent).search_fields),
    )


def _leave(branch: Branch) -> None:
    """Let go of a branch that was taken for nothing, and ring for what came meanwhile.

    A run that is resumed, or takes its place, rings at once: who heard that found the
    branch held.
    """
    Branch.objects.unscoped(Reason.WORKER).release(branch.pk, fence=branch.fence)
    for run in Run.objects.unscoped(Reason.WORKER).due().filter(branch=branch.pk):
        ring(run.pk, fence=branch.fence, n=0, on=run.queue)


_MORE = 8 + len(Work._fields)  # columns that follow those of the two rows
_DUE = """status IN ('ready', 'running') AND run.paused_at IS NULL
      AND (run.wake_at IS NULL OR run.wake_at <= clock_timestamp())"""

_OURS = f"""
    JOIN {Workspace._meta.db_table} here ON here.id = run.workspace_id
    JOIN {AgentVersion._meta.db_table} version ON version.id = run.agent_version_id
    JOIN {models.Agent._meta.db_table} agent ON agent.id = version.agent_id
    WHERE run.{_DUE}
      AND here.halted_at IS NULL
      AND agent.name = ANY(%(agents)s::text[])
"""  # our own names; values are parameters

# Branch first, then run: the order of locks. The run's row may have changed while its
# lock was waited for, so it is asked about twice; then there is a branch and no run.
_CLAIM = Prepared(f"""
WITH named AS (
    SELECT * FROM {Run._meta.db_table}
    WHERE id = %(run)s AND (%(queue)s::text = '' OR queue = %(queue)s::text)
), first AS (
    SELECT run.id
    FROM named JOIN {Run._meta.db_table} run
      ON run.queue = named.queue AND run.priority < named.priority
      AND run.status = 'ready'
    {_OURS}
      AND %(yields)s::boolean AND named.status = 'ready'
      AND named.ready_at > clock_timestamp()
          - make_interval(secs => {Run.YIELDS.total_seconds()})
    ORDER BY run.priority, run.ready_at
    LIMIT 1
), wanted AS (
    SELECT run.id, run.branch_id, agent.name, version.digest, run.status AS was,
           {MOST_STEPS} AS most_steps, agent.id AS agent_id,
           {IN_FORCE.format(workspace="run.workspace_id", agent="agent.id")} AS policies,
           last.*
    FROM named JOIN {Run._meta.db_table} run
      ON run.id = coalesce((SELECT id FROM first), named.id)
    LEFT JOIN LATERAL {LAST_WORK} last ON true
    {_OURS}
), held AS (
    UPDATE {Branch._meta.db_table} branch
    SET fence = fence + 1,
        holder = wanted.id,
        worker = %(worker)s,
        lease_until = clock_timestamp() + make_interval(secs => %(lease)s)
    FROM wanted
    WHERE branch.id = wanted.branch_id
      AND (branch.holder IS NULL OR branch.lease_until <= clock_timestamp())
    RETURNING {rows.columns(Branch, "branch")}
), started AS (
    UPDATE {Run._meta.db_table} run
    SET status = 'running',
        worker = %(worker)s,
        attempts = attempts + 1,
        rings = 0,
        rung_at = NULL,
        wake_at = NULL,
        started_at = coalesce(started_at, clock_timestamp())
    FROM held
    WHERE run.id = held.holder AND run.{_DUE}
    RETURNING {rows.columns(Run, "run")}
)
SELECT {rows.columns(Branch, "held")}, {rows.columns(Run, "started")}, wanted.name,
       wanted.digest, wanted.was, head.schema_version, wanted.most_steps,
       {WAITING.format(branch="held.id")}, wanted.agent_id, wanted.policies,
       wanted.created_at, wanted.kind, wanted.worked, wanted.agent_version, wanted.id
FROM wanted
LEFT JOIN held ON true
LEFT JOIN started ON true
LEFT JOIN {Checkpoint._meta.db_table} head ON head.id = held.head_id
""")  # noqa: S608  # our own names; values are parameters


def let_go(claim: Claim) -> None:
    """End the lease, inside the transaction that says why. Raises Fenced."""
    held = Branch.objects.for_run(claim.principal)
    if not held.release(claim.branch.pk, fence=claim.branch.fence):
        raise Fenced("Another worker holds the branch.")
    claim.seen.keep(claim.branch, claim.principal)


def give_back(claim: Claim, *, blameless: bool) -> None:
    """Leave the run, between two steps, to the next worker. Raises Fenced.

    It is over instead where that was asked for since we last looked.

    Blameless: it does not count as an attempt that got nowhere.
    """
    with transaction.atomic():
        let_go(claim)
        if blameless:
            Run.objects.for_run(claim.principal).filter(
                pk=claim.run.pk, attempts__gt=0
            ).update(attempts=F("attempts") - 1)
        stop_or_make_ready(claim.run.pk, fence=claim.branch.fence)
