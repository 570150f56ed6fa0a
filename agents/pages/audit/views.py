"""The audit log of a workspace, for its auditors and admins."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from django.contrib.auth.models import User
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_POST, require_safe

from agents.pages.audit.find import (
    ACTIONS,
    CHANNELS,
    OBJECTS,
    OUTCOMES,
    Filters,
    page_of,
)
from agents.pages.audit.rows import rows_of
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import download, hx_location
from agents.pages.text import name_of
from checkpoints import audit_chain, audit_export
from checkpoints.access import UserPrincipal
from checkpoints.errors import NotPermitted

P = ParamSpec("P")
CONTENT = {"jsonl": "application/jsonl", "csv": "text/csv; charset=utf-8"}
NOT_YOURS = "The audit log is read by auditors and admins of the workspace."


def auditing(
    view: Callable[Concatenate[MemberRequest, P], HttpResponseBase],
) -> Callable[Concatenate[MemberRequest, P], HttpResponseBase]:
    @wraps(view)
    def inner(
        request: MemberRequest, /, *args: P.args, **kwargs: P.kwargs
    ) -> HttpResponseBase:
        if not request.principal.may_audit:
            raise NotPermitted(NOT_YOURS)
        return view(request, *args, **kwargs)

    return inner


@require_safe
@member
@auditing
def log(request: MemberRequest) -> HttpResponse:
    filters = Filters.of(request.GET)
    page = page_of(request.principal, filters, request.GET)
    state = audit_chain.last_verified(request.principal.workspace_id)
    here = {
        name: request.GET[name] for name in ("before", "after") if name in request.GET
    }
    return render(
        request,
        "audit.html",
        {
            "filters": filters,
            "rows": rows_of(
                request.principal, page, state.bad_event if state else None
            ),
            "chain": state,
            "head": audit_chain.head_of(request.principal.workspace_id),
            "earlier": page.earlier and filters.address(before=page.earlier),
            "later": page.later and filters.address(after=page.later),
            "here": filters.address(**here),
            "people": _people(request.principal),
            "actions": ACTIONS,
            "objects": OBJECTS.items(),
            "outcomes": OUTCOMES,
            "channels": CHANNELS,
        },
    )


@require_POST
@member
@auditing
def verify(request: MemberRequest) -> HttpResponse:
    """As much of the newest part as a request may take; `verify_audit` does the rest."""
    state = audit_chain.verify_newest(request.principal)
    say = "The chain does not hold." if state.fault else "The chain holds."
    return hx_location(request, reverse("agents:audit"), say=say)


@require_safe
@member
@auditing
def export(request: MemberRequest, kind: str) -> HttpResponseBase:
    if kind == "py":
        return download(
            request,
            iter([audit_export.verifier()]),
            name="audit_proof.py",
            content_type="text/x-python; charset=utf-8",
        )
    pieces = audit_export.begin(
        request.principal.workspace_id, kind, by=request.principal
    )
    return download(request, pieces, name=f"audit.{kind}", content_type=CONTENT[kind])


def _people(principal: UserPrincipal) -> list[tuple[int, str]]:
    """Who is a member now; who no longer is can be asked for by a row's user id."""
    people = User.objects.filter(memberships__workspace_id=principal.workspace_id)
    return sorted(
        ((one.pk, name_of(one)) for one in people),
        key=lambda person: person[1],
    )


urlpatterns = [
    path("audit/", log, name="audit"),
    path("audit/verify", verify, name="audit_verify"),
    path("audit/export.jsonl", export, {"kind": "jsonl"}, name="audit_jsonl"),
    path("audit/export.csv", export, {"kind": "csv"}, name="audit_csv"),
    path("audit/audit_proof.py", export, {"kind": "py"}, name="audit_verifier"),
]
