"""“Approve and remember…”: the sheet that approves a call, and lets such calls go after it.

The approval is that of the page, with all that it refuses. The rule is made once it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError
from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import path
from django.views.decorators.http import require_POST, require_safe

from agents import errors
from agents.models import Approval, StickyRule
from agents.pages import live
from agents.pages.damage import DAMAGE
from agents.pages.inbox import deciding, pane, unsent
from agents.pages.inbox.detail import Detail, tag_of
from agents.pages.inbox.listing import beside
from agents.pages.inbox.sheet import Sheet, sheet_of
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import invalid, is_fragment
from agents.policies import sticky
from agents.policies.back_test import BackTest, back_test
from checkpoints import clock
from checkpoints.db.locks import FORM, in_turn
from checkpoints.errors import CheckpointsError

SAVED = "Such calls go ahead until the rule ends; Policies has it."
CHANGED = "This request is not any more what is shown here. Reload the page."


@require_safe
@member
def look(request: MemberRequest, pk: UUID) -> HttpResponse:
    """The request's page with the sheet in the place of its action bar."""
    current = pane.get(request, pk)
    context = _context(request, pane.opened(request, current))
    context |= beside(request, current) | {"opened": True}
    return render(request, "inbox.html", context)


@require_safe
@member
def part(request: MemberRequest, pk: UUID) -> HttpResponse:
    """The pane alone, with the sheet."""
    current = pane.get(request, pk)
    context = _context(request, pane.opened(request, current))
    return live.region(request, "inbox/_detail.html", context, shown=tag_of(current))


@require_POST
@member
def try_part(request: MemberRequest, pk: UUID) -> HttpResponse:
    """The line alone that says what such a rule would have let go. Nothing is kept."""
    current = pane.get(request, pk)
    sheet = _typed(request, pane.opened(request, current))
    context: dict[str, Any] = {"sheet": sheet}
    if not _is_as_shown(request, current):
        context["untried"] = CHANGED
    elif wrong := sheet.problems(tried=True):
        context["untried"] = " ".join(wrong.values())
    else:
        context["found"] = _back_test(request, current, sheet)
    return render(request, "inbox/_back_test.html", context)


@require_POST
@member
def remember(request: MemberRequest, pk: UUID) -> HttpResponse:
    """Approve, then have it remembered; or, without script, try what was typed.

    The same form, sent twice, is answered twice as it was the first time: the second
    waits for the first, which approves and then makes the rule.
    """
    if request.POST.get("do") == "try":
        return _tried(request, pane.get(request, pk))
    with in_turn(FORM, f"remember {pk} {request.principal.user_id}"):
        return _remembered(request, pk)


def _remembered(request: MemberRequest, pk: UUID) -> HttpResponse:
    current = pane.get(request, pk)
    sheet = None
    if current.is_pending and _is_as_shown(request, current):
        detail = pane.opened(request, current)
        if not detail.sealed:
            sheet = sheet_of(detail, request.POST)
            if sheet.why_not:
                return _refused(request, pk, sheet.why_not, detail)
            if wrong := sheet.problems():
                return _again(request, detail, wrong)
    # Whatever else is wrong, the approval refuses.
    said = ""
    try:
        deciding.take(request, current, "approve")
    except (errors.LostRace, *DAMAGE) as lost:
        if not (isinstance(lost, errors.AlreadyDecided) and lost.is_repeat):
            if sheet is None:
                shown = pane.opened(request, current)
                sheet = sheet_of(shown, request.POST, sent=True)
            return unsent.lost_to(request, pk, lost, kept=sheet.said)
        said = _again_said(request, pk)
    except errors.InvalidDecision as wrong:
        # As it is now: a guard may look at it again.
        now = pane.get(request, pk)
        return _again(request, pane.opened(request, now), wrong.fields)
    except errors.NotEligible as refused:
        return _refused(request, pk, str(refused), pane.opened(request, current))
    unkept = "" if said else _keep(request, pk, sheet)
    if unkept:
        if not is_fragment(request):
            messages.error(request, unkept)
        return deciding.done(request, pk, "approve", unkept=unkept)
    return deciding.done(request, pk, "approve", more=said or SAVED)


