"""The Inbox's pages and fragments; deciding is one POST, whatever the verdict."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import HttpResponseClientRefresh

from agents import errors
from agents.approvals import decide as decisions
from agents.approvals import fields
from agents.models import Approval
from agents.pages import live
from agents.pages.damage import DAMAGE
from agents.pages.inbox import queue
from agents.pages.inbox.detail import Detail, find, open_request, tag_of
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import conflict, invalid, is_fragment, moved_on

CANNED_REASONS = (
    "Too expensive",
    "Wrong date or route",
    "Traveller has not confirmed",
    "Not within policy",
    "Ask again later",
)

BESIDE = ("reason", "response")  # problems that stand at their field

DONE = {
    "approve": "Approved {}. The agent goes on.",
    "edit": "Approved {} with your edits. The agent goes on.",
    "reject": "Rejected {}. The agent is told why.",
    "respond": "Answered {}. The agent goes on.",
}

DONE_IN_DOUBT = {
    "approve": "{} is run again.",
    "reject": "Left {} in doubt. The agent is told so.",
    "respond": "The agent has the result of {}.",
}


@require_safe
@member
def home(request: MemberRequest) -> HttpResponse:
    return redirect("agents:inbox")


@require_safe
@member
def inbox(request: MemberRequest) -> HttpResponse:
    """The list, with its first request opened beside it where there is room."""
    show = _show(request)
    found = queue.find(request.principal, show=show)
    current = None
    if found and show == "waiting":
        current = find(request.principal, found[0].pk)
    return _page(request, show=show, found=found, current=current, opened=False)


@require_safe
@member
def listing(request: MemberRequest) -> HttpResponse:
    """The list alone, for the page that polls it; 304 while it shows the same."""
    show = _show(request)
    found = queue.find(request.principal, show=show)
    opened = request.GET.get("open", "")
    current = next((one for one in found if str(one.pk) == opened), None)
    tag = queue.tag_of(found, current)
    if "empty" in request.GET:  # a page without a list: it is drawn anew, or not
        return HttpResponseClientRefresh() if found else HttpResponse(status=204)
    if same := live.unchanged(request, tag):
        return same
    shown = queue.queue(request.principal, found, show=show, current=current)
    context = {"queue": shown, "open": opened}
    return live.region(request, "inbox/_poll.html", context, shown=tag)


@require_safe
@member
def approval(request: MemberRequest, pk: UUID) -> HttpResponse:
    return _page(request, current=_get(request, pk))


@require_safe
@member
def edit(request: MemberRequest, pk: UUID) -> HttpResponse:
    """The arguments as a form."""
    return _page(request, current=_get(request, pk), mode="edit")


@require_safe
@member
def reject(request: MemberRequest, pk: UUID) -> HttpResponse:
    """The request with the sheet that wants a reason."""
    return _page(request, current=_get(request, pk), mode="reject")


@require_safe
@member
def part(request: MemberRequest, pk: UUID, mode: str = "") -> HttpResponse:
    """The detail pane alone; 304 while it shows the same."""
    current = _get(request, pk)
    tag = tag_of(current)
    if not mode and (same := live.unchanged(request, tag)):
        return same
    detail = open_request(request.principal, current)
    context = _context(request, detail, mode=mode)
    if not current.is_pending:
        waiting = queue.find(request.principal, show="waiting")
        context["next"] = _following(waiting, current)
    return live.region(request, "inbox/_detail.html", context, shown=tag)


@require_POST
@member
def decide(request: MemberRequest, pk: UUID) -> HttpResponse:
    """Take a decision as the form carries it: verdict, revision, digest, content."""
    current = _get(request, pk)
    verdict = request.POST.get("decision", "")
    if verdict not in DONE:
        raise Http404
    try:
        _decide(request, current, verdict)
    except (errors.LostRace, *DAMAGE) as lost:
        return _lost(request, pk, lost)
    except errors.InvalidDecision as wrong:
        return _invalid(request, current, verdict, wrong)
    except errors.NotEligible as refused:
        raise PermissionDenied(str(refused)) from refused
    decided = _get(request, pk)
    detail = open_request(request.principal, decided)
    return moved_on(
        request,
        "inbox/_decided.html",
        to=reverse("agents:approval", args=[pk]),
        say=(DONE_IN_DOUBT if detail.in_doubt else DONE)[verdict].format(decided),
        just_decided=True,
        **_context(request, detail),
        **_list(request, decided),
    )


def _decide(request: MemberRequest, current: Approval, verdict: str) -> None:
    seen = _seen(request)
    by = request.principal
    match verdict:
        case "approve":
            decisions.approve(current, seen=seen, by=by)
        case "edit":
            proposed = open_request(by, current).proposed
            arguments = fields.parse(_schema(current), request.POST, proposed)
            decisions.edit(current, seen=seen, by=by, arguments=arguments)
        case "reject":
            reason = "\n".join(
                line
                for name in ("why", "reason")
                if (line := request.POST.get(name, "").strip())
            )
            decisions.reject(current, seen=seen, by=by, reason=reason)
        case "respond":
            response = request.POST.get("response", "").strip()
            decisions.respond(current, seen=seen, by=by, response=response)


def _seen(request: MemberRequest) -> decisions.Seen:
    try:
        return decisions.Seen(
            revision=int(request.POST["revision"]),
            digest=bytes.fromhex(request.POST["digest"]),
        )
    except (KeyError, ValueError):
        # A form that was not ours, or was cut: it binds to nothing.
        raise errors.InvalidDecision(
            {"digest": "The form does not say what was shown. Reload the page."}
        ) from None


def _lost(request: MemberRequest, pk: UUID, lost: Exception) -> HttpResponse:
    now = _get(request, pk)
    detail = open_request(request.principal, now)
    return conflict(
        request,
        "inbox/_decided.html",
        lost,
        to=reverse("agents:approval", args=[pk]),
        **_context(request, detail),
        **_list(request, now),
    )


def _invalid(
    request: MemberRequest,
    current: Approval,
    verdict: str,
    wrong: errors.InvalidDecision,
) -> HttpResponse:
    detail = open_request(request.principal, current)
    mode = {"edit": "edit", "reject": "reject"}.get(verdict, "")
    context = _context(
        request, detail, mode=mode, posted=request.POST, problems=wrong.fields
    )
    if not is_fragment(request):
        context |= _list(request, current) | {"opened": True}
    return invalid(request, "inbox/_detail.html", page="inbox.html", **context)


def _page(
    request: MemberRequest,
    *,
    show: str = "waiting",
    found: list[Approval] | None = None,
    current: Approval | None,
    mode: str = "",
    opened: bool = True,
) -> HttpResponse:
    context: dict[str, Any] = {}
    if current is not None:
        detail = open_request(request.principal, current)
        context = _context(request, detail, mode=mode)
    context |= _list(request, current, show=show, found=found)
    return render(request, "inbox.html", {**context, "opened": opened})


def _list(
    request: MemberRequest,
    current: Approval | None,
    *,
    show: str = "waiting",
    found: list[Approval] | None = None,
) -> dict[str, Any]:
    if found is None:
        found = queue.find(request.principal, show=show)
    shown = queue.queue(request.principal, found, show=show, current=current)
    return {
        "queue": shown,
        "next": _following(found, current) if show == "waiting" else None,
        "open": current.pk if current else "",
    }


def _following(found: list[Approval], current: Approval | None) -> Approval | None:
    """Where to go on after this one."""
    return next((one for one in found if one != current), None)


def _context(
    request: MemberRequest,
    detail: Detail,
    *,
    mode: str = "",
    posted: Any = None,
    problems: dict[str, str] | None = None,
) -> dict[str, Any]:
    if not detail.may_decide:
        mode = ""
    context: dict[str, Any] = {
        "detail": detail,
        "mode": mode,
        "errors": problems or {},
        "typed": posted or {},
        "canned_reasons": CANNED_REASONS,
    }
    if mode == "edit":
        schema = _schema(detail.approval)
        shown = fields.describe(
            schema, detail.proposed, posted=posted, problems=problems
        )
        before = fields.describe(schema, detail.proposed)
        context["fields"] = [
            (field, old.value if old.value != field.value else None)
            for field, old in zip(shown, before, strict=True)
        ]
        context["wrong"] = wrong = [field for field in shown if field.error]
        context["focus"] = next(
            (field.id for field in (*wrong, *shown) if not field.locked), ""
        )
        context["elsewhere"] = fields.elsewhere(problems or {}, shown)
    elif problems:
        context["elsewhere"] = [
            text for name, text in problems.items() if name not in BESIDE
        ]
    return context


def _get(request: MemberRequest, pk: UUID) -> Approval:
    found = find(request.principal, pk)
    if found is None:
        raise Http404
    return found


def _show(request: MemberRequest) -> str:
    return "decided" if request.GET.get("show") == "decided" else "waiting"


def _schema(approval: Approval) -> dict[str, Any]:
    """What the tool takes; raises 404 where this server does not know the tool."""
    try:
        return decisions.schema_of(approval)
    except errors.InvalidDecision as unknown:
        raise Http404 from unknown


urlpatterns = [
    path("", home, name="home"),
    path("inbox/", inbox, name="inbox"),
    path("inbox/<uuid:pk>/", approval, name="approval"),
    path("inbox/<uuid:pk>/edit", edit, name="edit"),
    path("inbox/<uuid:pk>/reject", reject, name="reject"),
    path("inbox/<uuid:pk>/decide", decide, name="decide"),
    path("f/inbox/", listing, name="inbox_list"),
    path("f/inbox/<uuid:pk>/", part, name="approval_part"),
    path("f/inbox/<uuid:pk>/edit", part, {"mode": "edit"}, name="edit_part"),
    path("f/inbox/<uuid:pk>/reject", part, {"mode": "reject"}, name="reject_part"),
]
