"""The board as tools: what the agents that work on one thing share while they do.

    register(Agent("planner", model="gpt-4o", system="…", tools=[*BOARD, look_up]))

Whose board it is follows from the run, never from an argument: the branch where the work
began, so a sub-agent works on the board of the run that called it. What is `private` on
it is of the runs on one branch alone. A write names the
version that was read; who was late is told the newer one, reads it and decides again. Who
needs longer between reading and writing locks the name: others are told by whom and until
when, and nobody waits.

A board is its branch's own: a fork has an empty one, and writes there what it writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field, JsonValue

from agents.errors import ToolError
from agents.models import Run
from agents.tools.context import IdempotencyKey, ToolContext
from agents.tools.declare import tool
from agents.tools.declared import Tool, never
from agents.tools.memory import told
from agents.tools.secrets import capture
from checkpoints import entries, entry_locks
from checkpoints.access import Board, Reason, RunPrincipal
from checkpoints.db.prepared import Prepared
from checkpoints.errors import (
    EntryConflict,
    EntryLocked,
    InvalidEntry,
    LockLost,
    NotPermitted,
)
from checkpoints.ids import short
from checkpoints.pure import names

MOST = 50  # entries that a list or a search gives
REFUSED = (InvalidEntry, EntryConflict, EntryLocked, LockLost, NotPermitted)

Namespace = Annotated[
    list[str],
    Field(description='Where it is, from wide to narrow: ["trip", "hotels"].'),
]
Private = Annotated[
    bool,
    Field(description="Your own part, which no other agent sees."),
]


def board_of(run: Run) -> UUID:
    """The branch whose board a run shares: the one where the work began.

    For a sub-agent's branch that is the board of the run that called it, and so on up,
    also for what runs there later. A fork's is its own, whatever its source shares: what
    it writes must not change what others read there.
    """
    return board_of_branch(run.branch_id)


def board_of_branch(branch: UUID) -> UUID:
    """As `board_of`, of the runs on a branch. It never changes: one that a call started
    begins a thread, in one transaction with its branch."""
    found = _FIRST.row({"branch": branch})
    assert found is not None  # it is its own, where nobody called
    return UUID(found[0])


_FIRST = Prepared(f"""
WITH RECURSIVE line (branch, above) AS (
    SELECT %(branch)s::uuid, 0
    UNION ALL
    SELECT caller.branch_id, above + 1
    FROM line
    JOIN {Run._meta.db_table} called
      ON called.branch_id = line.branch AND called.parent_id IS NOT NULL
    JOIN {Run._meta.db_table} caller ON caller.id = called.parent_id
)
SELECT branch::text FROM line ORDER BY above DESC LIMIT 1
""")  # noqa: S608  # our own names; values are parameters


@tool(effect="read", title="Look at the board")
def board_list(
    namespace: Namespace,
    words: Annotated[
        str, Field(description="Only entries with these words, best first.")
    ] = "",
    private: Private = False,
    limit: Annotated[int, Field(ge=1, le=MOST)] = 20,
    *,
    ctx: ToolContext,
) -> dict[str, Any]:
    """See what is on the board that you share with other agents, and what is locked. An
    empty namespace is everywhere."""
    try:
        run, board = _shared(ctx, private)
        below = names.namespace(namespace)
        found = (
            entries.search(run, board, words, below, most=limit)
            if words
            else entries.listed(run, board, below)
        )
        held = [] if private else entry_locks.held(run, board)
    except REFUSED as refused:
        raise ToolError(str(refused)) from refused
    readable = [one for one in found.found if one.name][:limit]
    writers = [one.row.run for one in readable]
    agents = _agents(run, [*writers, *(one.lock.run for one in held)])
    answer: dict[str, Any] = {"entries": [_told(one, agents) for one in readable]}
    if not words and found.total > limit:
        answer["note"] = f"{limit} of {found.total:,}: a longer namespace narrows it."
    locked = [
        {
            "namespace": list(one.name.namespace),
            "key": one.name.key,
            "by": agents.get(one.lock.run) or entry_locks.who(one.lock),
            "until": f"{one.lock.until:%H:%M:%S} UTC",
        }
        for one in held
        if one.name
    ]
    return {**answer, "locked": locked} if locked else answer


@tool(effect="read", title="Read {key} on the board")
def board_read(
    namespace: Namespace, key: str, private: Private = False, *, ctx: ToolContext
) -> dict[str, Any] | str:
    """Read what is on the board under this name, with its version and who wrote it."""
    try:
        run, board = _shared(ctx, private)
        found = entries.get(run, board, names.name(namespace, key))
    except REFUSED as refused:
        raise ToolError(str(refused)) from refused
    if found is None:
        return "Nothing is on the board under that name."
    if found.damage:
        raise ToolError(f"What is there does not open. {found.damage}")
    return _told(found, _agents(run, [found.row.run]))


@tool(
    effect="write",
    idempotent=True,
    risk="low",
    title="Write {key} on the board",
    approve=never,
    reversible="from its history",
    of_branch=True,
)
def board_write(
    namespace: Namespace,
    key: str,
    value: JsonValue,
    expected_version: Annotated[
        int, Field(ge=0, description="As it was read; 0 where there is none yet.")
    ] = 0,
    private: Private = False,
    fence: Annotated[
        int | None,
        Field(ge=1, description="Of your lock of this name; null: it is not locked."),
    ] = None,
    *,
    ctx: ToolContext,
    key_of_call: IdempotencyKey,
) -> str:
    """Write a value on the board. To change one, read it first. If another agent wrote
    meanwhile, nothing is written: read it again, and decide again."""
    try:
        run, board = _shared(ctx, private)
        row = entries.put(
            run,
            board,
            names.name(capture(namespace)[0], capture(key)[0]),
            capture(value)[0],
            expected=expected_version,
            request_key=UUID(key_of_call),
            fence=fence,
        )
    except REFUSED as refused:
        raise ToolError(str(refused)) from refused
    return f"Written, as version {row.version}."


@tool(
    effect="write",
    idempotent=True,
    risk="low",
    title="Lock {key} on the board",
    approve=never,
    reversible="by unlocking it",
    of_branch=True,
)
def board_lock(
    namespace: Namespace,
    key: str,
    seconds: Annotated[
        int, Field(ge=1, le=int(entry_locks.LONGEST.total_seconds()))
    ] = 120,
    *,
    ctx: ToolContext,
    key_of_call: IdempotencyKey,
) -> dict[str, Any]:
    """Keep other agents from writing a name of the board, for as long as you work on it.
    Give the fence with each write. Unlock it when you are done."""
    try:
        run, _ = _shared(ctx)
        lock = entry_locks.take(
            run,
            names.name(capture(namespace)[0], capture(key)[0]),
            lasts=timedelta(seconds=seconds),
            request_key=UUID(key_of_call),
        )
    except REFUSED as refused:
        raise ToolError(str(refused)) from refused
    return {"fence": lock.fence, "until": f"{lock.until:%H:%M:%S} UTC"}


@tool(
    effect="write",
    idempotent=True,
    risk="low",
    title="Unlock {key} on the board",
    approve=never,
    reversible=False,
    of_branch=True,
)
def board_unlock(
    namespace: Namespace,
    key: str,
    fence: Annotated[int, Field(ge=1)],
    *,
    ctx: ToolContext,
) -> str:
    """Let other agents write a name of the board again that you have locked."""
    try:
        run, board = _shared(ctx)
        lock = entry_locks.find(run, board, names.name(namespace, key))
        if lock is not None and entry_locks.release(run, lock, fence=fence):
            return "Unlocked."
    except REFUSED as refused:
        raise ToolError(str(refused)) from refused
    return "You do not hold it with this fence: there is nothing to unlock."


BOARD: tuple[Tool, ...] = (
    board_list,
    board_read,
    board_write,
    board_lock,
    board_unlock,
)


def _shared(ctx: ToolContext, private: bool = False) -> tuple[RunPrincipal, Board]:
    """The run with its board, and the part of it that is asked for."""
    run = Run.objects.for_run(ctx.run).only("branch_id").get(pk=ctx.run.run_id)
    board = Board(board_of(run), line=run.branch_id)
    principal = replace(ctx.run, board=board)
    return principal, board if private else board.public


def _agents(by: RunPrincipal, ids: Iterable[UUID | None]) -> dict[UUID | None, str]:
    """Of runs that wrote or locked here, on whatever thread: agent and run."""
    runs = Run.objects.unscoped(Reason.WORKER).filter(
        workspace=by.workspace_id, pk__in={pk for pk in ids if pk}
    )
    named = runs.values_list("pk", "agent_version__agent__name")
    return {pk: f"{agent}, run {short(pk)}" for pk, agent in named}


def _told(found: entries.Found, agents: Mapping[UUID | None, str]) -> dict[str, Any]:
    return {**told(found), "by": agents.get(found.row.run) or entries.who(found.row)}
