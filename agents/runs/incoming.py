"""What people said while no worker held the run: messages and decisions, as steps.

They become checkpoints in the order in which they came, before the agent thinks again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractBaseUser

from agents.models import Approval, Decision, ToolCall
from agents.pure.engine import Call, Step, result_op
from agents.runs.claim import Claim
from agents.runs.start import first_words
from agents.tools.declare import as_text
from checkpoints.clock import ClockTimestamp
from checkpoints.gate import Pass, seal
from checkpoints.ids import uuid7
from checkpoints.models import Checkpoint, ThreadInput
from checkpoints.pure import ops

NOBODY = "Nobody decided in time, so this call was not run."


@dataclass(frozen=True)
class Arrival:
    """One thing that came in: its step, and the rows to write with it."""

    at: datetime
    step: Step
    actor_id: int | None
    record: Callable[[], object]


def messages(claim: Claim, opener: Pass) -> list[Arrival]:
    """Messages that no checkpoint holds yet, oldest first."""
    waiting = list(
        ThreadInput.objects.for_run(claim.principal)
        .filter(branch=claim.branch)
        .undelivered()
        .select_related("author")
    )
    texts = opener.open_all(waiting, "content") if waiting else []
    return [
        _message(claim, said, text) for said, text in zip(waiting, texts, strict=True)
    ]


def decisions(claim: Claim, opener: Pass, calls: Sequence[Call]) -> list[Arrival]:
    """Decisions about calls that still wait for one, in the order of the calls."""
    by_key = {call.key: call for call in calls}
    closed = (
        Approval.objects.for_run(claim.principal)
        .filter(call__in=list(by_key), call__status=ToolCall.Status.WAITING)
        .exclude(status=Approval.Status.PENDING)
        .select_related("call")
        .order_by("call__ordinal")
    )
    return [
        _decided(claim, opener, approval, by_key[approval.call_id])
        for approval in closed
    ]


def _message(claim: Claim, said: ThreadInput, text: str) -> Arrival:
    step_id = uuid7()
    message = {"id": str(step_id), "role": "user", "content": text}
    step = Step(
        id=step_id,
        kind=Checkpoint.Kind.INPUT,
        label=first_words(f"{_name(said.author)}: {text}"),
        ops=(ops.append("/messages", message),),
    )

    def record() -> None:
        ThreadInput.objects.for_run(claim.principal).filter(pk=said.pk).update(
            checkpoint=step_id
        )

    return Arrival(said.created_at, step, said.author_id, record)


def _decided(claim: Claim, opener: Pass, approval: Approval, call: Call) -> Arrival:
    """What the last decision on the request means for its call."""
    decision = (
        approval.decisions.select_related("by").order_by("-revision", "-at").first()
    )
    who = _name(decision.by) if decision else ""
    content = opener.open(decision, "content") if decision else None
    step_id = uuid7()
    status, label, told = _meaning(approval, decision, content, who)
    row = approval.call
    values: dict[str, Any] = {"status": status}
    if told is None:
        answer: tuple[ops.Op, ...] = ()
    else:
        answer = (result_op(step_id, call, told),)
        values |= {
            "result": seal(row, "result", told),
            "result_checkpoint": step_id,
            "finished_at": ClockTimestamp(),
        }
    step = Step(
        id=step_id,
        kind=Checkpoint.Kind.DECISION,
        name=row.tool,
        label=first_words(label),
        ops=answer,
        context={"approval": str(approval.pk), "call": str(row.pk)},
    )

    def record() -> None:
        ToolCall.objects.for_run(claim.principal).filter(pk=row.pk).update(**values)

    at = approval.decided_at
    assert at is not None  # decide() sets it with the status
    return Arrival(at, step, decision.by_id if decision else None, record)


def _meaning(
    approval: Approval, decision: Decision | None, content: Any, who: str
) -> tuple[ToolCall.Status, str, str | None]:
    """The call's next status, the step's label, and what the model is told; None: nothing yet."""
    match approval.status:
        case Approval.Status.APPROVED:
            edited = decision is not None and decision.verdict == Decision.Verdict.EDIT
            verb = "Edited and approved" if edited else "Approved"
            return ToolCall.Status.APPROVED, f"{verb} by {who}", None
        case Approval.Status.RESPONDED:
            answer = as_text(_inner(content, "response"))
            return ToolCall.Status.RESPONDED, f"{who}: {answer}", answer
        case Approval.Status.REJECTED:
            reason = as_text(_inner(content, "reason") or "")
            told = f"Rejected by a person. Reason: {reason or 'none given'}"
            said = f": {reason}" if reason else ""
            return ToolCall.Status.REJECTED, f"Rejected by {who}{said}", told
    return ToolCall.Status.SUPERSEDED, NOBODY, NOBODY


def _inner(content: Any, name: str) -> Any:
    """A decision's content is the value itself, or an object that names it."""
    return (
        content[name] if isinstance(content, Mapping) and name in content else content
    )


def _name(person: AbstractBaseUser | None) -> str:
    if person is None:
        return "Someone"
    full = getattr(person, "get_full_name", str)()
    return full or person.get_username()
