"""What an app's `agents.py` needs: declare tools and agents, and register them.

from agents.tools import Agent, Rule, register, tool

@tool(effect="external", title="Refund {order}, {amount}")
def refund(order: str, amount: Decimal, *, key: IdempotencyKey) -> dict: ...

register(Agent("support", model="gpt-4o", system="…", tools=[refund]))
"""

from __future__ import annotations

from agents.errors import ToolError
from agents.tools.context import IdempotencyKey, ToolContext
from agents.tools.declare import Agent, Fitted, Rule, Tool, ask, never, tool
from agents.tools.limits import Limits
from agents.tools.registry import register, registry

__all__ = [
    "Agent",
    "Fitted",
    "IdempotencyKey",
    "Limits",
    "Rule",
    "Tool",
    "ToolContext",
    "ToolError",
    "ask",
    "never",
    "register",
    "registry",
    "tool",
]
