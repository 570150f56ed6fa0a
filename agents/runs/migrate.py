"""Old state becomes the agent's current one: a step that keeps what its migrations did.

A run does it when it is taken, before anything else; `manage.py schema` does it for
many branches that nobody works on, and says which stand where.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from agents.models import Run
from agents.pure.step import Step
from agents.tools import Agent
from checkpoints import gate
from checkpoints.access import Reason, SystemPrincipal, unscoped
from checkpoints.errors import (
    CheckpointsError,
    Fenced,
    Shredded,
)
from checkpoints.log import hydrate
from checkpoints.log.append import NewStep, commit, writer
from checkpoints.models import Branch, Checkpoint
from checkpoints.pure import ops, schema
from checkpoints.pure.codec import State


def migration(state: State, agent: Agent) -> Step | None:
    """The step that brings this state up to date; None: it is.

    Raises FutureSchema, MissingMigration and MigrationFailed.
    """
    new = agent.current(state)
    if new is state:
        return None
    return Step(
        kind=Checkpoint.Kind.MIGRATE,
        label=f"State brought from schema version {schema.version(state)} to "
        f"{agent.schema_version}",
        ops=tuple(ops.diff(state, new)),
    )


def migrate_head(branch: Branch, agent: Agent, *, dry_run: bool = False) -> bool:
    """Migrate what stands at the head of a branch that nobody holds. False: it is current.

    Opened by the system, under an access row. Raises Fenced when somebody took the branch
    or went on there meanwhile, what `migration` raises, and what reading raises.
    """
    at = writer(branch)
    opened = gate.admit(
        SystemPrincipal("schema", branch.workspace_id),
        purpose="schema",
        threads=[branch.thread],
        steps=f"0-{branch.head_step}",
    )
    step = migration(hydrate.head_state(opened, branch), agent)
    if step is None:
        return False
    if not dry_run:
        commit(
            at,
            NewStep(
                id=step.id,
                kind=step.kind,
                ops=step.ops,
                label=step.label,
                schema_version=agent.schema_version,
            ),
        )
    return True


@dataclass(frozen=True)
class Standing:
    """How many branches of an agent have a head of one schema version."""

    workspace: str
    agent: str  # empty: nobody has worked there yet
    version: int
    branches: int
    held: int


def standings(workspace_id: UUID | None = None) -> list[Standing]:
    """Who stands where, by what steps say in clear: nothing is opened."""
    with unscoped(Reason.COMMAND):
        found = (
            heads(workspace_id)
            .values_list("workspace__slug", "agent", "version")
            .annotate(
                branches=Count("pk"),
                held=Count("pk", filter=Q(holder__isnull=False)),
            )
            .order_by("workspace__slug", "agent", "version")
        )
        return [Standing(slug, agent or "", *more) for slug, agent, *more in found]


@dataclass(frozen=True)
class Outcome:
    """What became of one branch."""

    branch: Branch
    status: str  # migrated, current, held, shredded, failed
    problem: str = ""


def migrate_heads(
    agent: Agent, *, workspace_id: UUID | None = None, dry_run: bool = False
) -> Iterator[Outcome]:
    """Migrate every head of the agent's that is of an older version, one by one.

    Each is on disk when its outcome comes, and is not met again by a later call.
    """
    after = UUID(int=0)
    while batch := _behind(agent, workspace_id, after):
        for branch in batch:
            yield _migrated(branch, agent, dry_run)
        after = batch[-1].pk


BATCH = 100  # branches that are looked for at a time


def _behind(agent: Agent, workspace_id: UUID | None, after: UUID) -> list[Branch]:
    with unscoped(Reason.COMMAND):
        return list(
            heads(workspace_id)
            .filter(pk__gt=after, agent=agent.name, version__lt=agent.schema_version)
            .select_related("thread")
            .order_by("pk")[:BATCH]
        )


def _migrated(branch: Branch, agent: Agent, dry_run: bool) -> Outcome:
    branch = (
        Branch.objects.unscoped(Reason.COMMAND)
        .select_related("thread")
        .get(pk=branch.pk)
    )
    if branch.holder is not None:
        return Outcome(branch, "held")
    try:
        done = migrate_head(branch, agent, dry_run=dry_run)
    except Fenced:
        return Outcome(branch, "held")
    except Shredded:
        return Outcome(branch, "shredded")
    except CheckpointsError as error:
        return Outcome(branch, "failed", str(error))
    return Outcome(branch, "migrated" if done else "current")


def heads(workspace_id: UUID | None) -> QuerySet[Any]:
    """Branches whose content is here, with the agent that last worked there."""
    runs = Run.objects.order_by("-created_at").values("agent_version__agent__name")
    heads = Branch.objects.filter(thread__pruned_at=None, head__isnull=False)
    if workspace_id is not None:
        heads = heads.filter(workspace_id=workspace_id)
    return heads.annotate(
        agent=Coalesce(
            Subquery(runs.filter(branch=OuterRef("pk"))[:1]),
            Subquery(runs.filter(thread=OuterRef("thread"))[:1]),
        ),
        version=Subquery(
            Checkpoint.objects.filter(pk=OuterRef("head")).values("schema_version")
        ),
    )
