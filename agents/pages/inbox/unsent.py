"""A decision that was not taken: what there is now, why, and what was typed for it.

Nothing that was typed is lost: it is in its form again or, where this person is not shown
that form any more, beside the request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import render

from agents import errors
from agents.models import Approval
from agents.pages.inbox import editing, pane
from agents.pages.inbox.detail import Detail
from agents.pages.inbox.listing import address_of, beside, refresh_list, the_next
from agents.pages.inbox.opening import find
from agents.pages.principal import MemberRequest
from agents.pages.refusals import record_refused
from agents.pages.respond import conflict, invalid, is_fragment

# What a form of this verdict has typed text in, and what that is called.
_TYPED_IN = {
    "edit": {"json": "JSON"},
    "reject": {"reason": "Reason"},
    "break_glass": {"reason": "Reason"},
    "respond": {"response": "Answer"},
    "note": {"note": "Note"},
}
Texts = Sequence[tuple[str, str]]  # what was typed, by the names of fields


def lost_to(
    request: MemberRequest,
    pk: UUID,
    lost: Exception,
    verdict: str = "",
    *,
    kept: Texts = (),
) -> HttpResponse:
    """The request as it is now, and who or what was faster.

    What was typed for it (`verdict`) stays in its form, or beside it; `kept`: what of it
    no form has any more.
    """
    now = pane.get(request, pk)
    detail = pane.opened(request, now)
    context = _typed(request, detail, verdict, {})
    if kept:
        context["kept"] = kept
    page = "inbox.html" if kept or _texts(request, verdict) else ""
    if page and not is_fragment(request):
        context |= beside(request, now) | {"opened": True}
    else:
        context["next"] = the_next(request, now)
    return refresh_list(
        conflict(
            request,
            "inbox/_detail.html",
            lost,
            to=address_of(request, now),
            page=page,
            **context,
        )
    )


def refused_to(
    request: MemberRequest,
    pk: UUID,
    refused: errors.NotEligible,
    verdict: str,
    *,
    kept: Texts = (),
) -> HttpResponse:
    """It is not for this person to decide (403). What was typed is there, and why."""
    any_typed = kept or _texts(request, verdict)
    now = find(request.principal, pk) if any_typed else None
    if now is None:
        raise PermissionDenied(str(refused)) from refused
    record_refused(request)
    context = _typed(request, pane.opened(request, now), verdict, {})
    context["refused"] = str(refused)
    if kept:
        context["kept"] = kept
    template = "inbox/_detail.html"
    if not is_fragment(request):
        context |= beside(request, now) | {"opened": True}
        template = "inbox.html"
    return render(request, template, context, status=403)


def _texts(request: MemberRequest, verdict: str) -> list[tuple[str, str]]:
    """What was typed, by the names of arguments or fields."""
    names = _TYPED_IN.get(verdict, {})
    found = [
        (names.get(name, name.removeprefix("arg/")), text)
        for name, text in request.POST.items()
        if name in names or (name.startswith("arg/") and verdict in ("edit", "respond"))
    ]
    return [(name, str(text)) for name, text in found if str(text).strip()]


def _typed(
    request: MemberRequest, detail: Detail, verdict: str, wrong: dict[str, str]
) -> dict[str, Any]:
    """Of the form that this verdict was sent with, as it was typed.

    `kept`: what was typed, where this reader is not shown that form (any more).
    """
    mode = verdict if verdict in ("edit", "reject", "break_glass", "note") else ""
    edited = None
    if mode == "edit" and detail.may_decide:
        edited = editing.form(detail, request.POST, wrong)
    context = pane.context_of(
        detail, mode=mode, edited=edited, posted=request.POST, problems=wrong
    )
    if context["mode"] != mode or not (mode or detail.may_decide):
        context["kept"] = _texts(request, verdict)
    return context


def invalid_form(
    request: MemberRequest,
    current: Approval,
    verdict: str,
    wrong: errors.InvalidDecision,
) -> HttpResponse:
    """The form again (422), with what was typed and what is wrong with it."""
    detail = pane.opened(request, current)
    context = _typed(request, detail, verdict, wrong.fields)
    if not is_fragment(request):
        context |= beside(request, current) | {"opened": True}
    return invalid(request, "inbox/_detail.html", page="inbox.html", **context)
