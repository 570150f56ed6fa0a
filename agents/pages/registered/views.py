"""The Agents pages: the list, and one agent by tabs."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.http import require_http_methods, require_safe

from agents.pages.principal import MemberRequest, member
from agents.pages.registered.calls import TestBox, box, tested
from agents.pages.registered.find import (
    DAYS,
    Row,
    calls,
    days,
    policies_in_force,
    row_of,
    rows,
)
from agents.pages.registered.tools import in_order, tool_rows
from agents.pages.registered.versions import lines, opened
from agents.pages.signs import EFFECT
from checkpoints.access import Role, UserPrincipal
from checkpoints.models import Group

LEGEND = (
    ("none", "answers, or asks a person"),
    ("read", "looks only"),
    ("write", "changes our own records"),
    ("external", "reaches other people or costs money"),
)
NO_TEST = "An auditor reads the audit log, and tests no calls."
FEW = 6  # tools on the overview
BARS = (72, 18)  # view box of the spark line


@require_safe
@member
def agents(request: MemberRequest) -> HttpResponse:
    found = rows(request.principal)
    return render(
        request,
        "agents.html",
        {
            "rows": [(row, _effects(row)) for row in found],
            "registered": sum(row.code is not None for row in found),
            "legend": [(EFFECT[name], words) for name, words in LEGEND],
        },
    )


@require_safe
@member
def overview(request: MemberRequest, name: str) -> HttpResponse:
    row = row_of(request.principal, name)
    context = _tools(request, row)
    week = days(request.principal, row.known)
    return render(
        request,
        "agent.html",
        {
            **context,
            "tab": "overview",
            # What acts first: the rules are about that.
            "few": sorted(context["tools"], key=lambda each: not each.tool.has_effects)[
                :FEW
            ],
            "bars": _bars(week),
            "lines": lines(request.principal, row.known, most=3) if row.known else [],
            "box": box(row, {}) if request.principal.may_read else None,
        },
    )


@require_safe
@member
def tools(request: MemberRequest, name: str) -> HttpResponse:
    row = row_of(request.principal, name)
    return render(request, "agent.html", {**_tools(request, row), "tab": "tools"})


@require_http_methods(["GET", "HEAD", "POST"])
@member
def policies(request: MemberRequest, name: str) -> HttpResponse:
    """In the order they are asked. POST tests a call: it changes nothing."""
    principal = request.principal
    row = row_of(principal, name)
    context = _tools(request, row)
    test: TestBox | None = None
    if request.method == "POST":
        if not principal.may_read:
            raise PermissionDenied(NO_TEST)
        ours = context["policies"], context["groups"]
        test = tested(principal, row, request.POST.dict(), *ours)
    elif principal.may_read:
        test = box(row, request.GET.dict())
    return render(
        request,
        "agent.html",
        {**context, "tab": "policies", "box": test},
        status=422 if test and test.errors else 200,
    )


@require_safe
@member
def versions(request: MemberRequest, name: str) -> HttpResponse:
    """The list; `?at=` and `?base=` open one, or what two differ in."""
    row = row_of(request.principal, name)
    shown = opened(request.principal, row.known, request.GET) if row.known else None
    return render(
        request,
        "agent.html",
        {
            **_shared(request.principal, row),
            "tab": "versions",
            "lines": lines(request.principal, row.known) if row.known else [],
            "opened": shown,
            "asked": "at" in request.GET,
        },
    )


def groups_of(principal: UserPrincipal) -> dict[str, str]:
    """Names of the workspace's groups, by their id."""
    return {str(group.pk): group.name for group in Group.objects.for_user(principal)}


def _shared(principal: UserPrincipal, row: Row) -> dict[str, Any]:
    policies = policies_in_force(principal, row.known)
    if row.known is None:
        policies = [policy for policy in policies if policy.agent_id is None]
    groups = groups_of(principal)
    return {
        "row": row,
        "may_switch": principal.role is Role.ADMIN,
        "policies": policies,
        "ordered": in_order(policies, groups),
        "groups": groups,
    }


def _tools(request: MemberRequest, row: Row) -> dict[str, Any]:
    shared = _shared(request.principal, row)
    made = calls(request.principal, row.known)
    found = tool_rows(row.tools, shared["policies"], made, shared["groups"])
    return {**shared, "tools": found}


def _effects(row: Row) -> list[dict[str, Any]]:
    return [
        {"look": EFFECT[effect], "count": count, "effect": effect}
        for effect, count in row.effects
    ]


def _bars(counts: list[int]) -> list[dict[str, float]]:
    """Bars of the spark line, one a day."""
    most = max([*counts, 1])
    width, height = BARS
    heights = [1 + (height - 2) * count / most for count in counts]
    return [
        {
            "x": round(n * width / DAYS, 1),
            "y": round(height - high, 1),
            "height": round(high, 1),
        }
        for n, high in enumerate(heights)
    ]


urlpatterns = [
    path("agents/", agents, name="agents"),
    path("agents/<slug:name>/", overview, name="agent"),
    path("agents/<slug:name>/tools/", tools, name="agent_tools"),
    path("agents/<slug:name>/policies/", policies, name="agent_policies"),
    path("agents/<slug:name>/versions/", versions, name="agent_versions"),
]
