"""Requests, for programs: listed, read, and decided for the person who made the token.

The rules are those of the pages, and so are the races: a decision names the revision and
the digest that were read, and whoever is second is told who was first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.shortcuts import get_object_or_404
from django.urls import reverse
from ninja import Path, Query, Router, Schema
from pydantic import ConfigDict, Field

from agents.api.auth import ProgramRequest, decides, reads
from agents.approvals import decide
from agents.approvals.asked import title_of
from agents.approvals.given import PASSWORD, demanded
from agents.approvals.undo import undo
from agents.errors import AlreadyDecided, InvalidDecision, NeedsPage, NotEligible
from agents.models import Approval, Decision
from agents.models.approvals import Seen
from checkpoints import gate, tokens
from checkpoints.access import Actor, UserPrincipal

OWN = (
    "This run acts for a token that the same person made. What a program asks, somebody "
    "else decides, or the person on the page."
)

router = Router()
ApprovalId = Annotated[UUID, Path()]
Status = Literal[
    "",
    "pending",
    "approved",
    "rejected",
    "responded",
    "expired",
    "superseded",
    "cancelled",
]


@dataclass(frozen=True)
class Given:
    """A decision that counts, or counted."""

    by: str
    verdict: str
    revision: int
    at: datetime


@dataclass(frozen=True)
class ApprovalReport:
    """A request, without what would have to be opened. `digest` is hexadecimal."""

    id: UUID
    number: int
    kind: str
    status: str
    risk: str
    rule: str
    tool: str
    allowed: list[str]
    approvers: int
    revision: int
    digest: str
    thread: UUID
    branch: UUID
    run: UUID
    call: UUID
    asked_at: datetime
    due_at: datetime | None
    decided_at: datetime | None
    decided_by: str | None
    final_at: datetime | None  # until then it can be undone, and nothing runs
    path: str  # the page
    needs_page: bool  # who decides it gives their password there; rejecting needs none
    typed: str  # the words that a decision gives with it; "" for none


@dataclass(frozen=True)
class ApprovalDetail(ApprovalReport):
    """With what had to be opened for it, and the decisions so far."""

    title: str | None = field(repr=False)
    arguments: dict[str, Any] | None = field(repr=False)  # as they would run
    proposed: dict[str, Any] | None = field(repr=False)  # as the model gave them
    reason: str | None = field(repr=False)  # the agent's own words, not checked
    guard: str  # what its look said last: same, changed, invalid, failed; "" for none
    found: dict[str, Any] | None = field(
        repr=False
    )  # what that changed since it was asked
    preview: dict[str, Any] | None = field(repr=False)  # what the call would do
    response_schema: dict[str, Any] | None  # of the fields that it is answered with
    decisions: list[Given]


class DecisionIn(Schema):
    """What was read, and what is said to it."""

    model_config = ConfigDict(extra="forbid")

    verdict: Literal["approve", "edit", "reject", "respond"]
    revision: Annotated[int, Field(ge=1, le=2**31 - 1)]
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    arguments: dict[str, Any] | None = None
    reason: Annotated[str, Field(max_length=20_000)] = ""
    # Text; or its fields, where the request has a `response_schema`.
    response: Annotated[str, Field(max_length=20_000)] | dict[str, Any] = ""
    typed: Annotated[str, Field(max_length=200)] = ""


class UndoIn(Schema):
    """What is taken back: the decision that made, or left, this revision."""

    model_config = ConfigDict(extra="forbid")

    revision: Annotated[int, Field(ge=1, le=2**31 - 1)]


@router.get("/approvals", auth=reads, response=list[ApprovalReport], summary="Requests")
def approvals(
    request: ProgramRequest,
    status: Status = "pending",
    run: UUID | None = None,
    thread: UUID | None = None,
    tool: Annotated[str, Query(max_length=64, pattern=r"^[^\x00]*$")] = "",
    risk: Literal["", "low", "medium", "high", "critical"] = "",
    before: UUID | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Any:
    """Newest first; those that wait, unless another status is named, or none ("").

    To go on, give the last one's id as `before`.
    """
    found = Approval.objects.for_user(request.auth)
    wanted = {
        "status": status,
        "run": run,
        "thread": thread,
        "call__tool": tool,
        "risk": risk,
        "pk__lt": before,
    }
    rows = (
        found.filter(**{name: value for name, value in wanted.items() if value})
        .select_related("call", "decided_by")
        .order_by("-pk")[:limit]
    )
    return [ApprovalReport(**_facts(row)) for row in rows]


@router.get(
    "/approvals/{approval_id}",
    auth=reads,
    response=ApprovalDetail,
    summary="A request",
)
def approval(request: ProgramRequest, approval_id: ApprovalId) -> Any:
    """A request with its arguments, which are opened for it; that is recorded."""
    return _detail(_approval(request.auth, approval_id), request.auth)


@router.post(
    "/approvals/{approval_id}/decision",
    auth=decides,
    response=ApprovalReport,
    summary="Decide",
)
def decision(request: ProgramRequest, approval_id: ApprovalId, body: DecisionIn) -> Any:
    """For the person who made the token, if that person may.

    `revision` and `digest` are those that were read. 409 where somebody was faster
    (`decided_by`, `decided_at`), or the request changed (`revision`). The same decision,
    sent twice, is made once. Where `typed` was read with the request, it is sent back;
    what needs its page (`needs_page`) can only be rejected here: 403, with its `path`.
    """
    row = _approval(request.auth, approval_id)
    person = tokens.person_of(request.auth)
    _require_other(row, person)
    try:
        _decide(row, body, person)
    except AlreadyDecided as closed:
        if not closed.is_repeat:
            raise
    except InvalidDecision as wrong:
        if PASSWORD in wrong.fields:
            raise NeedsPage(_path(row)) from None
        raise
    return ApprovalReport(**_facts(_approval(request.auth, approval_id)))


@router.post(
    "/approvals/{approval_id}/undo",
    auth=decides,
    response=ApprovalReport,
    summary="Take a decision back",
)
def undo_decision(
    request: ProgramRequest, approval_id: ApprovalId, body: UndoIn
) -> Any:
    """What the person who made the token decided, here or on the page: until `final_at`.

    `revision` is the one that the decision was answered with. 409, `too_late`, once the
    run went on, or where there is nothing to take back; `stale` where the request is
    another by now, so that a call that is sent twice takes no later decision back.
    """
    row = _approval(request.auth, approval_id)
    person = tokens.person_of(request.auth)
    _require_other(row, person)
    undo(row, person, revision=body.revision)
    return ApprovalReport(**_facts(_approval(request.auth, approval_id)))


def _decide(row: Approval, body: DecisionIn, person: UserPrincipal) -> None:
    seen, typed = Seen(body.revision, bytes.fromhex(body.digest)), body.typed
    match body.verdict:
        case "approve":
            decide.approve(row, seen=seen, by=person, typed=typed)
        case "edit":
            if body.arguments is None:
                raise InvalidDecision({"arguments": "An edit gives all arguments."})
            given = body.arguments
            decide.edit(row, seen=seen, by=person, arguments=given, typed=typed)
        case "reject":
            decide.reject(row, seen=seen, by=person, reason=body.reason)
        case "respond":
            said = body.response
            decide.respond(row, seen=seen, by=person, response=said, typed=typed)


def _approval(by: Actor, pk: UUID) -> Approval:
    """As the token sees it: a private thread's is not there, whoever made the token."""
    rows = Approval.objects.for_user(by).select_related(
        "call", "thread", "decided_by", "run__grant__token", "run__agent_version__agent"
    )
    return get_object_or_404(rows, pk=pk)


