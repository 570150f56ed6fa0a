"""What programs send, and what they are told, of runs and threads."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field

from agents.pure.queues import Priority
from agents.runs import report

LONGEST = 100_000  # characters of a message or prompt

Text = Annotated[str, Field(min_length=1, max_length=LONGEST)]
PLAIN = r"^[^\x00]*$"  # what a column can hold
Name = Annotated[str, Field(max_length=60, pattern=PLAIN)]
ExternalId = Annotated[str, Field(min_length=1, max_length=200, pattern=PLAIN)]


Resume = Literal["", "factual", "as_is"]  # empty: as the agent is declared


class Strict(Schema):
    """A body: what it does not know, it refuses."""

    model_config = ConfigDict(extra="forbid")


class StartIn(Strict):
    agent: Name
    message: Text
    title: Annotated[str, Field(max_length=200)] = ""
    params: dict[str, Any] = {}
    external_id: ExternalId | None = None
    priority: Priority | None = None


class MessageIn(Strict):
    message: Text
    branch: UUID | None = None
    agent: Name = ""
    request_key: UUID | None = None
    resume: Resume = ""


class RetryIn(Strict):
    resume: Resume = ""


class ForkIn(Strict):
    step: Annotated[int, Field(ge=0, le=2**31 - 1)]
    branch: UUID | None = None
    name: Name = ""
    system: Annotated[str, Field(max_length=LONGEST)] | None = None
    model: Annotated[str, Field(max_length=100)] | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    message: Text | None = None
    calls: Literal["recorded", "simulate", "live"] = "recorded"
    run: bool = True
    agent: Name = ""
    request_key: UUID | None = None
    resume: Resume = ""


class AgentOut(Schema):
    name: str
    title: str
    description: str
    busy: str


class MessageOut(Schema):
    id: UUID
    position: int
    thread: UUID
    branch: UUID


class ForkOut(Schema):
    thread: UUID
    branch: UUID
    run: UUID | None


class CancelOut(Schema):
    cancelled: bool
    run: report.RunReport
