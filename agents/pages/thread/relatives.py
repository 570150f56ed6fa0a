"""The runs that a thread's run waits for, or had started, and the one that waits for it."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from agents.models import Run
from agents.pages.thread.subject import Subject
from agents.tools import registry

MOST = 20  # of the newest


@dataclass(frozen=True)
class Relative:
    agent: str
    thread: UUID
    is_live: bool


@dataclass(frozen=True)
class Relatives:
    parent: Relative | None
    children: tuple[Relative, ...]


def relatives(subject: Subject) -> Relatives | None:
    """Of the run that is shown; of threads that the reader sees. None: of no run.

    A query for each side, and none where the run cannot have one.
    """
    run = subject.run
    if run is None:
        return None
    seen = Run.objects.for_user(subject.principal)
    above = seen.filter(pk=run.parent_id) if run.parent_id else seen.none()
    name = run.agent_version.agent.name
    tools = registry.agent(name).tools if name in registry else ()
    has = any(tool.delegates for tool in tools)
    below = seen.filter(parent=run.pk) if has else seen.none()
    columns = ("agent_version__agent__name", "thread", "status")
    parents = [_relative(*row) for row in above.values_list(*columns)]
    children = below.order_by("-created_at").values_list(*columns)[:MOST]
    found = tuple(_relative(*row) for row in children)
    if not parents and not found:
        return None
    return Relatives(parents[0] if parents else None, found)


def _relative(agent: str, thread: UUID, status: str) -> Relative:
    return Relative(agent, thread, status in Run.LIVE)
