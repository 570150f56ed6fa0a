"""What the engine takes and gives: verdicts, outcomes and replies in, steps out.

`Model` and `Tools` are its two peers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol
from uuid import UUID

from agents.pure.calls import Call
from agents.pure.context import Request
from checkpoints.ids import uuid7
from checkpoints.pure.ops import Op
from checkpoints.pure.refs import Ref


@dataclass(frozen=True)
class RunIt:
    """The call may run now."""


@dataclass(frozen=True)
class Ask:
    """A person must decide first. `asked`: a request for it is already there."""

    title: str = field(repr=False)
    asked: bool = False


@dataclass(frozen=True)
class Refuse:
    """The call will not run; the model is told why, as the call's result."""

    text: str = field(repr=False)
    title: str = field(repr=False)
    error_class: str = ""
    name: str = ""  # the tool's, when it is registered


@dataclass(frozen=True)
class ToolOutcome:
    """What a tool gave: the text for the model, and its changes of working memory."""

    # Text; where a fork uses a recorded result, it may be a reference to a blob.
    content: str | Ref = field(repr=False)
    title: str = field(repr=False)
    name: str = ""  # the tool's, when it is registered
    ops: tuple[Op, ...] = field(default=(), repr=False)
    failed: bool = False
    error_class: str = ""
    stop: str = field(default="", repr=False)  # the run fails, for this reason
    latency_ms: int | None = None
    cost: Decimal | None = None  # US dollars, as the tool says
    context: dict[str, Any] | None = field(default=None, repr=False)
    # Of a call that code made: the arguments that people approved in place of its own.
    ran_with: dict[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ReplyMeta:
    """What is known about a model call, for the step's row."""

    model_requested: str = ""
    model_returned: str = ""
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    fingerprint: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_cached: int | None = None
    cost: Decimal | None = None
    latency_ms: int | None = None

    @classmethod
    def asked(cls, request: Request) -> ReplyMeta:
        """What is known of a call without a reply."""
        return cls(
            model_requested=request.model,
            temperature=request.temperature,
            top_p=request.top_p,
            seed=request.seed,
        )


@dataclass(frozen=True)
class Reply:
    """What the model said. `id` is the checkpoint that will hold it."""

    message: dict[str, Any] = field(repr=False)  # role, content, tool_calls
    meta: ReplyMeta = ReplyMeta()
    attempts: tuple[dict[str, Any], ...] = ()
    left_out: tuple[str, ...] = ()  # parameters that the model rejected
    finish_reason: str = ""
    id: UUID = field(default_factory=uuid7)

    def context(self, request: Request, cleaned: list[str]) -> dict[str, Any]:
        """For the step's record; `cleaned`: paths of texts that held lone surrogates."""
        return {
            "request": request.manifest,
            "attempts": list(self.attempts),
            "left_out": list(self.left_out),
            "finish_reason": self.finish_reason,
            "cleaned": cleaned,
        }


@dataclass(frozen=True)
class Step:
    """What to commit. `id` is the checkpoint's."""

    kind: str
    label: str = field(repr=False)
    ops: tuple[Op, ...] = field(default=(), repr=False)
    status: str = "ok"
    name: str = ""
    meta: ReplyMeta = ReplyMeta()
    error_class: str = ""
    context: dict[str, Any] | None = field(default=None, repr=False)
    id: UUID = field(default_factory=uuid7)
    call: UUID | None = None  # a tool step: the key of its call


@dataclass(frozen=True)
class Failure:
    """Why a run failed: a code to count by, and plain words."""

    error_class: str
    reason: str = field(repr=False)


@dataclass(frozen=True)
class Continue:
    """Commit the step, then advance again."""

    step: Step


@dataclass(frozen=True)
class Interrupted:
    """Every call that is left waits for a person.

    `calls` are those that nobody was asked about yet; `step` records the asking, and
    is None when there are none (a worker took over a run that already waits).
    """

    step: Step | None
    calls: tuple[Call, ...]


@dataclass(frozen=True)
class Finished:
    """The run is over: with an answer, or with a failure."""

    step: Step | None
    failure: Failure | None = None


class Model(Protocol):
    def reply(self, request: Request) -> Reply:
        """Raises ModelFailed."""
        ...


class Tools(Protocol):
    @property
    def schemas(self) -> Sequence[dict[str, Any]]: ...

    def title(self, name: str, arguments: dict[str, Any] | None) -> str: ...

    def consider(self, call: Call) -> RunIt | Ask | Refuse: ...

    def run(self, call: Call) -> ToolOutcome: ...