def _require_other(row: Approval, person: UserPrincipal) -> None:
    """Raises NotEligible: no program approves what it asked."""
    token = row.run.grant.token
    if token is not None and token.created_by_id == person.user_id:
        raise NotEligible(OWN)


def _path(row: Approval) -> str:
    return reverse("agents:approval", args=[row.pk])


def _form_of(row: Approval) -> dict[str, Any] | None:
    """None for text, and where this server does not know the tool."""
    try:
        return decide.response_of(row)
    except InvalidDecision:
        return None


def _facts(row: Approval) -> dict[str, Any]:
    who, asks = row.decided_by, demanded(row)
    named = ("id", "number", "kind", "status", "risk", "rule", "allowed", "approvers")
    times = ("asked_at", "due_at", "decided_at", "final_at")
    return {
        **{name: getattr(row, name) for name in (*named, *times, "revision")},
        "tool": row.call.tool,
        "digest": bytes(row.digest).hex(),
        "thread": row.thread_id,
        "branch": row.branch_id,
        "run": row.run_id,
        "call": row.call_id,
        "decided_by": (who.get_full_name() or who.get_username()) if who else None,
        "path": _path(row),
        "needs_page": asks.password,
        "typed": asks.typed,
    }


def _detail(row: Approval, by: Actor) -> ApprovalDetail:
    opened = gate.admit(by, purpose="approval", threads=[row.thread])
    proposed = opened.open(row.call, "arguments")
    effective = opened.open(row.call, "effective")
    said = (
        Decision.objects.for_user(by)
        .filter(approval=row)
        .select_related("by")
        .order_by("at")
    )
    # It was of the arguments before the edit that closed the request.
    edited = not row.is_pending and any(
        each.verdict == Decision.Verdict.EDIT and each.revision + 1 == row.revision
        for each in said
    )
    return ApprovalDetail(
        **_facts(row),
        title=title_of(row, opened.open(row.call, "title"), effective),
        arguments=proposed if effective is None else effective,
        proposed=proposed,
        reason=opened.open(row.call, "reason"),
        guard=row.guard,
        found=opened.open(row, "guard_found"),
        preview=None if edited else opened.open(row, "preview"),
        response_schema=_form_of(row),
        decisions=[
            Given(
                each.by.get_full_name() or each.by.get_username(),
                each.verdict,
                each.revision,
                each.at,
            )
            for each in said
        ],
    )
