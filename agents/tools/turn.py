"""What an agent's own `advance` is called with: the state, and what came of its calls."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from agents.pure.calls import parse_arguments
from agents.pure.context import answers, backwards, calls_of
from agents.tools.context import Recall, WorkingMemory
from checkpoints.pure.codec import State


@dataclass(frozen=True)
class Result:
    """What came of a call: as it was made, which people may have changed."""

    tool: str
    arguments: dict[str, Any] = field(repr=False)
    content: str = field(repr=False)  # what the tool gave, as text
    # Why it did not succeed, such as "tool_failed", "rejected", "undecided" (its time ran
    # out) or "outcome_unknown"; "": it did. `content` says it in words.
    problem: str = ""

    @property
    def value(self) -> Any:
        """The content as JSON, where it is that; else the text."""
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError):
            return self.content


class Turn(WorkingMemory):
    """The state that the next step follows; what is changed here is kept with that step.

    Whatever `advance` gives must follow from this alone: it is called again where a
    worker died, in a fork, and in a replay.
    """

    def __init__(self, state: State, recall: Recall = lambda value: value) -> None:
        super().__init__(state, recall)
        self._before = state

    @property
    def message(self) -> str:
        """What a person said last; empty where nobody said anything."""
        for message in backwards(self._before):
            if message["role"] == "user":
                return self._text(message.get("content"))
        return ""

    @property
    def results(self) -> list[Result]:
        """What came of the calls that it made last, in their order; none since it said
        something."""
        after: list[dict[str, Any]] = []
        for reply in backwards(self._before):
            if reply["role"] == "assistant":
                break
            after.append(reply)
        else:
            return []
        calls = calls_of(reply)
        found = answers(calls, after[::-1])
        return [
            self._result(calls[ordinal]["function"], found[ordinal])
            for ordinal in sorted(found)
        ]

    def _result(self, called: dict[str, Any], answer: dict[str, Any]) -> Result:
        arguments = answer.get("arguments")
        if not isinstance(arguments, dict):
            arguments = parse_arguments(called.get("arguments"))[0] or {}
        return Result(
            tool=str(called.get("name")),
            arguments=arguments,
            content=self._text(answer.get("content")),
            problem=str(answer.get("problem") or ""),
        )

    def _text(self, content: Any) -> str:
        whole = self._recall(content)
        return whole if isinstance(whole, str) else ""
