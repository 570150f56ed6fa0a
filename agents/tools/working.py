"""Working memory as tools: an agent that has them keeps its goal, plan and findings itself.

    register(Agent("support", model="gpt-4o", system="…", tools=[*WORKING_MEMORY, refund]))

They change channels of the state and nothing outside it, so they ask nobody and a call is
made again where its worker stopped. Which step set what, and when, is not kept beside it:
the log says so (`checkpoints/pure/blame.py`), and it cannot be wrong there.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field, JsonValue

from agents.errors import ToolError
from agents.pure.memory import size_of
from agents.tools.context import ToolContext
from agents.tools.declare import tool
from agents.tools.declared import Tool

LARGE = 10_000  # characters of it, as JSON: a resumed run is told all of it at once
NAME = 200  # characters of what something is called
MOST = 200  # entries of a list


class PlanStep(BaseModel):
    """One step of the plan."""

    step: str = Field(min_length=1)
    status: Literal["open", "doing", "done", "skipped"] = "open"
    result: str = ""


@tool(effect="none", title="Goal: {goal}")
def set_goal(goal: str, *, ctx: ToolContext) -> str:
    """Say what this work is for, where it is not what the person first asked."""
    ctx.set("goal", goal)
    return _kept(ctx, "The goal is set.")


@tool(effect="none", title="Update the plan")
def update_plan(steps: list[PlanStep], *, ctx: ToolContext) -> str:
    """Write down the whole plan: every step with its status, and what came of it."""
    if len(steps) > MOST:
        raise ToolError(f"A plan has at most {MOST} steps, not {len(steps)}.")
    ctx.set("plan", [step.model_dump() for step in steps])
    is_open = sum(step.status in ("open", "doing") for step in steps)
    return _kept(ctx, f"The plan has {len(steps)} steps, {is_open} of them to be done.")


@tool(effect="none", title="Remember {name}")
def remember_fact(name: str, value: JsonValue, *, ctx: ToolContext) -> str:
    """Remember a finding under a name. The same name again replaces it."""
    ctx.put("facts", _named(name), value)
    return _kept(ctx, f"Remembered: {name}.")


@tool(effect="none", title="Forget {name}")
def forget_fact(name: str, *, ctx: ToolContext) -> str:
    """Take back a fact that turned out to be wrong."""
    _remove(ctx, "facts", name)
    return f"Forgotten: {name}."


@tool(effect="none", title="Decide: {decision}")
def record_decision(decision: str, reason: str, *, ctx: ToolContext) -> str:
    """Write down a decision that matters later, and why it was taken."""
    ctx.append("decisions", {"decision": decision, "reason": reason})
    return _kept(ctx, "The decision is written down.")


@tool(effect="none", title="To do: {item}")
def add_todo(item: str, *, ctx: ToolContext) -> str:
    """Add an open item, to be done before the work is over."""
    todos = _list(ctx, "todos")
    if item in todos:
        return "That item is open already."
    if len(todos) >= MOST:
        raise ToolError(f"{MOST} items are open, which is the most. Finish some first.")
    ctx.append("todos", item)
    return _kept(ctx, f"Open items: {len(todos) + 1}.")


@tool(effect="none", title="Done: {item}")
def finish_todo(item: str, *, ctx: ToolContext) -> str:
    """Take an open item off the list. Give its words exactly."""
    todos = _list(ctx, "todos")
    if item not in todos:
        raise ToolError(f"No open item reads so. Open are: {_quoted(todos)}.")
    todos.remove(item)
    ctx.set("todos", todos)
    return f"Open items: {len(todos)}."


@tool(effect="none", title="Note {name}")
def set_var(name: str, value: JsonValue, *, ctx: ToolContext) -> str:
    """Keep a value for later steps, such as a counter or an id. null takes it away."""
    if value is None:
        _remove(ctx, "vars", name)
        return f"{name} is gone."
    ctx.put("vars", _named(name), value)
    return _kept(ctx, f"{name} is set.")


WORKING_MEMORY: tuple[Tool, ...] = (
    set_goal,
    update_plan,
    remember_fact,
    forget_fact,
    record_decision,
    add_todo,
    finish_todo,
    set_var,
)


def _kept(ctx: ToolContext, said: str) -> str:
    """What was done; and a warning where a resumed run would not be told all of it."""
    size = size_of(ctx.get)
    if size <= LARGE:
        return said
    return (
        f"{said} Working memory has {size:,} characters, more than the {LARGE:,} that it"
        " should: forget what is not needed, and shorten what is."
    )


def _named(name: str) -> str:
    if not 0 < len(name) <= NAME:
        raise ToolError(f"A name has 1 to {NAME} characters, not {len(name)}.")
    return name


def _remove(ctx: ToolContext, channel: str, name: str) -> None:
    known = ctx.get(channel, {})
    if not isinstance(known, dict) or name not in known:
        there = _quoted(known) if known and isinstance(known, dict) else "nothing"
        raise ToolError(f"Nothing is kept under that name. There is: {there}.")
    ctx.remove(channel, name)


def _list(ctx: ToolContext, channel: str) -> list[Any]:
    found = ctx.get(channel, [])
    return found if isinstance(found, list) else []


def _quoted(names: Any) -> str:
    """Names as text for the model, the first of many."""
    told = [str(name)[:NAME] for name in names]
    more = f", and {len(told) - 20} more" if len(told) > 20 else ""
    return ", ".join(f"“{name}”" for name in told[:20]) + more
