"""A guard looks and a preview is made: foreign code, beside us and with a limit of time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings

from agents.approvals import guards, recheck
from agents.approvals.guards import Look
from agents.errors import UnknownAgent, UnknownTool
from agents.models import Approval
from agents.policies.judge import NOT_ALLOWED, Judge
from agents.policies.stored import in_force
from agents.pure.terms import Demand
from agents.runs.aside import GivenUp, aside
from agents.runs.execute import RAISED
from agents.tools import Changed, Found, Invalid, Tool, ToolContext, Unchanged, registry
from agents.tools.guards import Seen
from agents.tools.secrets import capture
from checkpoints import clock, gate
from checkpoints.access import RunPrincipal
from checkpoints.errors import CheckpointsError
from checkpoints.pure.codec import same

logger = logging.getLogger(__name__)

SECONDS = 20.0  # that a guard may take, and a preview: people wait for it

Enough = Callable[[], bool]
T = TypeVar("T")


def look(
    tool: Tool,
    arguments: dict[str, Any],
    seen: Seen = None,
    *,
    before: dict[str, Any] | None = None,
    call: UUID,
    enough: Enough = lambda: False,
) -> Look:
    """What there is to ask people about a call. Raises GivenUp where `enough()` says so.

    `seen` are the values that the guard gave before, and `before` what it had found.
    """
    looked = Look(arguments)
    if tool.guard is not None:
        found = _beside(
            lambda: tool.look(arguments, seen, ToolContext({})), tool, call, enough
        )
        safe = None if found is None else _without_secrets(found)
        looked = guards.judge(tool, arguments, seen, safe, before=before)
    if tool.preview is not None:
        asked = looked.arguments
        shown = _beside(lambda: tool.show(asked, ToolContext({})), tool, call, enough)
        preview = {"kind": "failed"} if shown is None else capture(shown)[0]
        looked = replace(looked, preview=preview)
    return looked


def check(approval_id: UUID) -> None:
    """Look again at a request that someone opened, and put on it what was found.

    Whoever lacks its tool, or comes when it is decided, leaves it alone.
    """
    row = guards.waiting_for(approval_id)
    if row is None:
        return
    try:
        tool = registry.tool(row.run.agent_version.agent.name, row.call.tool)
    except (UnknownAgent, UnknownTool):
        return
    principal = RunPrincipal(
        row.run_id, row.workspace_id, row.thread_id, row.run.grant_id
    )
    try:
        again = look_again(row, tool, principal)
    except CheckpointsError as error:
        # Its keys are away, or whom the run acts for may no longer read it.
        ids = {"ids": {"approval": row.pk}}
        logger.warning(
            "a request was not checked (%s)", type(error).__name__, extra=ids
        )
        return  # the reaper asks again, and says so in the end
    put_on(row, again, tool, principal)


@dataclass(frozen=True)
class Again:
    """What is found now, and whether that is something else to ask about."""

    found: Look
    is_other: bool
    at: datetime  # when we began to look
    proposed: dict[str, Any] = field(repr=False)
    demand: Demand | None = None  # what rules want for other arguments
    same_preview: bool = False


def look_again(row: Approval, tool: Tool, principal: RunPrincipal) -> Again:
    """Raises CheckpointsError."""
    opener = gate.admit(principal, purpose="guard", threads=[row.thread])
    proposed: dict[str, Any] = opener.open(row.call, "arguments")
    arguments = opener.open(row.call, "effective")
    if arguments is None:
        arguments = proposed
    seen = opener.open(row, "guard_seen")
    before = opener.open(row, "guard_found")
    at = clock.now()
    found = look(tool, arguments, seen, before=before, call=row.call_id)
    if same(found.arguments, arguments):
        is_other = not found.is_about(arguments, seen)
        was = opener.open(row, "preview")
        return Again(
            found, is_other, at, proposed, same_preview=same(found.preview, was)
        )
    rules = in_force(row.workspace_id, row.run.agent_version.agent)
    outcome = Judge(row.run, rules, opener).judge(
        row.call, tool, found.arguments, free=False
    )
    if outcome.kind in ("auto_reject", "stop_run"):
        found = recheck.refused(found, outcome.message or NOT_ALLOWED)
    return Again(found, True, at, proposed, outcome.demand if outcome.asks else None)


def put_on(row: Approval, again: Again, tool: Tool, principal: RunPrincipal) -> bool:
    """Put it on the request. False where that is another one by now."""
    if not again.is_other:
        return recheck.found_same(
            row,
            again.found,
            principal,
            at=again.at,
            same_preview=again.same_preview,
        )
    return recheck.found_other(
        row,
        again.found,
        principal,
        tool=tool,
        proposed=again.proposed,
        demand=again.demand,
    )


def _beside(act: Callable[[], T], tool: Tool, call: UUID, enough: Enough) -> T | None:
    """What it gives; None where it raised, gave nonsense, or was not over in time."""
    try:
        return aside(act, seconds=_seconds(tool), enough=enough)
    except GivenUp:
        raise
    except RAISED as error:
        # The edge of foreign code. What it says may be state: nobody is told.
        logger.warning(
            "a guard or preview failed (%s)",
            type(error).__name__,
            extra={"ids": {"call": call, "tool": tool.name}},
        )
        return None


def _seconds(tool: Tool) -> float:
    if tool.timeout is not None:
        return min(SECONDS, tool.timeout.total_seconds())
    return min(SECONDS, settings.TOOL_TIMEOUT_SECONDS)


def _without_secrets(found: Found) -> Found:
    match found:
        case Unchanged(values):
            return Unchanged(capture(values)[0])
        case Changed(old, new, text, arguments):
            return Changed(*capture([old, new, text, arguments])[0])
        case Invalid(text):
            return Invalid(capture(text)[0])
