"""An agent's tools: what they take, what they do, and which rule asks first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from agents.models import Policy
from agents.pages.rules import Names, Said, declared, said, span
from agents.tools.declared import Tool
from agents.tools.schema import resolve


@dataclass(frozen=True)
class Argument:
    """One argument that a tool takes, as its schema has it."""

    name: str
    kind: str
    required: bool
    description: str


@dataclass(frozen=True)
class ToolRow:
    tool: Tool
    own: Said  # its own rule, declared in code
    rules: tuple[Said, ...]  # of policies that name it, in their order
    calls: int  # in the last seven days

    @property
    def first(self) -> Said:
        """What is asked first about a call of it."""
        return self.rules[0] if self.rules else self.own

    @property
    def takes(self) -> str:
        return ", ".join(self.tool.schema["properties"]) or "no arguments"

    @property
    def arguments(self) -> list[Argument]:
        needed = set(self.tool.schema.get("required", ()))
        return [
            Argument(
                name,
                _kind(resolve(schema, self.tool.schema)),
                name in needed,
                str(schema.get("description", "")),
            )
            for name, schema in self.tool.schema["properties"].items()
        ]

    @property
    def facts(self) -> list[str]:
        """What it declares about mistakes: undone, found out, made again, looked at."""
        tool, found = self.tool, []
        if tool.guard:
            most = ", ".join(f"{at} {most}" for at, most in tool.tolerance.items())
            found.append(f"guard, tolerates {most}" if most else "guard")
        if tool.preview:
            found.append("preview")
        if tool.reversible is False:
            found.append("cannot be undone")
        elif tool.reversible:
            found.append(f"can be undone {tool.reversible}")
        if tool.has_effects and tool.idempotent:
            found.append("same key, one effect")
        if tool.reconcile:
            found.append("finds out what came of a call")
        if tool.cache:
            found.append(f"cached {span(round(tool.cache.total_seconds()))}")
        if tool.timeout:
            found.append(f"waited for {span(round(tool.timeout.total_seconds()))}")
        return found


def tool_rows(
    tools: Iterable[Tool],
    policies: Iterable[Policy],
    calls: Mapping[str, int],
    groups: Names,
) -> list[ToolRow]:
    """In the order in which the agent has them."""
    ordered = [rule for _, rule in in_order(policies, groups)]
    return [
        ToolRow(
            tool,
            declared(tool.name, tool.rule, tool.question),
            tuple(rule for rule in ordered if _names(rule, tool)),
            calls.get(tool.name, 0),
        )
        for tool in tools
    ]


def in_order(policies: Iterable[Policy], groups: Names) -> list[tuple[Policy, Said]]:
    """Rules as they are asked: those of the agent's own policy, then the workspace's."""
    mine_first = sorted(policies, key=lambda policy: policy.agent_id is None)
    return [
        (policy, said(rule, groups)) for policy in mine_first for rule in policy.rules
    ]


def _names(rule: Said, tool: Tool) -> bool:
    risks = rule.risks
    return fnmatchcase(tool.name, rule.tools) and (not risks or tool.risk in risks)


def _kind(schema: Mapping[str, Any]) -> str:
    """`number, exact`, `one of economy, business`, `list of string`."""
    if "enum" in schema:
        return "one of " + ", ".join(map(str, schema["enum"]))
    if "const" in schema:
        return f"always {schema['const']}"
    if schema.get("format") == "decimal":
        return "number, exact"
    if "format" in schema:
        return str(schema["format"])
    if schema.get("type") == "array":
        items = schema.get("items")
        inner = items.get("type") if isinstance(items, Mapping) else None
        return f"list of {inner}" if inner else "list"
    return str(schema.get("type") or "any")
