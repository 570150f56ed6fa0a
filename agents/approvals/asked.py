"""What would run, or ran: its arguments, and the title that people read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.models import Approval, ToolCall
from agents.tools.retitled import retitled
from checkpoints.gate import Pass


def asked_of(opener: Pass, call: ToolCall) -> dict[str, Any]:
    """The arguments that are asked for: what a person or a guard put in their place
    counts, also where that is nothing at all. Raises what the gate does."""
    effective: dict[str, Any] | None = opener.open(call, "effective")
    return opener.open(call, "arguments") if effective is None else effective


def title_of(
    approval: Approval, proposed: str, effective: Mapping[str, Any] | None
) -> str:
    """As `retitled`; the request was reached with its run's agent."""
    if effective is None:
        return proposed
    agent = approval.run.agent_version.agent.name
    return retitled(agent, approval.call.tool, proposed, effective)
