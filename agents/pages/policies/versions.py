"""The versions of a policy: who saved what, and what two of them differ in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from agents.models import Policy
from agents.pages.policies.people import names_people, people_of
from agents.pages.policies.scope import number_of, scope_of, tabs
from agents.pages.principal import MemberRequest, member
from agents.pages.rules import said
from agents.pages.thread.diff import diff_view
from checkpoints.access import Role
from checkpoints.models import Group
from checkpoints.pure.compare import compare

PAGE = 50  # versions: each comes with its rules


@require_safe
@member
def versions(request: MemberRequest, name: str = "") -> HttpResponse:
    """`?at=` shows one; `?at=` and `?base=` what two differ in. `?before=`: older ones."""
    principal = request.principal
    scope = scope_of(principal, name)
    every = scope.policies(principal)
    before = number_of(request.GET.get("before", ""))
    listed = every if before is None else every.filter(version__lt=before)
    found = list(listed[: PAGE + 1])
    at, base = (_of(found, every, request.GET.get(name, "")) for name in ("at", "base"))
    groups = {str(group.pk): group.name for group in Group.objects.for_user(principal)}
    names = groups
    if at and names_people(at.rules):
        names = groups | people_of(principal)
    return render(
        request,
        "policy_versions.html",
        {
            "scope": scope,
            "tabs": tabs(principal, scope),
            "versions": [
                (policy, len(policy.rules), older)
                for policy, older in zip(found[:PAGE], [*found[1:], None], strict=False)
            ],
            "newest": before is None,
            "earlier": f"?{urlencode({'before': found[PAGE - 1].version})}"
            if len(found) > PAGE
            else "",
            "later": scope.versions if before is not None else "",
            "at": at,
            "base": base,
            "diff": diff_view(compare(_state(base), _state(at)))
            if at and base
            else None,
            "rules": [said(rule, names) for rule in at.rules] if at else [],
            "asked": "at" in request.GET,
            "may_edit": principal.role is Role.ADMIN,
        },
    )


def _of(found: Sequence[Policy], every: Any, text: str) -> Policy | None:
    """The version of this number: of the page, or looked up among all."""
    number = number_of(text)
    if number is None:
        return None
    here = (policy for policy in found if policy.version == number)
    of: Policy | None = next(here, None) or every.filter(version=number).first()
    return of


def _state(policy: Policy | None) -> dict[str, Any]:
    return {"rules": policy.rules if policy else []}
