"""Index again what threads are found by: states that no run has come to rest on since.

Such are those of branches that ran before their agent declared a field, and of branches
that people forked, edited or brought back and nobody has run since.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from django.db import transaction

from agents.pure.searched import values
from agents.runs.migrate import BATCH, Outcome, heads
from agents.runs.searched import store
from agents.tools import Agent
from checkpoints import gate
from checkpoints.access import Reason, SystemPrincipal, unscoped
from checkpoints.errors import CheckpointsError, Pruned, Shredded
from checkpoints.log import content, hydrate
from checkpoints.models import Branch


def reindex(agent: Agent, *, workspace_id: UUID | None = None) -> Iterator[Outcome]:
    """Every branch where the agent worked last, one by one.

    Outcomes are `indexed`; `held`: a run has it, and will index it; `gone` and `failed`.
    """
    after = UUID(int=0)
    while batch := _of(agent, workspace_id, after):
        for branch in batch:
            yield _indexed(branch, agent)
        after = batch[-1].pk


def _of(agent: Agent, workspace_id: UUID | None, after: UUID) -> list[Branch]:
    with unscoped(Reason.COMMAND):
        return list(
            heads(workspace_id)
            .filter(pk__gt=after, agent=agent.name)
            .select_related("thread")
            .order_by("pk")[:BATCH]
        )


def _indexed(branch: Branch, agent: Agent) -> Outcome:
    try:
        found = _found(branch, agent)
        with transaction.atomic():
            if not _lock(branch):
                return Outcome(branch, "held")
            content.require(branch.thread_id)
            store(branch, found)
    except (Shredded, Pruned):
        return Outcome(branch, "gone")
    except CheckpointsError as error:
        return Outcome(branch, "failed", str(error))
    return Outcome(branch, "indexed")


def _found(branch: Branch, agent: Agent) -> dict[str, str]:
    """Opened by the system, under an access row; not where nothing is declared."""
    if not agent.search_fields:
        return {}
    opened = gate.admit(
        SystemPrincipal("reindex", branch.workspace_id),
        purpose="reindex",
        threads=[branch.thread],
        steps=f"0-{branch.head_step}",
    )
    return values(hydrate.head_state(opened, branch), agent.search_fields)


def _lock(branch: Branch) -> bool:
    """Whether it still stands where it was read, and nobody holds it."""
    same = Branch.objects.unscoped(Reason.COMMAND).filter(
        pk=branch.pk, head=branch.head_id, holder=None
    )
    return same.select_for_update(no_key=True).first() is not None
