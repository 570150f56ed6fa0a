"""Looking after a request without deciding it, and taking a decision back."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.urls import path
from django.views.decorators.http import require_POST, require_safe

from agents import errors
from agents.approvals import care as service
from agents.approvals import share
from agents.approvals import undo as undoing
from agents.models import Approval
from agents.pages import live
from agents.pages.inbox import pane, unsent
from agents.pages.inbox.detail import tag_of
from agents.pages.inbox.listing import address_of, beside, refresh_list, the_next
from agents.pages.inbox.views import draw
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import invalid, is_fragment, moved_on
from checkpoints import clock

SHEETS = ("assign", "snooze", "note", "break_glass", "reject")
# What is wrong with what was sent stands in the sheet that sent it.
SHEET_OF = {"assign": "assign", "snooze": "snooze", "note": "note"}


@require_safe
@member
def sheet(request: MemberRequest, pk: UUID, name: str) -> HttpResponse:
    """The request's page with a sheet in the place of its action bar."""
    if name not in SHEETS:
        raise Http404
    return draw(request, current=pane.get(request, pk), mode=name)


@require_safe
@member
def sheet_part(request: MemberRequest, pk: UUID, name: str) -> HttpResponse:
    """The pane alone, with that sheet."""
    if name not in SHEETS:
        raise Http404
    current = pane.get(request, pk)
    detail = pane.opened(request, current)
    context = pane.context_of(detail, mode=name)
    return live.region(request, "inbox/_detail.html", context, shown=tag_of(current))


@require_POST
@member
def care(request: MemberRequest, pk: UUID) -> HttpResponse:
    """Claim, let go, assign, snooze, bring back, escalate, write a note."""
    current = pane.get(request, pk)
    what = request.POST.get("do", "")
    try:
        said = _do(request, current, what)
    except errors.LostRace as lost:
        return unsent.lost_to(request, pk, lost)
    except errors.InvalidDecision as wrong:
        return _invalid(request, current, SHEET_OF.get(what, ""), wrong)
    except errors.NotEligible as refused:
        return unsent.refused_to(request, pk, refused, SHEET_OF.get(what, ""))
    return _again(request, pk, said)


@require_POST
@member
def undo(request: MemberRequest, pk: UUID) -> HttpResponse:
    """Take back what the person decided, while nothing has run by it."""
    current = pane.get(request, pk)
    shown = request.POST.get("revision", "")
    revision = int(shown[:10]) if shown.isdecimal() else None
    try:
        undoing.undo(current, request.principal, revision=revision)
    except errors.LostRace as late:
        return unsent.lost_to(request, pk, late)
    except errors.NotEligible as refused:
        raise PermissionDenied(str(refused)) from refused
    return _again(request, pk, f"Taken back. {current} waits for a decision again.")


def _do(request: MemberRequest, approval: Approval, what: str) -> str:
    """Does it; what is said then. Raises what the service does."""
    by = request.principal
    match what:
        case "claim":
            done = service.claim(approval, by)
            return f"You look after {approval}." if done else "It is yours already."
        case "release":
            done = service.release(approval, by)
            return f"{approval} is free again." if done else "Nobody had claimed it."
        case "assign":
            to = request.POST.get("to", "")
            if to and not to.isdecimal():
                raise errors.InvalidDecision({"to": "Choose somebody from the list."})
            service.assign(approval, by, to=int(to[:18]) if to else None)
            return f"{approval} is assigned." if to else f"{approval} is nobody's now."
        case "snooze":
            hours = request.POST.get("hours", "")
            if hours not in pane.HOURS:
                raise errors.InvalidDecision({"until": "Choose for how long."})
            until = clock.now() + timedelta(hours=int(hours))
            service.snooze(approval, by, until=until)
            return f"{approval} comes back in {pane.HOURS[hours]}. Its deadline stays."
        case "unsnooze":
            service.unsnooze(approval, by)
            return f"{approval} is back in your list."
        case "escalate":
            done = service.escalate(approval, by)
            return (
                f"{approval} is more urgent now."
                if done
                else "It is as urgent as can be."
            )
        case "share":
            to = request.POST.get("to", "")
            share.share(approval, by, to=_group(to) if to else None)
            return f"Who is asked about {approval} sees it now, and is told."
        case "note":
            service.note(approval, by, text=request.POST.get("note", ""))
            return "Your note is kept. Nothing was decided."
    raise Http404


def _group(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise errors.InvalidDecision({"": "Choose a group from the list."}) from None


def _again(request: MemberRequest, pk: UUID, said: str) -> HttpResponse:
    now = pane.get(request, pk)
    return refresh_list(
        moved_on(
            request,
            "inbox/_detail.html",
            to=address_of(request, now),
            say=said,
            next=the_next(request, now),
            **pane.context_of(pane.opened(request, now)),
        )
    )


def _invalid(
    request: MemberRequest,
    current: Approval,
    mode: str,
    wrong: errors.InvalidDecision,
) -> HttpResponse:
    detail = pane.opened(request, current)
    context = pane.context_of(
        detail, mode=mode, posted=request.POST, problems=wrong.fields
    )
    if not is_fragment(request):
        context |= beside(request, current) | {"opened": True}
    return invalid(request, "inbox/_detail.html", page="inbox.html", **context)


urlpatterns = [
    path("inbox/<uuid:pk>/care", care, name="care"),
    path("inbox/<uuid:pk>/undo", undo, name="undo"),
    path("inbox/<uuid:pk>/sheet/<slug:name>", sheet, name="sheet"),
    path("f/inbox/<uuid:pk>/sheet/<slug:name>", sheet_part, name="sheet_part"),
]
