"""One call, made: what it gave, what it refused, and what to do when it broke."""

from __future__ import annotations

import logging
import time
from typing import Any
from uuid import UUID

from agents.errors import AgentsError, ArgumentsDoNotFit, ResultNotKept, ToolError
from agents.pure.engine import ToolOutcome
from agents.tools import Tool, ToolContext
from agents.tools.context import Recall
from checkpoints.errors import StoreUnavailable
from checkpoints.pure.codec import State

logger = logging.getLogger(__name__)

TRIES = 3  # of one call that broke and may be repeated
PAUSE = 0.5  # seconds before the second try; doubles

IN_DOUBT = (
    "Whether this happened is not known: the worker stopped, or the call broke, after "
    "it had begun. It was not tried again."
)


class CallBroke(AgentsError):
    """A call that may be repeated broke each time. It stays open: its key is kept.

    Trying the run again makes the same call with the same key, which has its effect
    once, however often it got through.
    """

    code = "tool_broke"
    status = 502
    retry = True


class CallInDoubt(AgentsError):
    """A call that must not happen twice broke, and may have had its effect.

    The message is the name of what was raised. The call stays `executing`: considered
    anew, its tool is asked what came of it, or a person is.
    """

    code = "outcome_unknown"


def once(tool: Tool) -> bool:
    """Whether a second try could be a second effect."""
    return tool.has_effects and not tool.idempotent


def execute(
    tool: Tool,
    arguments: dict[str, Any],
    *,
    key: UUID,
    title: str,
    state: State,
    recall: Recall = lambda value: value,
) -> ToolOutcome:
    """Call the tool. Raises CallBroke, CallInDoubt, and StoreUnavailable when the tool
    asked for working memory that cannot be read now, and may be called again.

    A tool refuses with ToolError. Any other exception says nothing about whether the
    effect took place: then it is tried again, where that is harmless, or is in doubt.
    """
    started = time.monotonic()
    for tried in range(1, TRIES + 1):
        context = ToolContext(state, recall, memory=tool.cache is None)
        try:
            content = tool.execute(arguments, key=str(key), context=context)
        except (ToolError, ArgumentsDoNotFit) as refused:
            return _refused(tool, refused, title, _since(started))
        except ResultNotKept as lost:
            # It was called: whatever its effect is, it took place.
            return _refused(tool, lost, title, _since(started))
        except Exception as error:
            # The edge of foreign code. What it says may be state: into the step only.
            logger.warning(
                "a tool raised %s",
                type(error).__name__,
                extra={"ids": {"call": key, "tool": tool.name}},
            )
            if isinstance(error, StoreUnavailable) and not once(tool):
                raise
            if not tool.has_effects:
                return _raised(tool, error, title, _since(started))
            if once(tool):
                raise CallInDoubt(type(error).__name__) from error
            if tried == TRIES:
                raise CallBroke(
                    f"{title}: the tool failed {TRIES} times in a row "
                    f"({type(error).__name__}: {error}). Trying the run again repeats "
                    "this call with the same key, so it takes effect once at most."
                ) from error
            rest(tried)
        else:
            return ToolOutcome(
                content, title, tool.name, ops=context.ops, latency_ms=_since(started)
            )
    raise AssertionError("the last try returns or raises")


def rest(tried: int) -> None:
    """Before a call that broke is made again."""
    time.sleep(PAUSE * 2 ** (tried - 1))


def reconcile(
    tool: Tool, *, key: UUID, title: str, state: State, tries: int
) -> ToolOutcome | None:
    """What came of a call that was begun and has no result, as its tool finds out.

    None: it did not happen, and may be made (again). Raises CallInDoubt when the tool
    cannot tell, or has no way to.
    """
    if tool.reconcile is None:
        raise CallInDoubt
    started = time.monotonic()
    try:
        found = tool.found(key=str(key), context=ToolContext(state))
    except ResultNotKept as lost:
        return _refused(tool, lost, title, _since(started))
    except Exception as error:
        # The edge of foreign code.
        ids = {"ids": {"call": key, "tool": tool.name}}
        logger.warning(
            "a tool could not be asked about a call (%s)",
            type(error).__name__,
            extra=ids,
        )
        raise CallInDoubt(type(error).__name__) from error
    if found is not None:
        return ToolOutcome(
            found,
            title,
            tool.name,
            latency_ms=_since(started),
            context={"reconciled": True},
        )
    if tries < TRIES:
        return None
    return ToolOutcome(
        f"The tool failed {tries} times in a row. It says that this did not happen.",
        title,
        tool.name,
        failed=True,
        error_class="tool_broke",
        latency_ms=_since(started),
        context={"reconciled": True},
    )


def _refused(
    tool: Tool,
    refused: ToolError | ArgumentsDoNotFit | ResultNotKept,
    title: str,
    latency_ms: int,
) -> ToolOutcome:
    stop = isinstance(refused, ToolError) and refused.stop
    return ToolOutcome(
        str(refused),
        title,
        tool.name,
        failed=True,
        error_class="tool_stopped" if stop else refused.code,
        stop=str(refused) if stop else "",
        latency_ms=latency_ms,
    )


def _raised(tool: Tool, error: Exception, title: str, latency_ms: int) -> ToolOutcome:
    return ToolOutcome(
        f"The tool failed: {type(error).__name__}: {error}",
        title,
        tool.name,
        failed=True,
        error_class="tool_raised",
        latency_ms=latency_ms,
    )


def _since(started: float) -> int:
    return int((time.monotonic() - started) * 1000)
