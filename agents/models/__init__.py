from __future__ import annotations

from agents.models.agents import Agent, AgentVersion
from agents.models.approvals import Approval, Decision
from agents.models.prices import Price
from agents.models.runs import Run, ToolCall
from agents.models.workers import Worker

__all__ = [
    "Agent",
    "AgentVersion",
    "Approval",
    "Decision",
    "Price",
    "Run",
    "ToolCall",
    "Worker",
]
