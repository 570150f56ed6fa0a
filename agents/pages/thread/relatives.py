"""The runs that a thread's run waits for, or had started, and the one that waits for it."""

from __future__ import annotations

from dataclasses import dataclass

from django.urls import reverse

from agents.models import Run
from agents.pages.delegated import COLUMNS, Relative, has_sub_agents, said
from agents.pages.thread.subject import Subject

MOST = 20  # of the newest


@dataclass(frozen=True)
class Relatives:
    parent: Relative | None = None
    children: tuple[Relative, ...] = ()

    @property
    def waited_for(self) -> str:
        """The agents that the run waits for; "" for none."""
        return said(child.agent for child in self.children if child.is_live)

    @property
    def address(self) -> str:
        """Of the thread of the one that it waits for; "" where there are more, or none."""
        at_work = [child.thread for child in self.children if child.is_live]
        return reverse("agents:thread", args=at_work) if len(at_work) == 1 else ""


ALONE = Relatives()


def relatives(subject: Subject) -> Relatives:
    """Of the run that is shown; of threads that the reader sees.

    A query for each side, and none where the run cannot have one.
    """
    run = subject.run
    if run is None:
        return ALONE
    seen = Run.objects.for_user(subject.principal)
    above = seen.filter(pk=run.parent_id) if run.parent_id else seen.none()
    has = has_sub_agents(run.agent_version.agent.name)
    below = seen.filter(parent=run.pk) if has else seen.none()
    parents = [Relative(*row) for row in above.values_list(*COLUMNS)]
    children = below.order_by("-created_at").values_list(*COLUMNS)[:MOST]
    return Relatives(
        parents[0] if parents else None, tuple(Relative(*row) for row in children)
    )
