"""What an agent's own `advance` may want next, and the step that comes of it.

A function of the state takes the place of the chat loop. What it wants is a step of kind
"code", committed before anything comes of it: a call stands there as a model's would, in a
message, so that its key, row, approval, result and place in a fork are those of any call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agents.errors import AdvanceFailed
from agents.pure.calls import BY_CODE, parse_arguments
from agents.pure.labels import first_words
from agents.pure.step import Continue, Failure, Finished, ReplyMeta, Step, Tools
from checkpoints.ids import uuid7
from checkpoints.pure import ops
from checkpoints.pure.codec import State, canonical, clean
from checkpoints.pure.ops import Op, fold
from checkpoints.pure.pointer import split

KIND = "code"
MOST_CALLS = 100  # of one step


@dataclass(frozen=True)
class Do:
    """Call a tool of the agent's. Several of them, in a list, are one step."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Say:
    """Say something in the thread, and go on."""

    text: str = field(repr=False)


@dataclass(frozen=True)
class Note:
    """Keep what was changed of working memory, as a step of this label, and go on."""

    label: str = field(repr=False)


@dataclass(frozen=True)
class Think:
    """Have the agent's model asked, as the chat loop does, and its calls done; go on."""


@dataclass(frozen=True)
class Done:
    """The work is over; `text` is the answer, if there is one."""

    text: str = field(default="", repr=False)


Next = Do | Sequence[Do] | Say | Note | Think | Done


@dataclass(frozen=True)
class Made:
    """A call as it goes into the message: its arguments are JSON."""

    tool: str
    arguments: str = field(repr=False)


@dataclass(frozen=True)
class Wanted:
    """What `advance` gave for one state, checked: calls, if any, else `next`."""

    next: Say | Note | Think | Done | None
    calls: tuple[Made, ...] = ()
    ops: tuple[Op, ...] = field(default=(), repr=False)  # changes of working memory
    latency_ms: int | None = None


class Own(Protocol):
    def next(self, state: State) -> Wanted:
        """Raises AdvanceFailed."""
        ...


def step_of(wanted: Wanted, tools: Tools) -> Continue | Finished:
    """The step that does what is wanted, of anything but Think."""
    match wanted.next:
        case None:
            return Continue(_step(wanted, *_calling(wanted.calls, tools)))
        case Say(text):
            return Continue(_step(wanted, {"content": text}, text))
        case Note(label):
            return Continue(_step(wanted, None, label))
        case Done(text) if text or wanted.ops:
            message = {"content": text} if text else None
            return Finished(_step(wanted, message, text or "Done"))
        case _:
            return Finished(None)


def failed_step(failed: AdvanceFailed) -> Finished:
    """The step that says that there is no next one."""
    failure = Failure(failed.error_class, str(failed))
    step = Step(
        kind="error",
        status="failed",
        label=first_words(failure.reason),
        error_class=failed.error_class,
    )
    return Finished(step, failure)


def _calling(calls: Sequence[Made], tools: Tools) -> tuple[dict[str, Any], str]:
    made = [
        {
            "id": f"call_{ordinal}",  # the same whenever the step is made again
            "type": "function",
            "function": {"name": call.tool, "arguments": call.arguments},
        }
        for ordinal, call in enumerate(calls)
    ]
    titles = (
        tools.title(call.tool, parse_arguments(call.arguments)[0]) for call in calls
    )
    return {"content": "", "tool_calls": made}, ", ".join(titles)


def _step(wanted: Wanted, said: dict[str, Any] | None, label: str) -> Step:
    step_id = uuid7()
    made, context = list(wanted.ops), None
    if said is not None:
        message, cleaned = clean(
            {"id": str(step_id), "role": "assistant", **said, "by": BY_CODE}
        )
        context = {"cleaned": cleaned} if cleaned else None
        made.append(ops.append("/messages", message))
    return Step(
        id=step_id,
        kind=KIND,
        label=first_words(label),
        ops=tuple(made),
        meta=ReplyMeta(latency_ms=wanted.latency_ms),
        context=context,
    )


def changes(state: State, made: Sequence[Op]) -> bool:
    """Whether the state is another one with these operations. One that stays the same
    would have the same step taken again and again."""
    after = fold(state, made)
    for name in {split(op[1])[0] for op in made}:
        if name not in state or name not in after:
            return True
        if canonical(state[name]) != canonical(after[name]):
            return True
    return False
