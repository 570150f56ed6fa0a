"""What people said while no worker held the run: messages and decisions, as steps.

They become checkpoints in the order in which they came, before the agent thinks again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate

from django.contrib.auth.models import User

from agents.approvals.verify import verify_answer
from agents.errors import ApprovalInvalid
from agents.models import Approval, Decision, ToolCall
from agents.pure.calls import Call, result_op
from agents.pure.labels import first_words
from agents.pure.said import Said, flags, text_of
from agents.pure.step import Step
from agents.runs.beside import CallAs
from agents.runs.claim import Claim
from agents.tools.results import as_text
from checkpoints.db import rows
from checkpoints.db.prepared import Prepared
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

# Why a call did not succeed, for code that made it.
_PROBLEMS = {
    Status.REJECTED: "rejected",
    Status.SUPERSEDED: "undecided",
    Status.UNKNOWN: "outcome_unknown",
}


@dataclass(frozen=True)
class Arrival:
    """One thing that came in: its step, and the rows to write with it."""

    at: datetime
    step: Step
    actor_id: int | None
    record: Callable[[], object] | None = None
    call: CallAs | None = None  # a decision's, as it is from now on


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
    found = _CLOSED.execute(
        {
            "workspace": claim.run.workspace_id,
            "thread": claim.run.thread_id,
            "calls": list(map(str, by_key)),
        }
    )
    arrived = []
    for verdict, name, *values in found.fetchall():
        approval, row = rows.each(values, Approval, ToolCall)
        approval.call = row
        call = by_key[approval.call_id]
        arrived.append(_decided(opener, approval, verdict, name or NOBODY, call))
    return arrived


# Of a call in doubt: what people said, nothing else. Left alone, it stays in doubt. What
# people can still take back is not taken in, whoever woke the run.
_CLOSED = Prepared(f"""
SELECT (
    SELECT said.verdict FROM {Decision._meta.db_table} said
    WHERE said.approval_id = asked.id AND asked.decided_by_id IS NOT NULL
    ORDER BY said.revision DESC, said.at DESC LIMIT 1
), coalesce(nullif(trim(who.first_name || ' ' || who.last_name), ''), who.username),
{rows.columns(Approval, "asked")}, {rows.columns(ToolCall, "call")}
FROM {Approval._meta.db_table} asked
JOIN {ToolCall._meta.db_table} call ON call.id = asked.call_id
LEFT JOIN {User._meta.db_table} who ON who.id = asked.decided_by_id
WHERE asked.workspace_id = %(workspace)s
  AND asked.thread_id = %(thread)s
  AND asked.call_id = ANY(%(calls)s::uuid[])
  AND asked.status <> 'pending'
  AND (asked.final_at IS NULL OR asked.final_at <= clock_timestamp())
  AND (call.status = 'waiting'
       OR (call.status = 'unknown' AND asked.kind = 'unknown'
           AND asked.status IN ('approved', 'rejected', 'responded')))
ORDER BY call.ordinal
""")  # noqa: S608  # our own names; values are parameters


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


def _decided(
    opener: Pass, approval: Approval, verdict: str | None, who: str, call: Call
) -> Arrival:
    """What the last decision on the request, of this verdict, means for its call."""
    row = approval.call
    row.status, label, told = _meaning(approval, verdict, who, opener, call)
    step_id = uuid7()
    step = Step(
        id=step_id,
        kind=Checkpoint.Kind.DECISION,
        name=row.tool,
        label=first_words(label),
        ops=()
        if told is None
        else (
            result_op(
                step_id,
                call,
                told,
                by_person=verdict is not None,
                problem=_PROBLEMS.get(row.status, ""),
            ),
        ),
        context={"approval": str(approval.pk), "call": str(row.pk)},
    )
    assert approval.decided_at is not None  # set with every status but pending
    at, actor_id = approval.decided_at, approval.decided_by_id
    if told is None:
        return Arrival(at, step, actor_id, call=CallAs(decided=row))
    row.result = seal(row, "result", told)
    row.error_class = "outcome_unknown" if row.status == Status.UNKNOWN else ""
    return Arrival(at, step, actor_id, call=CallAs(settled=row))


def _meaning(
    approval: Approval, verdict: str | None, who: str, opener: Pass, call: Call
) -> tuple[ToolCall.Status, str, str | None]:
    """The call's next status, the step's label, and what the model is told, if anything.

    An approval is verified just before the call runs (effects.py), the rest here.
    """
    in_doubt = approval.kind == Approval.Kind.UNKNOWN
    if approval.status == Approval.Status.APPROVED and in_doubt:
        return Status.APPROVED, f"{who}: it did not happen; run it again", None
    if approval.status == Approval.Status.APPROVED:
        edited = verdict == Decision.Verdict.EDIT
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
        answer = as_text(content["response"])  # its fields, as JSON; or text
        if in_doubt:
            label = f"{who}: it happened: {answer}"
            told = answer if call.by_code else f"{HAPPENED}\n{answer}"
            return Status.RESPONDED, label, told
        return Status.RESPONDED, f"{who}: {answer}", answer
    reason = content["reason"]
    if in_doubt:
        return Status.UNKNOWN, f"Left in doubt by {who}: {reason}", f"{LEFT} {reason}"
    told = f"A person rejected this call, so it was not run. Their reason: {reason}"
    return Status.REJECTED, f"Rejected by {who}: {reason}", told


def _name(person: User | None) -> str:
    return NOBODY if person is None else person.get_full_name() or person.get_username()
