"""What an app's `agents.py` needs: declare tools and agents, and register them.

from agents.tools import Agent, Rule, register, tool

@tool(effect="external", title="Refund {order}, {amount}")
def refund(order: str, amount: Decimal, *, key: IdempotencyKey) -> dict: ...

register(Agent("support", model="gpt-4o", system="…", tools=[refund]))
"""

from __future__ import annotations

from agents.errors import ToolError
from agents.pure.context import Window
from agents.pure.own import Do, Done, Next, Note, Say, Think
from agents.tools.agent import Agent
from agents.tools.agent_tool import agent_tool
from agents.tools.board import BOARD
from agents.tools.context import IdempotencyKey, ToolContext
from agents.tools.declare import ask, tool
from agents.tools.declared import Fitted, Rule, Tool, never
from agents.tools.files import FILES, Files
from agents.tools.guards import Changed, Found, Invalid, Seen, Unchanged
from agents.tools.large import read_result
from agents.tools.limits import Limits
from agents.tools.memory import MEMORY
from agents.tools.previews import Preview
from agents.tools.registry import register, registry
from agents.tools.turn import Result, Turn
from agents.tools.working import WORKING_MEMORY

__all__ = [
    "BOARD",
    "FILES",
    "MEMORY",
    "WORKING_MEMORY",
    "Agent",
    "Changed",
    "Do",
    "Done",
    "Files",
    "Fitted",
    "Found",
    "IdempotencyKey",
    "Invalid",
    "Limits",
    "Next",
    "Note",
    "Preview",
    "Result",
    "Rule",
    "Say",
    "Seen",
    "Think",
    "Tool",
    "ToolContext",
    "ToolError",
    "Turn",
    "Unchanged",
    "Window",
    "agent_tool",
    "ask",
    "never",
    "read_result",
    "register",
    "registry",
    "tool",
]