def _again_said(request: MemberRequest, pk: UUID) -> str:
    """Of a request that this person had approved already: what became of the rule."""
    detail = pane.opened(request, pane.get(request, pk))
    typed = sheet_of(detail, request.POST, sent=True)
    rule = None
    if not typed.why_not:
        by = request.principal
        rule = sticky.made_from(detail.approval, by, typed.scope, typed.predicate)
    if rule is None:
        return "It was approved already; this form saved no rule."
    if rule.revoked_at is not None:
        return "It was approved already; the rule of this form was revoked since."
    return SAVED


def _keep(request: MemberRequest, pk: UUID, sheet: Sheet | None) -> str:
    """Makes the rule. Empty, or that there is none, and why: the approval stands."""
    decided = pane.get(request, pk)
    why = CHANGED
    if sheet is not None:
        try:
            sticky.remember(
                decided,
                deciding.seen_by(request),
                request.principal,
                sheet.scope,
                sheet.predicate,
                expires_at=clock.now() + timedelta(hours=int(sheet.ends)),
            )
        except errors.InvalidSticky as wrong:
            why = " ".join(wrong.fields.values())
        except (errors.AgentsError, CheckpointsError) as wrong:
            why = str(wrong)
        except DatabaseError:
            why = "The database did not take it."
        else:
            return ""
    return f"{decided} is approved, and that stands. The rule was not saved: {why}"


def _refused(
    request: MemberRequest, pk: UUID, why: str, detail: Detail
) -> HttpResponse:
    """403, with what was chosen in the sheet, which is not offered any more."""
    sent = sheet_of(detail, request.POST, sent=True)
    refused = errors.NotEligible(why)
    return unsent.refused_to(request, pk, refused, "remember", kept=sent.said)


def _tried(request: MemberRequest, current: Approval) -> HttpResponse:
    """The sheet as typed, with what such a rule would have let go."""
    detail = pane.opened(request, current)
    sheet = sheet_of(detail, request.POST)
    if sheet.why_not:
        return _refused(request, current.pk, sheet.why_not, detail)
    if not _is_as_shown(request, current):
        now, shown = current.revision, request.POST.get("revision", "")
        revision = int(shown) if shown.isdecimal() and len(shown) < 9 else 0
        return unsent.lost_to(request, current.pk, errors.Stale(revision, now))
    if wrong := sheet.problems(tried=True):
        return _again(request, detail, wrong)
    context = _context(request, detail, typed=request.POST)
    context["found"] = _back_test(request, current, sheet)
    if is_fragment(request):
        return render(request, "inbox/_detail.html", context)
    context |= beside(request, current) | {"opened": True}
    return render(request, "inbox.html", context)


def _back_test(request: MemberRequest, current: Approval, sheet: Sheet) -> BackTest:
    by = request.principal
    return back_test(current, by, sheet.scope, sheet.predicate)


def _typed(request: MemberRequest, detail: Detail) -> Sheet:
    """What was typed; raises PermissionDenied where the sheet is not offered."""
    sheet = sheet_of(detail, request.POST)
    if sheet.why_not:
        raise PermissionDenied(sheet.why_not)
    return sheet


def _is_as_shown(request: MemberRequest, current: Approval) -> bool:
    """Whether the form is of the request as it is: its rows are numbered."""
    try:
        return deciding.seen_by(request) == current.as_shown()
    except errors.InvalidDecision:
        return False


def _context(
    request: MemberRequest,
    detail: Detail,
    *,
    typed: QueryDict | None = None,
    problems: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    wrong = dict(problems or {})
    found = pane.context_of(detail, mode="remember", posted=typed, problems=wrong)
    return found | {
        "sheet": sheet_of(detail, typed),
        "scopes": StickyRule.Scope.choices,
    }


def _again(
    request: MemberRequest, detail: Detail, problems: Mapping[str, str]
) -> HttpResponse:
    context = _context(request, detail, typed=request.POST, problems=problems)
    if not is_fragment(request):
        context |= beside(request, detail.approval) | {"opened": True}
    return invalid(request, "inbox/_detail.html", page="inbox.html", **context)


urlpatterns = [
    path("inbox/<uuid:pk>/remember", look, name="remember"),
    path("inbox/<uuid:pk>/remember/save", remember, name="remember_save"),
    path("f/inbox/<uuid:pk>/remember", part, name="remember_part"),
    path("f/inbox/<uuid:pk>/remember/try", try_part, name="remember_try"),
]
