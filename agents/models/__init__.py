from __future__ import annotations

from agents.models.agents import Agent, AgentVersion
from agents.models.approvals import Approval, ApprovalNote, Decision, Snooze
from agents.models.delivery import Channel, Delivery, Event
from agents.models.policies import Policy, PolicyUse, StickyRule
from agents.models.prices import Price
from agents.models.runs import Run, ToolCall
from agents.models.workers import Worker

__all__ = [
    "Agent",
    "AgentVersion",
    "Approval",
    "ApprovalNote",
    "Channel",
    "Decision",
    "Delivery",
    "Event",
    "Policy",
    "PolicyUse",
    "Price",
    "Run",
    "Snooze",
    "StickyRule",
    "ToolCall",
    "Worker",
]
