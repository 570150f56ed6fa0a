"""Long-term memory as tools: what an agent keeps for longer than a thread lasts.

    register(Agent("support", model="gpt-4o", system="…", tools=[*MEMORY, refund]))

Whose memory it is follows from whom the run acts for, never from an argument: `scope` says
only whether it is the person's own or the workspace's. A write is a call with effects as
others are, made once under its key. What is kept for everyone asks a person first, unless
a policy says otherwise.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, JsonValue

from agents.errors import ToolError
from agents.tools.context import IdempotencyKey, ToolContext
from agents.tools.declare import tool
from agents.tools.declared import Rule, Tool
from agents.tools.secrets import capture
from checkpoints import entries
from checkpoints.clock import now
from checkpoints.entries import Found
from checkpoints.errors import EntryConflict, InvalidEntry, NotPermitted
from checkpoints.pure import names

MOST = 20  # entries that a search gives
REFUSED = (InvalidEntry, EntryConflict, NotPermitted)

Whose = Annotated[
    Literal["user", "workspace"],
    Field(description="The person's own memory, or that of everyone in the workspace."),
]
Namespace = Annotated[
    list[str],
    Field(description='Where it is, from wide to narrow: ["travellers", "marsh"].'),
]

_FOR_EVERYONE = Rule(
    "memory of the whole workspace",
    when={"path": "/scope", "op": "eq", "value": "workspace"},
)


@tool(effect="read", title="Search memory for {query}")
def memory_search(
    query: str,
    scope: Whose,
    namespace: Namespace,
    limit: Annotated[int, Field(ge=1, le=MOST)] = 5,
    *,
    ctx: ToolContext,
) -> dict[str, Any]:
    """Find what is remembered by its words, best first. An empty namespace is everywhere."""
    try:
        found = entries.search(
            ctx.run,
            scope,
            query,
            names.namespace(namespace),
            most=limit,
            embedder=ctx.embedder,
        )
    except REFUSED as refused:
        raise ToolError(str(refused)) from refused
    answer: dict[str, Any] = {"found": [told(one) for one in found.found]}
    notes = [found.meaning.note] if found.meaning and found.meaning.note else []
    if found.total > entries.SEARCHED:
        notes.append(
            f"Of {found.total:,} entries the {entries.SEARCHED:,} that were written last"
            " were searched. A longer namespace narrows it."
        )
    return answer | ({"note": " ".join(notes)} if notes else {})


@tool(effect="read", title="Recall {key}")
def memory_get(
    scope: Whose, namespace: Namespace, key: str, *, ctx: ToolContext
) -> dict[str, Any] | str:
    """Read what is remembered under this name, with its version."""
    try:
        found = entries.get(ctx.run, scope, names.name(namespace, key))
    except REFUSED as refused:
        raise ToolError(str(refused)) from refused
    if found is None:
        return "Nothing is remembered under that name."
    if found.damage:
        raise ToolError(f"What is remembered there does not open. {found.damage}")
    return told(found)


@tool(
    effect="write",
    idempotent=True,
    risk="low",
    title="Remember {key} for the {scope}",
    approve=_FOR_EVERYONE,
    reversible="from its history",
)
def memory_put(
    scope: Whose,
    namespace: Namespace,
    key: str,
    value: JsonValue,
    expected_version: Annotated[
        int, Field(ge=0, description="As it was read; 0 where there is none yet.")
    ] = 0,
    days: Annotated[
        int | None,
        Field(ge=1, le=3650, description="How long it lasts; null: for good."),
    ] = None,
    *,
    ctx: ToolContext,
    key_of_call: IdempotencyKey,
) -> str:
    """Remember a value under a name, for later threads. To replace one, read it first."""
    try:
        row = entries.put(
            ctx.run,
            scope,
            names.name(capture(namespace)[0], capture(key)[0]),
            capture(value)[0],
            expected=expected_version,
            expires_at=now() + timedelta(days=days) if days else None,
            request_key=UUID(key_of_call),
        )
    except REFUSED as refused:
        raise ToolError(str(refused)) from refused
    return f"Remembered, as version {row.version}."


@tool(
    effect="write",
    idempotent=True,
    risk="low",
    title="Forget {key} of the {scope}",
    approve=_FOR_EVERYONE,
    reversible="from its history, for 30 days",
)
def memory_forget(
    scope: Whose,
    namespace: Namespace,
    key: str,
    *,
    ctx: ToolContext,
    key_of_call: IdempotencyKey,
) -> str:
    """Forget what is remembered under a name, where it is wrong or of no use any more."""
    try:
        entries.delete(
            ctx.run, scope, names.name(namespace, key), request_key=UUID(key_of_call)
        )
    except REFUSED as refused:
        raise ToolError(str(refused)) from refused
    return "Forgotten."


MEMORY: tuple[Tool, ...] = (memory_search, memory_put, memory_get, memory_forget)


def told(found: Found) -> dict[str, Any]:
    """An entry as the agent reads it."""
    assert found.name is not None  # it opened
    ends = found.row.expires_at
    return {
        "namespace": list(found.name.namespace),
        "key": found.name.key,
        "value": found.value,
        "version": found.row.version,
        "written": found.row.created_at.date().isoformat(),
        **({"ends": ends.date().isoformat()} if ends else {}),
    }
