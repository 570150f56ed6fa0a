"""The guard of a request looks again, because someone opened it or wants to know."""

from __future__ import annotations

from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from agents.approvals import guards
from agents.pages.inbox import pane
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import moved_on


@require_POST
@member
def check(request: MemberRequest, pk: UUID) -> HttpResponse:
    """Have a worker look; the pane shows that it does, and soon what it found."""
    current = pane.get(request, pk)
    if not request.principal.may_read:
        raise PermissionDenied("Your role reads the audit log, not state.")
    guards.ask_check(current, request.principal)
    now = pane.get(request, pk)
    return moved_on(
        request,
        "inbox/_detail.html",
        to=reverse("agents:approval", args=[pk]),
        **pane.context_of(pane.opened(request, now)),
    )


urlpatterns = [path("inbox/<uuid:pk>/check", check, name="check")]
