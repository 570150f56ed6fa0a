"""Runs that calls of other runs have started: whom a run waits for, and where that one is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from agents.models import Run, ToolCall
from agents.tools import registry
from checkpoints.access import UserPrincipal


@dataclass(frozen=True)
class Relative:
    """A run's agent, its thread, and how it stands."""

    agent: str
    thread: UUID
    status: str

    @property
    def is_live(self) -> bool:
        return self.status in Run.LIVE


COLUMNS = ("agent_version__agent__name", "thread", "status")  # of a Relative


def has_sub_agents(agent: str) -> bool:
    """Whether runs of it can have had others started."""
    tools = registry.agent(agent).tools if agent in registry else ()
    return any(tool.delegates for tool in tools)


def delegated_to(tool: str) -> str:
    """The agent that calls of a tool are put to; "" where they are put to none."""
    return _delegating().get(tool, "")


def _delegating() -> dict[str, str]:
    """The tools that are agents: by their names, whom they are put to."""
    found: dict[str, str] = {}
    for agent in registry.as_registered():
        for tool in agent.tools:
            if tool.delegates and found.setdefault(tool.name, tool.delegates) != (
                tool.delegates
            ):
                found[tool.name] = "another agent"
    return found


def waited_for(
    by: UserPrincipal, runs: Iterable[Run]
) -> Mapping[UUID, Sequence[Relative]]:
    """Of those that wait: the runs that they wait for. No query where none can."""
    asked = [
        run.pk
        for run in runs
        if run.status == Run.Status.WAITING
        and has_sub_agents(run.agent_version.agent.name)
    ]
    found: dict[UUID, list[Relative]] = {}
    if asked:
        below = Run.objects.for_user(by).filter(parent__in=asked, status__in=Run.LIVE)
        rows = below.order_by("created_at").values_list("parent", *COLUMNS)
        for parent, *columns in rows:
            found.setdefault(parent, []).append(Relative(*columns))
    return found


def children_of(
    by: UserPrincipal, calls: Iterable[ToolCall]
) -> Mapping[UUID, Relative]:
    """By the call: the run that did it, or whose answer a fork used. No query where none
    of these calls is put to an agent."""
    delegating = _delegating()
    started = {
        call.pk: call.recorded_from_id or call.pk
        for call in calls
        if call.tool in delegating
    }
    if not started:
        return {}
    ids = set(started.values())
    # By the key that each was started with, which has an index.
    runs = Run.objects.for_user(by).filter(request_key__in=ids, parent_call__in=ids)
    rows = runs.values_list("parent_call", *COLUMNS)
    found = {call: Relative(*columns) for call, *columns in rows}
    return {call: found[of] for call, of in started.items() if of in found}


def said(agents: Iterable[str]) -> str:
    """Each once: “researcher”, “researcher and auditor”, “3 agents”."""
    each = list(dict.fromkeys(agents))
    return " and ".join(each) if len(each) <= 2 else f"{len(each)} agents"
