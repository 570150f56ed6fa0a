"""A test case, done again: the engine and the agent's code as they are now.

The model's replies, and the results of tools that look at or change what is outside, are
the recorded ones; what people did is done again as it was. Tools without effects run. So
nothing outside is touched, nothing is stored, and the database is not asked.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from agents.errors import ArgumentsDoNotFit, ModelFailed, UnknownTool
from agents.policies.judge import REJECTED, STOPS
from agents.pure.bundles.testcase import (
    MADE,
    REPLIES,
    Recorded,
    TestCase,
    final_of,
    said_calls,
)
from agents.pure.calls import Call
from agents.pure.context import Request
from agents.pure.engine import advance
from agents.pure.step import (
    Ask,
    Continue,
    Finished,
    Interrupted,
    Refuse,
    Reply,
    RunIt,
    Step,
    ToolOutcome,
)
from agents.runs.execute import execute
from agents.runs.own import Advance
from agents.tools import Agent, titles
from checkpoints.errors import BadOperation
from checkpoints.ids import uuid7
from checkpoints.pure import codec
from checkpoints.pure.codec import State
from checkpoints.pure.ops import Op, fold

MOST_LINES = 60  # of a difference that is shown


@dataclass(frozen=True)
class Divergence:
    """The first step that is not as it was."""

    step: int
    expected: str
    came: str
    diff: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Outcome:
    """What came of a replay; `notes` are differences that change no step."""

    steps: int  # that agreed
    divergence: Divergence | None
    notes: list[str]


class _Diverged(Exception):
    def __init__(self, expected: str, came: str, diff: list[str] | None = None) -> None:
        self.expected, self.came, self.diff = expected, came, diff or []


class _Unused:
    """Nobody wants anything of a replay while a tool runs."""

    lost = cancel_requested = held = False


def replay(case: TestCase, agent: Agent) -> Outcome:
    """Do the case's steps again with this agent's code, prompt and parameters."""
    state, notes = _with_params(case.start, agent)
    world = _World(case, agent)
    at = 0
    for at, expected in enumerate(case.steps):
        try:
            state = world.next(state, at)
        except _Diverged as other:
            found = Divergence(expected.step, other.expected, other.came, other.diff)
            return Outcome(at, found, notes)
        except BadOperation as misfit:
            came = f"what was recorded does not fit the state any more: {misfit}"
            found = Divergence(expected.step, _said(expected), came)
            return Outcome(at, found, notes)
    if (final := final_of(state)) != case.final:
        found = Divergence(
            case.steps[at].step,
            "the final message",
            "another one",
            _diff(case.final or "", final or ""),
        )
        return Outcome(at, found, notes)
    return Outcome(len(case.steps), None, notes)


def _with_params(start: State, agent: Agent) -> tuple[State, list[str]]:
    """The state with the agent's prompt and parameters as they are now."""
    old = start.get("params")
    old = old if isinstance(old, dict) else {}
    now = agent.params()
    notes = []
    for name, value in now.items():
        if codec.same(old.get(name), value):
            continue
        if name == "system":
            lines = _diff(str(old.get(name) or ""), str(value or ""))
            notes.append("\n".join(["The system prompt is another one now:", *lines]))
        else:
            was = codec.text(old.get(name))
            notes.append(f"params.{name} was {was}, is {codec.text(value)}.")
    return {**start, "params": {**old, **now}}, notes


