"""What an agent was: its versions, and what two of them differ in.

The list shows numbers and dates. What a version holds is sealed; it is opened through
the gate, which records it, when somebody asks to see it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Count
from django.http import QueryDict

from agents.models import AgentVersion, Run
from agents.models.agents import Agent
from agents.pages.damage import DAMAGE
from agents.pages.thread.diff import DiffView, diff_view
from checkpoints import gate
from checkpoints.access import UserPrincipal
from checkpoints.pure.compare import compare

MOST = 100  # versions in the list


@dataclass(frozen=True)
class Line:
    """One version in the list."""

    version: AgentVersion
    runs: int
    before: int | None  # the number of the version before it


@dataclass(frozen=True)
class Opened:
    """One version, or what changed from `base` to it."""

    at: AgentVersion
    base: AgentVersion | None = None
    spec: dict[str, Any] | None = None
    diff: DiffView | None = None
    broken: str = ""


def lines(principal: UserPrincipal, agent: Agent, *, most: int = MOST) -> list[Line]:
    """Newest first, with the runs of each that this person may see. Two statements."""
    found = list(
        AgentVersion.objects.for_user(principal)
        .filter(agent=agent)
        .defer("spec")
        .order_by("-number")[: most + 1]
    )
    runs = dict(
        Run.objects.for_user(principal)
        .filter(agent_version__in=found)
        .order_by()
        .values_list("agent_version")
        .annotate(n=Count("pk"))
    )
    before = [*(version.number for version in found[1:]), None]
    return [
        Line(version, runs.get(version.pk, 0), before[n])
        for n, version in enumerate(found[:most])
    ]


def opened(principal: UserPrincipal, agent: Agent, query: QueryDict) -> Opened | None:
    """What an address asks for: `?at=3`, or `?at=3&base=2`. None: nothing that is there.

    Raises NotPermitted for who may not open state.
    """
    wanted = [_number(query.get(name, "")) for name in ("at", "base")]
    found = {
        version.number: version
        for version in AgentVersion.objects.for_user(principal).filter(
            agent=agent, number__in=[number for number in wanted if number]
        )
    }
    at, base = (found.get(number) if number else None for number in wanted)
    if at is None or (wanted[1] and base is None):
        return None
    seen = gate.admit(principal, purpose="agent version")
    rows = [at] if base is None else [base, at]
    try:
        specs = [by_name(spec or {}) for spec in seen.open_all(rows, "spec")]
    except DAMAGE as damage:
        return Opened(at, base, broken=str(damage))
    if base is None:
        return Opened(at, spec=specs[0])
    return Opened(at, base, diff=difference(*specs))


def difference(old: dict[str, Any], new: dict[str, Any]) -> DiffView:
    """What two versions differ in, by path. Each is what `by_name` gives."""
    return diff_view(compare(old, new))


def by_name(spec: dict[str, Any]) -> dict[str, Any]:
    """With each tool under its name, so that a change of one is not a move of others."""
    tools = spec.get("tools")
    if not isinstance(tools, list):
        return spec
    return {**spec, "tools": {str(tool.get("name")): tool for tool in tools}}


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else None
