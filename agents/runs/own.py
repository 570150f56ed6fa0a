"""An agent's own `advance`, asked for what comes next: foreign code, in a thread aside."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from django.conf import settings

from agents.errors import AdvanceFailed
from agents.pure.own import (
    MOST_CALLS,
    Do,
    Done,
    Made,
    Note,
    Say,
    Think,
    Wanted,
    changes,
)
from agents.runs.aside import GivenUp, TookTooLong, aside
from agents.runs.execute import RAISED, Heart, said, unwanted
from agents.tools import Agent, Turn
from agents.tools.context import Recall
from agents.tools.results import as_text
from checkpoints.errors import NotStorable, StoreUnavailable
from checkpoints.pure.codec import State

logger = logging.getLogger(__name__)

CHANGE_IT = "Once its code is mended, Retry goes on from here."


class Advance:
    """The `advance` of one agent, for the engine."""

    def __init__(self, agent: Agent, recall: Recall, heart: Heart) -> None:
        self._agent = agent
        self._recall = recall
        self._heart = heart

    def next(self, state: State) -> Wanted:
        """Raises AdvanceFailed, GivenUp, and StoreUnavailable when it asked for working
        memory that cannot be read now."""
        agent, turn = self._agent, Turn(state, self._recall)
        assert agent.advance is not None  # who made this looked
        advance = agent.advance
        seconds = float(settings.TOOL_TIMEOUT_SECONDS)
        started = time.monotonic()
        try:
            gave = aside(
                lambda: advance(turn),
                seconds=seconds,
                enough=lambda: unwanted(self._heart),
            )
        except (GivenUp, StoreUnavailable):
            raise
        except TookTooLong:
            raise self._no_step(
                "advance_timeout", f"gave nothing within {seconds:g} s"
            ) from None
        except RAISED as error:
            # The edge of foreign code. What it says may be state: into the step only.
            logger.warning(
                "the advance of an agent raised %s",
                type(error).__name__,
                extra={"ids": {"agent": agent.name}},
            )
            raise self._no_step("advance_raised", f"raised {said(error)}") from error
        return self._wanted(
            state, turn, gave, latency_ms=int((time.monotonic() - started) * 1000)
        )

    def _wanted(
        self, state: State, turn: Turn, gave: Any, *, latency_ms: int
    ) -> Wanted:
        match gave:
            case Do():
                return Wanted(None, self._calls([gave]), turn.ops, latency_ms)
            case [_, *_] if all(isinstance(each, Do) for each in gave):
                return Wanted(None, self._calls(gave), turn.ops, latency_ms)
            case Say(text) if _is_words(text):
                pass
            case Note(label) if _is_words(label):
                if not changes(state, turn.ops):
                    raise self._no_step(
                        "advance_stuck",
                        "gave Note(…) and changed nothing of working memory, so it would"
                        " give the same again for ever",
                    )
            case Think() if not self._agent.model:
                raise self._no_step(
                    "advance_invalid", "gave Think(), and the agent has no model"
                )
            case Think() if turn.ops:
                raise self._no_step(
                    "advance_invalid",
                    "changed working memory and gave Think(), whose step is the model's:"
                    " give Note(…) first",
                )
            case Think():
                pass
            case Done(text) if isinstance(text, str):
                pass
            case _:
                raise self._no_step(
                    "advance_invalid",
                    f"gave {_what(gave)}, not Do, a list of some, Say or Note with a text,"
                    " Think or Done",
                )
        return Wanted(gave, (), turn.ops, latency_ms)

    def _calls(self, wanted: Sequence[Do]) -> tuple[Made, ...]:
        if len(wanted) > MOST_CALLS:
            raise self._no_step(
                "advance_invalid",
                f"wants {len(wanted)} calls at once; {MOST_CALLS} may be one step",
            )
        return tuple(map(self._call, wanted))

    def _call(self, wanted: Do) -> Made:
        names = [tool.name for tool in self._agent.tools]
        if wanted.tool not in names:
            raise self._no_step(
                "advance_invalid",
                f"calls {wanted.tool!r}, which is none of its tools:"
                f" {', '.join(names) or 'it has none'}",
            )
        try:
            arguments = as_text(dict(wanted.arguments))
        except (NotStorable, TypeError, ValueError) as wrong:
            raise self._no_step(
                "advance_invalid", f"calls {wanted.tool} with no JSON: {wrong}"
            ) from wrong
        return Made(wanted.tool, arguments)

    def _no_step(self, error_class: str, what: str) -> AdvanceFailed:
        agent = self._agent
        return AdvanceFailed(
            error_class,
            f"The advance of the agent {agent.name} ({agent.advances_by}) {what}."
            f" {CHANGE_IT}",
        )


def _is_words(text: object) -> bool:
    return isinstance(text, str) and bool(text.strip())


def _what(gave: object) -> str:
    if gave is None:
        return "None"
    if isinstance(gave, Say | Note):
        return f"{type(gave).__name__} without a text"
    if isinstance(gave, list | tuple):
        return f"a {type(gave).__name__} of {len(gave)} that are not all Do"
    return f"a {type(gave).__name__}"