class _World:
    """Model and tools of a replay, as the engine sees them."""

    def __init__(self, case: TestCase, agent: Agent) -> None:
        self._case = case
        self._agent = agent
        self._tools = {tool.name: tool for tool in agent.tools}
        self._at = 0
        self._state: State = {}
        self._own = (
            None
            if agent.advance is None
            else Advance(agent, lambda value: value, _Unused())
        )
        self._asked = set(case.asked)  # ordinals of the last reply's calls
        self._decided = set(case.decided)

    def next(self, state: State, at: int) -> State:
        """The state after the step. Raises _Diverged, BadOperation."""
        self._at, self._state = at, state
        expected = self._expected
        if expected.kind not in MADE:
            if expected.kind == "decision" and expected.ordinal is not None:
                self._decided.add(expected.ordinal)
            return fold(state, expected.ops)
        match advance(state, self, self, own=self._own):
            case Continue(step):
                pass
            case Finished(step) if step is not None:
                pass
            case Interrupted(step, calls) if step is not None:
                self._compare_asked(calls)
            case Finished():
                raise _Diverged(_said(expected), "the agent has nothing left to do")
            case _:
                raise _Diverged(_said(expected), "the agent waits for a person")
        assert step is not None  # the last two cases raise
        self._compare(step)
        return fold(state, step.ops)

    @property
    def _expected(self) -> Recorded:
        return self._case.steps[self._at]

    def _ruled(self) -> set[int]:
        """Calls of the last reply of which something else than their tools' rules said
        whether people are asked."""
        found: set[int] = set()
        for step in self._case.steps[self._at :]:
            if step.kind in REPLIES:
                break
            found.update(step.ruled)
        return found

    # The model

    def reply(self, request: Request) -> Reply:
        expected = self._expected
        if expected.kind == "error" and expected.ordinal is None:
            raise ModelFailed(expected.error_class, "as recorded")
        if expected.kind != "model":
            raise _Diverged(_said(expected), "the agent asks the model")
        message = dict(expected.message or {})
        id = message.pop("id", None)
        self._asked, self._decided = set(), set()
        try:
            return Reply(message, id=UUID(str(id)))
        except ValueError:
            return Reply(message, id=uuid7())

    # The tools

    @property
    def schemas(self) -> Sequence[dict[str, Any]]:
        return self._agent.schemas

    def title(self, name: str, arguments: dict[str, Any] | None) -> str:
        tool = self._tools.get(name)
        return titles.plain(name, arguments) if tool is None else tool.title(arguments)

    def consider(self, call: Call) -> RunIt | Ask | Refuse:
        expected, title = self._expected, self.title(call.name, call.arguments)
        tool = self._tools.get(call.name)
        if tool is None:
            unknown = UnknownTool(call.name, sorted(self._tools))
            return Refuse(str(unknown), title, unknown.code)
        about = expected.ordinal == call.ordinal
        if about and expected.error_class == STOPS:
            return RunIt()  # run() ends it
        if call.ordinal in self._asked:
            decided = call.ordinal in self._decided
            return RunIt() if decided else Ask(title, asked=True)
        try:
            fitted = tool.fit(call)
        except ArgumentsDoNotFit as wrong:
            return Refuse(str(wrong), title, wrong.code, tool.name)
        if about and expected.error_class == REJECTED:
            return Refuse(_content(expected.ops), title, REJECTED, tool.name)
        asks = tool.question or tool.requires(fitted.arguments)
        if call.ordinal in self._ruled():
            asks = not asks  # a policy, or the fork, said otherwise: as it was
        return Ask(title) if asks else RunIt()

    def run(self, call: Call) -> ToolOutcome:
        expected, tool = self._expected, self._tools[call.name]
        title = self.title(call.name, call.arguments)
        as_it_was = call.ordinal in self._decided or expected.error_class == STOPS
        if tool.effect == "none" and not as_it_was:
            return execute(
                tool,
                tool.fit(call).arguments,
                key=call.key,
                title=title,
                state=self._state,
                recall=lambda value: value,
                heart=_Unused(),
                sign=lambda: None,
            )
        if expected.ordinal != call.ordinal or expected.kind not in ("tool", "error"):
            came = f"{_call(call)}, of which no result is recorded here"
            raise _Diverged(_said(expected), came)
        content = _content(expected.ops)
        return ToolOutcome(
            content,
            title,
            tool.name,
            ops=tuple(op for op in expected.ops if not _is_message(op)),
            failed=expected.status == "failed",
            error_class=expected.error_class,
            stop=content if expected.kind == "error" else "",
        )

    # What came

    def _compare_asked(self, calls: Sequence[Call]) -> None:
        asked = sorted(call.ordinal for call in calls)
        self._asked.update(asked)
        expected = self._expected
        if expected.kind == "interrupt" and asked != expected.asked:
            raise _Diverged(
                f"people are asked about call {_numbers(expected.asked)} of the reply",
                f"about {_numbers(asked)}",
            )

    def _compare(self, step: Step) -> None:
        expected = self._expected
        came = Recorded(
            step=expected.step,
            kind=step.kind,
            status=step.status,
            name=step.name,
            error_class=step.error_class,
            ordinal=None,
            asked=[],
            ruled=[],
            calls=said_calls(_message(step.ops)) if step.kind in REPLIES else [],
            ops=list(step.ops),
        )
        if (was := _said(expected)) != (now := _said(came)):
            raise _Diverged(was, now, _differ(expected.ops, came.ops))
        if expected.calls != came.calls:
            raise _Diverged("the recorded calls of the reply", "others", [])
        if diff := _differ(expected.ops, came.ops):
            raise _Diverged(was, "the same, with another outcome", diff)
        if step.kind == "code":  # of a model's reply, this was as it was asked for
            self._asked, self._decided = set(), set()


