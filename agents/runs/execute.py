"""One call, made: what it gave, what it refused, and what to do when it broke."""

from __future__ import annotations

import logging
import time
from asyncio import CancelledError
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Protocol
from uuid import UUID

from django.conf import settings

from agents.errors import AgentsError, ArgumentsDoNotFit, ResultNotKept, ToolError
from agents.llm import Embeddings
from agents.pure.step import ToolOutcome
from agents.runs.aside import GivenUp, TookTooLong, aside
from agents.tools import Tool, ToolContext
from agents.tools.context import Recall
from checkpoints.access import RunPrincipal
from checkpoints.errors import StoreUnavailable
from checkpoints.pure.codec import State

logger = logging.getLogger(__name__)

TRIES = 3  # of one call that broke and may be repeated
PAUSE = 0.5  # seconds before the second try; doubles

# By a tool. It may end the process, as a script would, or a loop of its own.
RAISED = (Exception, SystemExit, CancelledError)

MOST_SAID = 10_000  # characters of what an exception says

HANGS = "tool_timeout"  # the class of a call that was not over in time
SILENT = "worker_silent"  # of one whose worker may be alive, and was not heard of since

IN_DOUBT = (
    "Whether this happened is not known: the worker stopped, or the call broke, after "
    "it had begun. It was not tried again."
)


class Heart(Protocol):
    """What others want of the run by now (heartbeat.py)."""

    lost: bool
    cancel_requested: bool
    held: bool


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

    The message is the name of what was raised, or HANGS. The call stays `executing`:
    considered anew, its tool is asked what came of it, or a person is.
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
    recall: Recall,
    heart: Heart,
    sign: Callable[[], None],
    run: RunPrincipal | None = None,
) -> ToolOutcome:
    """Call the tool, for a run if it is one's call. Raises CallBroke, CallInDoubt, and StoreUnavailable when the tool
    asked for working memory that cannot be read now, and may be called again.

    A tool refuses with ToolError. Any other exception, and a call that is not over in
    time, says nothing about whether the effect took place: then it is tried again,
    where that is harmless, or is in doubt. Raises GivenUp where nobody waits for what
    it gives: at once if it has no effects, else when another holder has the branch.
    `sign` is called while it lasts.
    """
    started = time.monotonic()
    for tried in range(1, TRIES + 1):
        context = ToolContext(
            state,
            recall,
            memory=tool.cache is None,
            run=run,
            embedder=Embeddings.from_settings(),
        )
        try:
            content = _call(tool, arguments, key, context, heart, sign)
        except GivenUp:
            raise
        except (ToolError, ArgumentsDoNotFit) as refused:
            return _refused(tool, refused, title, _since(started), context.cost)
        except ResultNotKept as lost:
            # It was called: whatever its effect is, it took place.
            return _refused(tool, lost, title, _since(started), context.cost)
        except RAISED as error:
            # The edge of foreign code. What it says may be state: into the step only.
            logger.warning(
                "a tool raised %s",
                type(error).__name__,
                extra={"ids": {"call": key, "tool": tool.name}},
            )
            if isinstance(error, StoreUnavailable) and not once(tool):
                raise
            if not tool.has_effects:
                return _raised(tool, error, title, _since(started), context.cost)
            if once(tool):
                hangs = isinstance(error, TookTooLong)
                raise CallInDoubt(HANGS if hangs else type(error).__name__) from error
            if tried == TRIES:
                raise CallBroke(
                    f"{title}: the tool failed {TRIES} times in a row "
                    f"({_said(tool, error)}). Trying the run again repeats "
                    "this call with the same key, so it takes effect once at most."
                ) from error
            if unwanted(heart):
                raise GivenUp from error
            rest(tried)
        else:
            return ToolOutcome(
                content,
                title,
                tool.name,
                ops=context.ops,
                latency_ms=_since(started),
                cost=context.cost,
            )
    raise AssertionError("the last try returns or raises")


def _call(
    tool: Tool,
    arguments: dict[str, Any],
    key: UUID,
    context: ToolContext,
    heart: Heart,
    sign: Callable[[], None],
) -> str:
    """Raises what the tool raises, TookTooLong and GivenUp."""

    def enough() -> bool:
        sign()
        return heart.lost or (not tool.has_effects and unwanted(heart))

    return aside(
        lambda: tool.execute(arguments, key=str(key), context=context),
        seconds=seconds_of(tool),
        enough=enough,
    )


def seconds_of(tool: Tool) -> float:
    """How long one call of it is waited for."""
    if tool.timeout is None:
        return float(settings.TOOL_TIMEOUT_SECONDS)
    return tool.timeout.total_seconds()


def unwanted(heart: Heart) -> bool:
    """Whether nobody waits for what may be given up."""
    return heart.lost or heart.cancel_requested or heart.held


def rest(tried: int) -> None:
    """Before a call that broke is made again, or its tool asked what came of it."""
    time.sleep(PAUSE * 2 ** (tried - 1))


def reconcile(
    tool: Tool, *, key: UUID, title: str, state: State, tries: int, heart: Heart
) -> ToolOutcome | None:
    """What came of a call that was begun and has no result, as its tool finds out.

    None: it did not happen, and may be made (again). Raises CallInDoubt when the tool
    cannot tell, or has no way to, and GivenUp where nobody waits for it.
    """
    if tool.reconcile is None:
        raise CallInDoubt
    started = time.monotonic()
    try:
        found = aside(
            lambda: tool.found(key=str(key), context=ToolContext(state)),
            seconds=seconds_of(tool),
            enough=lambda: unwanted(heart),
        )
    except GivenUp:
        raise
    except ResultNotKept as lost:
        return _refused(tool, lost, title, _since(started))
    except RAISED as error:
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
    cost: Decimal | None = None,
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
        cost=cost,
    )


def _raised(
    tool: Tool,
    error: BaseException,
    title: str,
    latency_ms: int,
    cost: Decimal | None,
) -> ToolOutcome:
    hangs = isinstance(error, TookTooLong)
    return ToolOutcome(
        f"The tool {_said(tool, error)}."
        if hangs
        else f"The tool failed: {_said(tool, error)}",
        title,
        tool.name,
        failed=True,
        error_class=HANGS if hangs else "tool_raised",
        latency_ms=latency_ms,
        cost=cost,
    )


def _said(tool: Tool, error: BaseException) -> str:
    if isinstance(error, TookTooLong):
        return f"did not answer within {seconds_of(tool):g} s"
    return said(error)


def said(error: BaseException) -> str:
    """What an exception of foreign code says; it may be state."""
    try:
        text = str(error)
    except Exception:  # foreign code, too
        text = "what it says cannot be read"
    if len(text) > MOST_SAID:
        text = f"{text[:MOST_SAID]}…"
    return f"{type(error).__name__}: {text}"


def _since(started: float) -> int:
    return int((time.monotonic() - started) * 1000)
