"""Deciding one request: one POST, whatever the verdict, and what is said of it."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.http import require_POST

from agents import errors
from agents.approvals import break_glass
from agents.approvals import decide as decisions
from agents.approvals.given import SHOWN_BYTES
from agents.models import Approval
from agents.pages.again import password_ok
from agents.pages.damage import DAMAGE
from agents.pages.inbox import answer, editing, pane, unsent
from agents.pages.inbox.arguments import left_by, require_read
from agents.pages.inbox.detail import Detail
from agents.pages.inbox.listing import address_of, beside, refresh_list, the_next
from agents.pages.inbox.opening import open_asked, open_request, to_decide
from agents.pages.inbox.standing import Standing, in_grace, standing_of
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import invalid, is_fragment, moved_on, went_on
from agents.pure.terms import Terms
from agents.runs.stop import cancel
from checkpoints.compiled import Compiled
from checkpoints.pure.codec import same

DONE = {
    "break_glass": "Approved {} alone. The audit log says so.",
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


@require_POST
@member
def decide(request: MemberRequest, pk: UUID) -> HttpResponse:
    """Take a decision as the form carries it: verdict, revision, digest, content."""
    verdict = request.POST.get("decision", "")
    current = to_decide(request.principal, pk)
    if current is None or verdict not in DONE:
        raise Http404
    try:
        take(request, current, verdict)
    except (errors.LostRace, *DAMAGE) as lost:
        # Two clicks are one decision: who clicked reads what it did, not that they lost.
        if not (isinstance(lost, errors.AlreadyDecided) and lost.is_repeat):
            return unsent.lost_to(request, pk, lost, verdict)
    except errors.InvalidDecision as wrong:
        # As it is now: a guard may look at it again.
        return unsent.invalid_form(request, pane.get(request, pk), verdict, wrong)
    except errors.NotEligible as refused:
        return unsent.refused_to(request, pk, refused, verdict)
    return done(request, pk, verdict)


# What is said of a request that is closed needs nothing beside its row.
_DECIDED = Compiled(
    lambda by, pk: Approval.objects.for_user(by).filter(pk=pk).exclude(status="pending")
)


def done(
    request: MemberRequest, pk: UUID, verdict: str, *, more: str = "", unkept: str = ""
) -> HttpResponse:
    """What is there now that it was decided. `more` is said as well; `unkept`: that
    something beside the decision was not done."""
    decided = _DECIDED.first(request.principal, pk=pk) or pane.get(request, pk)
    standing = standing_of(request.principal, decided)
    said = f"{_said(decided, standing, verdict)} {more}".strip()
    if not is_fragment(request):  # the page that it leads to opens what it shows
        return went_on(request, address_of(request, decided), say=said)
    decided = pane.get(request, pk)
    undoable = ""
    if standing.can_undo:
        said, undoable = "", said  # its toast has a button
    context = pane.context_of(open_request(request.principal, decided))
    return refresh_list(
        moved_on(
            request,
            "inbox/_decided.html",
            to=address_of(request, decided),
            say=said,
            undoable=undoable,
            just_decided=True,
            unkept=unkept,
            next=the_next(request, decided),
            **context,
        )
    )


@require_POST
@member
def edit_as(request: MemberRequest, pk: UUID) -> HttpResponse:
    """Another view of what is being edited; nothing is kept, nothing is decided."""
    current = pane.get(request, pk)
    detail = pane.opened(request, current)
    if not detail.may_decide:
        closed = errors.NotEligible(detail.why_not or "This request is decided.")
        return unsent.refused_to(request, pk, closed, "edit")
    if detail.tool is None:
        raise Http404
    try:
        seen = seen_by(request)
    except errors.InvalidDecision as wrong:
        return unsent.invalid_form(request, current, "edit", wrong)
    if not _is_as_seen(current, seen):  # another's edit must not go unseen
        stale = errors.Stale(seen.revision, current.revision)
        return unsent.lost_to(request, pk, stale, "edit")
    view = request.POST.get("show", "")
    view = view if view in editing.VIEWS else "form"
    try:
        arguments = editing.read(current, request.POST, detail.asked)
        if view == "form" and "json" in request.POST:
            arguments = editing.fitting(detail.tool, arguments)
    except errors.InvalidDecision as wrong:
        context = pane.context_of(
            detail, mode="edit", edited=editing.form(detail, request.POST, wrong.fields)
        )
        if not is_fragment(request):
            context |= beside(request, current) | {"opened": True}
        return invalid(request, "inbox/_detail.html", page="inbox.html", **context)
    context = pane.context_of(
        detail, mode="edit", edited=editing.shown(detail, arguments, view)
    )
    if is_fragment(request):
        return render(request, "inbox/_detail.html", context)
    context |= beside(request, current) | {"opened": True}
    return render(request, "inbox.html", context)


def take(request: MemberRequest, current: Approval, verdict: str) -> None:
    """Take the decision that the form carries; raises what the service does."""
    seen, by, shown = seen_by(request), request.principal, _shown(request)
    sure: dict[str, Any] = {"typed": request.POST.get("typed", ""), "shown": shown}
    match verdict:
        case "approve":
            if _is_as_seen(current, seen) and not decisions.ineligible(current, by):
                _require_seen(request, current, shown)
            sure["password_ok"] = password_ok(request)
            decisions.approve(current, seen=seen, by=by, **sure)
        case "break_glass":
            if _is_as_seen(current, seen) and break_glass.may(current, by):
                _require_seen(request, current, shown)
            reason = request.POST.get("reason", "")
            sure["password_ok"] = password_ok(request)
            break_glass.approve(current, seen=seen, by=by, reason=reason, **sure)
        case "edit":
            if current.is_pending and not _is_as_seen(current, seen):
                raise errors.Stale(seen.revision, current.revision)
            detail = pane.opened(request, current)
            arguments = editing.read(current, request.POST, detail.asked)
            if _is_as_seen(current, seen) and detail.may_decide:
                _require_as_shown(detail, shown)
                require_read(
                    detail.foldable  # which is no edit, and approves it
                    if _is_as_asked(detail, arguments)
                    else left_by(arguments, detail.arguments)
                )
            sure["password_ok"] = password_ok(request)
            decisions.edit(current, seen=seen, by=by, arguments=arguments, **sure)
        case "reject":
            reason = "\n".join(
                line
                for name in ("why", "reason")
                if (line := request.POST.get(name, "").strip())
            )
            stops = "stop" in request.POST and by.may_operate
            stop = partial(cancel, by=by) if stops else None
            decisions.reject(
                current, seen=seen, by=by, reason=reason, shown=shown, stop=stop
            )
        case "respond":
            response = answer.read(current, request.POST)
            sure["password_ok"] = password_ok(request)
            decisions.respond(current, seen=seen, by=by, response=response, **sure)


def _said(approval: Approval, standing: Standing, verdict: str) -> str:
    """What is told to whoever decided."""
    if verdict == "edit" and approval.is_pending:
        return f"Edited {approval}. Other people approve it as it is now."
    if verdict == "approve" and approval.is_pending:
        return f"Approved {approval}: {standing.asks}."
    if in_grace(approval) and verdict in ("approve", "edit"):
        return f"Approved {approval}. It runs in {Terms.of(approval.terms).grace} s."
    in_doubt = approval.kind == Approval.Kind.UNKNOWN
    return (DONE_IN_DOUBT if in_doubt else DONE)[verdict].format(approval)


def _shown(request: MemberRequest) -> bytes:
    """The hash of what was shown, as the form carries it; a form without one is refused."""
    try:
        return bytes.fromhex(request.POST.get("shown", ""))
    except ValueError:
        return b""


def _is_as_asked(detail: Detail, arguments: dict[str, Any]) -> bool:
    """Whether an edit changes nothing, however its values are written: then it approves."""
    try:
        kept = detail.tool.validate(arguments)[0] if detail.tool else arguments
    except errors.ArgumentsDoNotFit:
        return False  # which refuses it
    return same(kept, detail.asked)


def _is_as_seen(current: Approval, seen: decisions.Seen) -> bool:
    """Whether to ask how it was looked at: what is closed or changed refuses anyway."""
    return current.is_pending and seen == current.as_shown()


def _require_seen(request: MemberRequest, current: Approval, shown: bytes) -> None:
    """The page showed what there is now, and what is folded on it was opened.

    Who may not decide is told that instead. Raises NotAsShown, InvalidDecision.
    """
    read = pane.read_by(request)
    asked = open_asked(request.principal, current, read=read)
    _require_as_shown(asked, shown)
    require_read(asked.foldable)


def _require_as_shown(asked: Detail, shown: bytes) -> None:
    """A hash that is none is refused with the decision."""
    if len(shown) == SHOWN_BYTES and shown.hex() != asked.shown:
        raise errors.NotAsShown


def seen_by(request: MemberRequest) -> decisions.Seen:
    """What the form says was shown; raises InvalidDecision where it says nothing."""
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


urlpatterns = [
    path("inbox/<uuid:pk>/decide", decide, name="decide"),
    path("inbox/<uuid:pk>/edit/as", edit_as, name="edit_as"),
]