def _said(step: Recorded) -> str:
    """A step in words: its kind, tool and how it ended."""
    match step.kind:
        case "model":
            tools = ", ".join(call["tool"] for call in step.calls)
            return f"the model calls {tools}" if tools else "the model answers"
        case "code":
            tools = ", ".join(call["tool"] for call in step.calls)
            return f"the agent's code calls {tools}" if tools else "the agent's code"
        case "interrupt":
            return "people are asked"
    failed = "" if step.status == "ok" else f", {step.error_class or step.status}"
    return f"{step.kind} {step.name or 'of no registered name'}{failed}"


def _differ(was: Sequence[Op], now: Sequence[Op]) -> list[str]:
    """How the operations differ, but for the ids that messages get."""
    return _diff(_shown(was), _shown(now))


def _shown(ops: Sequence[Op]) -> str:
    lines = []
    for op in ops:
        if _is_message(op):
            said = {name: value for name, value in op[2].items() if name != "id"}
            content = said.pop("content", None)
            lines.append(f"message {codec.text(said)}")
            lines.append(content if isinstance(content, str) else codec.text(content))
        else:
            lines.append(codec.text(op))
    return "\n".join(lines)


def _diff(was: str, now: str) -> list[str]:
    if was == now:
        return []
    lines = difflib.unified_diff(
        was.splitlines(), now.splitlines(), "expected", "came", n=1, lineterm=""
    )
    found = [line if len(line) <= 500 else f"{line[:499]}…" for line in lines]
    if not found:  # they differ in how lines end
        found = [f"-{was!r}"[:500], f"+{now!r}"[:500]]
    cut = len(found) - MOST_LINES
    return found if cut <= 0 else [*found[:MOST_LINES], f"… {cut} more lines"]


def _is_message(op: Op) -> bool:
    return op[:2] == ["append", "/messages"] and isinstance(op[2], dict)


def _message(ops: Sequence[Op]) -> dict[str, Any] | None:
    return next((op[2] for op in ops if _is_message(op)), None)


def _content(ops: Sequence[Op]) -> str:
    content = (_message(ops) or {}).get("content")
    return content if isinstance(content, str) else codec.text(content)


def _call(call: Call) -> str:
    return f"{call.name}({codec.text(call.arguments)})"


def _numbers(ordinals: Sequence[int]) -> str:
    return ", ".join(str(ordinal + 1) for ordinal in ordinals) or "none"
