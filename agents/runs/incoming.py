"""What people said while no worker held the run: messages and decisions, as steps.

They become checkpoints in the order in which they came, before the agent thinks again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Q

from agents.approvals.binding import last_decision
from agents.approvals.verify import verify_answer
from agents.errors import ApprovalInvalid
from agents.models import Approval, Decision, ToolCall
from agents.pure.engine import Call, Step, result_op
from agents.pure.labels import first_words
from agents.pure.said import Said, flags, text_of
from agents.runs.claim import Claim
from checkpoints.clock import ClockTimestamp
from checkpoints.gate import Pass, seal
from checkpoints.ids import uuid7
from checkpoints.models import Checkpoint, ThreadInput
from checkpoints.pure import ops

NOBODY = "someone"
UNDECIDED = "Nobody decided this in time, so it was not run."
HAPPENED = "A person found out that this call took effect, and gave its result:"
LEFT = (
    "Whether this call took effect is not known, and it was not tried again. A person "
    "left it so, and says:"
)

Status = ToolCall.Status

# Of a call in doubt: what people said, nothing else. Left alone, it stays in doubt.
_TAKEN_IN = Q(call__status=Status.WAITING) | Q(
    call__status=Status.UNKNOWN,
    kind=Approval.Kind.UNKNOWN,
    status__in=[
        Approval.Status.APPROVED,
        Approval.Status.REJECTED,
        Approval.Status.RESPONDED,
    ],
)


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
        .select_related("author", "token")
    )
    kept = opener.open_all(waiting, "content") if waiting else []
    arrived = [
        _message(claim, row, content)
        for row, content in zip(waiting, kept, strict=True)
    ]
    # Their positions are their order; a clock that was set back does not change it.
    latest = accumulate((arrival.at for arrival in arrived), max)
    return [
        replace(arrival, at=at) for arrival, at in zip(arrived, latest, strict=True)
    ]


def decisions(claim: Claim, opener: Pass, calls: Sequence[Call]) -> list[Arrival]:
    """Decisions about calls that still wait for one, in the order of the calls."""
    by_key = {call.key: call for call in calls}
    if not by_key:
        return []
    closed = (
        Approval.objects.for_run(claim.principal)
        .filter(_TAKEN_IN, call__in=list(by_key))
        .exclude(status=Approval.Status.PENDING)
        .select_related("call")
        .order_by("call__ordinal")
    )
    return [
        _decided(claim, opener, approval, by_key[approval.call_id])
        for approval in closed
    ]


def _message(claim: Claim, said: ThreadInput, kept: Said) -> Arrival:
    step_id, text = uuid7(), text_of(kept)
    message = {"id": str(step_id), "role": "user", "content": text}
    step = Step(
        id=step_id,
        kind=Checkpoint.Kind.INPUT,
        label=first_words(f"{said.token or _name(said.author)}: {text}"),
        ops=(ops.append("/messages", message),),
        context=flags(kept),
    )

    def record() -> None:
        ThreadInput.objects.for_run(claim.principal).filter(pk=said.pk).update(
            checkpoint=step_id
        )

    return Arrival(said.created_at, step, said.author_id, record)


def _decided(claim: Claim, opener: Pass, approval: Approval, call: Call) -> Arrival:
    """What the last decision on the request means for its call."""
    decision, row = last_decision(approval), approval.call
    status, label, told = _meaning(approval, decision, opener)
    step_id = uuid7()
    values: dict[str, Any] = {"status": status}
    if told is not None:
        values |= {
            "result": seal(row, "result", told),
            "result_checkpoint": step_id,
            "finished_at": ClockTimestamp(),
            "error_class": "outcome_unknown" if status == Status.UNKNOWN else "",
        }
    step = Step(
        id=step_id,
        kind=Checkpoint.Kind.DECISION,
        name=row.tool,
        label=first_words(label),
        ops=() if told is None else (result_op(step_id, call, told),),
        context={"approval": str(approval.pk), "call": str(row.pk)},
    )

    def record() -> None:
        ToolCall.objects.for_run(claim.principal).filter(pk=row.pk).update(**values)

    assert approval.decided_at is not None  # set with every status but pending
    actor_id = decision.by_id if decision else None
    return Arrival(approval.decided_at, step, actor_id, record)


def _meaning(
    approval: Approval, decision: Decision | None, opener: Pass
) -> tuple[ToolCall.Status, str, str | None]:
    """The call's next status, the step's label, and what the model is told, if anything.

    An approval is verified just before the call runs (effects.py), the rest here.
    """
    who = _name(decision.by if decision else None)
    in_doubt = approval.kind == Approval.Kind.UNKNOWN
    if approval.status == Approval.Status.APPROVED and in_doubt:
        return Status.APPROVED, f"{who}: it did not happen; run it again", None
    if approval.status == Approval.Status.APPROVED:
        edited = decision is not None and decision.verdict == Decision.Verdict.EDIT
        verb = "Edited and approved" if edited else "Approved"
        return Status.APPROVED, f"{verb} by {who}", None
    if approval.status not in (Approval.Status.REJECTED, Approval.Status.RESPONDED):
        return Status.SUPERSEDED, UNDECIDED, UNDECIDED
    try:
        content = opener.open(verify_answer(approval, opener=opener), "content")
    except ApprovalInvalid as invalid:
        again = Status.EXECUTING if in_doubt else Status.PROPOSED
        return again, f"Asked again: {invalid}", None
    if approval.status == Approval.Status.RESPONDED:
        answer = content["response"]
        if in_doubt:
            label = f"{who}: it happened: {answer}"
            return Status.RESPONDED, label, f"{HAPPENED}\n{answer}"
        return Status.RESPONDED, f"{who}: {answer}", answer
    reason = content["reason"]
    if in_doubt:
        return Status.UNKNOWN, f"Left in doubt by {who}: {reason}", f"{LEFT} {reason}"
    told = f"A person rejected this call, so it was not run. Their reason: {reason}"
    return Status.REJECTED, f"Rejected by {who}: {reason}", told


def _name(person: User | None) -> str:
    if person is None:
        return NOBODY
    return person.get_full_name() or person.get_username()
