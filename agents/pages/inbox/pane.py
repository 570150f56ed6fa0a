"""What the templates of one request are given, however the page was come by."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import Http404

from agents import errors
from agents.approvals import care
from agents.approvals import decide as decisions
from agents.models import Approval
from agents.pages.inbox import answer
from agents.pages.inbox.detail import Detail
from agents.pages.inbox.opening import find, open_request
from agents.pages.principal import MemberRequest

CANNED_REASONS = (
    "Too expensive",
    "Wrong date or route",
    "Traveller has not confirmed",
    "Not within policy",
    "Ask again later",
)

# For how long a request is hidden, in hours.
HOURS = {"1": "an hour", "4": "4 hours", "24": "a day", "72": "3 days", "168": "a week"}

BESIDE = (
    "reason",
    "response",
    "json",
    "password",
    "typed",
    "note",
    "to",
    "until",
    "scope",
    "rows",
    "ends",
)  # problems that stand at their field
READ = 200  # tokens that an address or a form may give back


def get(request: MemberRequest, pk: UUID) -> Approval:
    """The request, or 404."""
    found = find(request.principal, pk)
    if found is None:
        raise Http404
    return found


def opened(request: MemberRequest, approval: Approval) -> Detail:
    return open_request(request.principal, approval, read=read_by(request))


def read_by(request: MemberRequest) -> list[str]:
    """The tokens of what was opened: in the form, or in the address."""
    return [*request.POST.getlist("read"), *request.GET.getlist("read")][:READ]


def context_of(
    detail: Detail,
    *,
    mode: str = "",
    edited: dict[str, Any] | None = None,
    posted: Any = None,
    problems: dict[str, str] | None = None,
) -> dict[str, Any]:
    """`mode`: "" | "edit" | the name of a sheet. With `posted`, forms show what was typed.

    `edited`: of `editing`, which a page that edits needs.
    """
    if not _may(detail, mode):
        mode = ""
    context: dict[str, Any] = {
        "detail": detail,
        "mode": mode,
        "errors": problems or {},
        "typed": posted or {},
        "canned_reasons": CANNED_REASONS,
        "read_form": _read_form(detail, mode),
    }
    if mode == "snooze":
        context["snoozes"] = list(HOURS.items())
    if mode == "assign":
        context["people"] = care.assignable(detail.approval)
    if mode == "edit" and edited:
        context |= edited
    elif problems:
        context["elsewhere"] = [
            text for name, text in problems.items() if name not in BESIDE
        ]
    if detail.asks_fields and not mode:
        assert detail.tool is not None  # it has the fields
        given = answer.form(detail.tool, posted, problems or {})
        context |= given | {
            "elsewhere": [
                *given["elsewhere"],
                *(
                    text
                    for name, text in (problems or {}).items()
                    if name[:1] not in ("", "/") and name not in BESIDE
                ),
            ]
        }
    return context


def _read_form(detail: Detail, mode: str) -> str:
    """The id of the form that says what was opened; empty where nobody asks this reader."""
    if mode == "break_glass":  # also of who may not decide it as usual
        return "sheet-form"
    if not detail.may_decide:
        return ""
    match mode:
        case "remember":
            return "sheet-form"
        case "edit":
            return "apr-form"
    return "apr-again" if detail.in_doubt else "apr-actions"


def _may(detail: Detail, mode: str) -> bool:
    """Whether this reader is shown the form or sheet of this name."""
    match mode:
        case "reject" | "assign":
            return detail.may_reject
        case "break_glass":
            return detail.standing.may_break
        case "remember":  # which says why it is not offered
            return detail.approval.is_pending and not detail.sealed
        case "snooze":
            return detail.approval.is_pending and not detail.sealed
        case "note":
            return not detail.sealed
    return detail.may_decide


def schema_of(approval: Approval) -> dict[str, Any]:
    """What the tool takes; raises 404 where this server does not know the tool."""
    try:
        return decisions.schema_of(approval)
    except errors.InvalidDecision as unknown:
        raise Http404 from unknown
