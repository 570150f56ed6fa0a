"""The title of a call that would run, or ran, with other arguments than it was asked with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.errors import UnknownAgent, UnknownTool
from agents.tools.registry import registry


def retitled(
    agent: str, tool: str, proposed: str, effective: Mapping[str, Any] | None
) -> str:
    """`proposed` is the call's own title, as the agent asked; `effective` are the
    arguments in the place of the proposed ones, where a person or a guard put some.

    The call's own also where this server does not know the tool.
    """
    if effective is None:
        return proposed
    try:
        return registry.tool(agent, tool).title(effective)
    except (UnknownAgent, UnknownTool):
        return proposed
