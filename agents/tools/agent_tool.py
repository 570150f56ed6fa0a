"""An agent as a tool of another: the call is done by a run of its own."""

from __future__ import annotations

from dataclasses import replace

from agents.errors import BadDeclaration, ToolError
from agents.tools.declare import tool
from agents.tools.declared import Never, Rule, Tool, never


def agent_tool(
    to: str,
    *,
    name: str = "",
    title: str = "",
    describe: str = "",
    approve: Rule | Never = never,
) -> Tool:
    """Give the agent `to` a task, as a tool that another agent lists.

    The call starts a run of it on a thread of its own; its last message is the result.
    `title` may name `{task}`. What it does is asked about where it does it, so the call
    itself asks nobody, unless `approve` or a policy says so.
    """
    if not to:
        raise BadDeclaration("A sub-agent has a name: agent_tool(to).")

    def delegate(task: str) -> str:
        raise ToolError("This is done by another agent.")

    made = tool(
        name=name or f"ask_{to}".replace("-", "_"),
        effect="write",
        idempotent=True,
        risk="low",
        title=title or f"{to}: {{task}}",
        describe=describe
        or f"Give the agent {to} a task and wait for its answer. It knows nothing of this"
        " conversation: the task says all that it needs.",
        approve=approve,
    )(delegate)
    return replace(made, delegates=to)
