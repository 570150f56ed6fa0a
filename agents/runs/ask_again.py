"""A model's step asked again: the same request several times, to see how far answers agree.

Each answer is a fork from the step before, with a run that asks once and does nothing else
(`Run.asks`, docs/decisions/0034): so it is claimed, limited, halted, retried and priced as
any other, and a worker that dies loses nothing. The step's own branch is not touched, and
no call of an answer is begun.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid5

from agents.errors import NotAskable
from agents.models import AgentVersion
from agents.runs.begin import require_operator
from agents.runs.edits import ForkEdits
from agents.runs.source import open_source
from agents.runs.start import fork_run
from checkpoints.access import Actor, Reason
from checkpoints.log import hydrate
from checkpoints.models import Branch, Checkpoint

LEAST, MOST = 2, 10  # answers that are asked for at once
SEEDS = 2**31  # that a new seed is drawn from; more than some providers take


def ask_again(
    step: Checkpoint,
    *,
    times: int,
    by: Actor,
    request_key: UUID,
    new_seeds: bool = False,
    max_cost: Decimal | None = None,
) -> list[Branch]:
    """Have the model asked `times` times what it was asked for this step.

    The request is made from the state before the step, as the step's was; only tools are
    offered as the agent's code declares them now. `new_seeds`: each with a seed of its own,
    and else as it was. `max_cost` is what all answers that were ever asked for of this step
    may cost together, in US dollars; the agent's limit of a run holds as well.

    `step` comes with its parent, and that with its branch and thread. Sent again, it makes
    what is missing, and nothing twice. Raises NotAskable, NotPermitted, UnknownAgent,
    InvalidEdit and what `open_source` raises.
    """
    require_operator(by)
    if not LEAST <= times <= MOST:
        raise ValueError(f"{times} answers: from {LEAST} to {MOST} are asked for.")
    before = step.parent
    # What was imported was asked elsewhere.
    if step.kind != Checkpoint.Kind.MODEL or before is None or step.run is None:
        raise NotAskable(step.step)
    # The agent that took the step, whoever works on the thread by now.
    asked = _agent(step)
    source = open_source(before, by=by)
    [record] = hydrate.records(
        source.seen, step.branch, first=step.step, last=step.step
    )
    if is_folded(record.context):
        raise NotAskable(step.step, folded=True)
    return [
        fork_run(
            before,
            source=source,
            edits=ForkEdits(seed=_seed(source.state) if new_seeds else None),
            name=f"answer {number} to step {step.step}",
            by=by,
            request_key=uuid5(request_key, f"answer {number}"),
            agent=asked,
            max_cost=max_cost,
            asks=step,
        )
        for number in range(1, times + 1)
    ]


def is_folded(context: Mapping[str, Any] | None) -> bool:
    """Whether a step, by its context, keeps others that were taken before it (`at_exit`)."""
    return bool((context or {}).get("folded"))


def _agent(step: Checkpoint) -> str:
    """The name of the agent that took the step; "" where the step says none."""
    if step.agent_version is None:
        return ""
    versions = AgentVersion.objects.unscoped(Reason.WORKER).filter(
        pk=step.agent_version, workspace_id=step.workspace_id
    )
    return versions.values_list("agent__name", flat=True).first() or ""


def _seed(state: dict[str, Any]) -> int:
    """Another than the state has."""
    params = state.get("params")
    was = params.get("seed") if isinstance(params, dict) else None
    while (drawn := secrets.randbelow(SEEDS)) == was:
        pass
    return drawn
