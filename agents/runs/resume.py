"""On what a run goes on that was left off: on the whole conversation, or on the facts.

After a crash as it was: nothing happens. After a long rest, under another version of its
agent, or where a person chose so, a step of kind "resume" says from where on messages are
sent whole; the rest is told as facts (`agents/pure/context`). So what is sent stays a
function of the state, and a fork before that step goes on with all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from agents.models import Run
from agents.pure.context import (
    FACTUAL,
    WHOLE,
    Resumed,
    calls_of,
    facts_until,
    messages_of,
    resumed,
)
from agents.pure.labels import how_long
from agents.pure.step import Step
from agents.tools import Agent
from checkpoints.models import Checkpoint
from checkpoints.pure.codec import State

Kind = Checkpoint.Kind

# What an agent does. Messages and decisions come in before it is known to go on.
_WORK = (
    *(Kind.MODEL, Kind.CODE, Kind.TOOL, Kind.INTERRUPT),
    *(Kind.PROGRESS, Kind.RESUME, Kind.SUMMARY),
)

# For the statement that claims `run`: the last step that a run took on its branch. What a
# fork inherits is not among them: it goes on at once, from where its source was.
LAST_WORK = f"""(
    SELECT created_at, kind, run AS worked, agent_version
    FROM {Checkpoint._meta.db_table}
    WHERE thread_id = run.thread_id AND branch_id = run.branch_id
      AND run IS NOT NULL
      AND kind IN ({", ".join(f"'{kind}'" for kind in _WORK)})
    ORDER BY step DESC LIMIT 1
)"""  # noqa: S608  # our own names and words


class Work(NamedTuple):
    """A step that an agent took, in the order of `LAST_WORK`."""

    at: datetime
    kind: str
    run: UUID
    version: UUID


@dataclass(frozen=True)
class Rest:
    """How long nobody worked on a branch, and which version of its agent did before."""

    lasted: timedelta
    version: UUID


def rest(run: Run, last: Work | None, *, lapsed: bool, now: datetime) -> Rest | None:
    """The rest that ends as this run is claimed. None: no run has worked on the branch.

    `lapsed`: it was running. A run whose worker crashed rests from when that was found
    out, not from its last step: its worker may have been at work since then.
    """
    if last is None:
        return None
    since = last.at
    if last.run == run.pk and last.kind != Kind.INTERRUPT:
        since = now if lapsed else max(since, run.ready_at or since)
    return Rest(now - since, last.version)


def resumption(run: Run, agent: Agent, rest: Rest | None, state: State) -> Step | None:
    """The step that says on what the run goes on; None: on what it went before."""
    if not agent.model:
        return None  # it is sent nothing
    messages = messages_of(state)
    if not messages or (
        messages[-1]["role"] == "assistant" and not calls_of(messages[-1])
    ):
        return None  # there is nothing to think about
    before = resumed(state)
    if (run.resume or agent.resume) == Run.Resume.AS_IS:
        if not run.resume or before is None or not before.tells:
            return None
        whole = Resumed(WHOLE, 0, run=str(run.pk))
        return _step(whole, "Resumed as asked: works from the whole conversation")
    lasted = rest.lasted if rest is not None else timedelta(0)
    rested = changed = None
    if lasted > agent.resume_after:
        rested = int(lasted.total_seconds())
    if rest is not None and rest.version != run.agent_version_id:
        changed = run.agent_version.number
    asked = run.resume and (before is None or before.run != str(run.pk))
    if not (asked or rested is not None or changed is not None):
        return None
    facts = Resumed(
        FACTUAL,
        facts_until(state),
        rested=rested,
        version=changed,
        run=str(run.pk),
        summed=before.summed if before is not None else 0,
        recall=agent.window.recall if agent.window is not None else 0,
    )
    return _step(facts, f"Resumed {_why(facts, run)}: works from the facts")


def _why(facts: Resumed, run: Run) -> str:
    whys = []
    if facts.rested is not None:
        whys.append(f"after {how_long(timedelta(seconds=facts.rested))}")
    if facts.version is not None:
        whys.append(f"as {run.agent_version}")
    return " and ".join(whys) or "as asked"


def _step(how: Resumed, label: str) -> Step:
    return Step(kind=Kind.RESUME, label=label, ops=(how.op(),))
