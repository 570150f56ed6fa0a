"""Several requests at once: each as it was shown, each with a result of its own.

Only what is alike: one tool, asked for by one rule of one policy. What asks for care (a
password, typed words, critical risk) is decided alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from agents.approvals import decide as decisions
from agents.approvals.given import Where, demanded
from agents.errors import AgentsError, InvalidDecision, NotEligible
from agents.models import Approval, Decision
from agents.models.approvals import Seen
from checkpoints.access import UserPrincipal

MOST = 200  # requests of one batch
GONE = "There is no such request, or its thread is not shared with you."
ALONE = "This request asks for care, so it is decided by itself."


@dataclass(frozen=True)
class Result:
    """What became of one request: a decision, or why there is none."""

    id: UUID
    approval: Approval | None = None  # as it was before
    decision: Decision | None = None
    problem: AgentsError | None = None


def decide(
    shown: Sequence[tuple[UUID, Seen]],
    verdict: Literal["approve", "reject"],
    by: UserPrincipal,
    reason: str = "",
    hashes: Mapping[UUID, bytes] | None = None,
) -> list[Result]:
    """Approve or reject each of these as it was shown, in this order, one after another.

    `hashes`: `given.hash_of_shown` of the line that the list had of each.

    Each is a transaction of its own: one that was changed or decided meanwhile is left,
    and the others go ahead. Named twice, a request is decided once. Raises
    InvalidDecision, and decides nothing, where they are not of one tool and policy, are
    more than `MOST`, or a rejection has no reason.
    """
    wanted = dict(reversed(shown))
    if len(wanted) > MOST:
        raise InvalidDecision({"": f"At most {MOST} requests at once."})
    if verdict == "reject":
        reason = decisions.text_of(
            "reason", reason, "Say why: the agent reads it and can do better."
        )
    found = {
        approval.pk: approval
        for approval in Approval.objects.for_user(by)
        .filter(pk__in=wanted)
        .select_related("call", "run__agent_version__agent")
    }
    kinds = {
        (each.call.tool, each.kind, each.policy_id, each.rule)
        for each in found.values()
    }
    if len(kinds) > 1:
        raise InvalidDecision(
            {"": "Only requests for one tool, under one rule, are decided together."}
        )
    return [
        _result(
            pk, found.get(pk), wanted[pk], verdict, by, reason, (hashes or {}).get(pk)
        )
        for pk in dict.fromkeys(pk for pk, _ in shown)
    ]


def is_alone(approval: Approval) -> bool:
    """Whether a request takes part in no batch."""
    return approval.risk == Approval.Risk.CRITICAL or bool(demanded(approval))


def _result(
    pk: UUID,
    approval: Approval | None,
    seen: Seen,
    verdict: str,
    by: UserPrincipal,
    reason: str,
    shown: bytes | None,
) -> Result:
    if approval is None:
        return Result(pk, problem=NotEligible(GONE))
    try:
        if is_alone(approval):
            raise InvalidDecision({"": ALONE})
        if verdict == "reject":
            made = decisions.reject(
                approval, seen=seen, by=by, reason=reason, shown=shown, place=Where.LIST
            )
        else:
            made = decisions.approve(
                approval, seen=seen, by=by, shown=shown, place=Where.LIST
            )
    except AgentsError as problem:
        return Result(pk, approval, problem=problem)
    return Result(pk, approval, made)
