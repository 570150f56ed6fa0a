"""API tokens: admins make them, see them once, and revoke them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import path
from django.views.decorators.http import require_http_methods

from agents.pages.principal import MemberRequest, member
from agents.pages.respond import hx_location
from checkpoints import tokens
from checkpoints.access import Role, Scope
from checkpoints.clock import now
from checkpoints.errors import TokenRefused
from checkpoints.models import ApiToken

ROWS = 200
DAYS = 90  # that a new token lasts, unless somebody types something else
SCOPES = {
    Scope.READ: "status, history and state of what the whole workspace sees",
    Scope.START: "start runs, and try failed ones again",
    Scope.MESSAGE: "send messages to threads",
    Scope.FORK: "fork any step",
    Scope.CANCEL: "cancel runs",
    Scope.DECIDE: "decide requests for you, as long as you may; never those of your own tokens",
}


class TokenForm(forms.Form):
    """What a new token may, and for how long. No days: for ever."""

    name = forms.CharField(
        max_length=tokens.LONGEST_NAME,
        error_messages={"required": "Name the program that will use it."},
    )
    scopes = forms.MultipleChoiceField(
        choices=Scope.choices, error_messages={"required": "Choose at least one."}
    )
    days = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=tokens.LONGEST.days,
        error_messages={
            "invalid": "A whole number of days, or nothing: it never expires.",
            "min_value": "At least 1 day; nothing means that it never expires.",
            "max_value": "At most 3650 days; nothing means that it never expires.",
        },
    )


@require_http_methods(["GET", "HEAD", "POST"])
@member
def api_tokens(request: MemberRequest) -> HttpResponse:
    """Admins' page. POST makes one, and answers with it: the only time it is shown."""
    principal = request.principal
    if principal.role is not Role.ADMIN:
        raise PermissionDenied(tokens.ADMIN)
    if request.method != "POST":
        return _page(request, TokenForm(initial={"days": DAYS}))
    if pk := request.POST.get("revoke"):
        return _revoke(request, pk)
    form = TokenForm(request.POST)
    if not form.is_valid():
        return _page(request, form, status=422)
    days: int | None = form.cleaned_data["days"]
    try:
        made, text = tokens.make(
            principal.workspace_id,
            name=form.cleaned_data["name"],
            scopes=form.cleaned_data["scopes"],
            lasts=timedelta(days=days) if days else None,
            by=principal,
        )
    except TokenRefused as refused:
        form.add_error(refused.field, str(refused))
        return _page(request, form, status=422)
    return _page(request, TokenForm(initial={"days": DAYS}), made=made, text=text)


def _revoke(request: MemberRequest, typed: str) -> HttpResponse:
    try:
        pk = UUID(typed)
    except ValueError:
        pk = UUID(int=0)
    token = get_object_or_404(ApiToken.objects.for_user(request.principal), pk=pk)
    ended = tokens.revoke(token, by=request.principal)
    said = "Revoked. Runs that act for it wait for an owner."
    return hx_location(
        request, "agents:tokens", say=said if ended else "It was revoked already."
    )


def _page(
    request: MemberRequest, form: TokenForm, *, status: int = 200, **made: Any
) -> HttpResponse:
    rows = (
        ApiToken.objects.for_user(request.principal)
        .select_related("created_by")
        .order_by("-created_at")[:ROWS]
    )
    context = {
        "form": form,
        "chosen": form["scopes"].value() or [],
        "scopes": SCOPES.items(),
        "rows": rows,
        "now": now(),
        **made,
    }
    return render(request, "tokens.html", context, status=status)


urlpatterns = [path("tokens/", api_tokens, name="tokens")]
