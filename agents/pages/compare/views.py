"""Compare two branches; what to compare is chosen; what two steps differ in."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.http import require_safe
from django_htmx.http import push_url

from agents.pages.compare import choose, steps
from agents.pages.compare.address import Address
from agents.pages.compare.measures import measures
from agents.pages.compare.rows import PART, aligned
from agents.pages.compare.sides import Two, load
from agents.pages.principal import MemberRequest, member
from agents.pages.remarks.shown import verdicts_of
from agents.pages.respond import see_other


@require_safe
@member
def branches(request: MemberRequest, a: UUID, b: UUID) -> HttpResponse:
    """Two branches: how each ended, what it took, and their steps beside each other."""
    here = Address.of(request, a, b)
    two = _load(request, here)
    both = (two.a.branch, two.b.branch)
    verdicts = verdicts_of(request.principal, both, two.opened)
    return render(
        request,
        "compare.html",
        {
            **_rows(request, two, here),
            "measures": measures(two),
            "verdicts": [verdicts.get(branch.pk) for branch in both],
            "fixed": here.fixed(two.a.to, two.b.to),
            "swapped": here.swapped,
            "choose": choose.address(a, b),
        },
    )


@require_safe
@member
def rows(request: MemberRequest, a: UUID, b: UUID) -> HttpResponse:
    """The aligned steps alone: another row is opened, or another window."""
    here = Address.of(request, a, b)
    context = _rows(request, _load(request, here), here)
    return push_url(render(request, "compare/_steps.html", context), here.page)


@require_safe
@member
def chosen(request: MemberRequest) -> HttpResponse:
    """What to compare: goes there once two branches or threads are known."""
    found = choose.wanted(request.principal, request.GET)
    if found.both:
        return see_other(Address(*found.both).page)
    return render(request, "compare/choose.html", choose.context(request, found))


@require_safe
@member
def diff(request: MemberRequest, a: UUID, b: UUID) -> HttpResponse:
    """What the states after two steps differ in, whatever branch or thread they are of."""
    return render(request, "compare/diff.html", steps.context(request, a, b))


def _load(request: MemberRequest, here: Address) -> Two:
    return load(request.principal, here.a, here.b, a_to=here.a_to, b_to=here.b_to)


def _rows(request: MemberRequest, two: Two, here: Address) -> dict[str, Any]:
    found = aligned(request.principal, two, part=here.part, at=here.at)
    current = found.current

    def to(at: int | None) -> Address | None:
        return None if at is None else here.row(at)

    return {
        "two": two,
        "aligned": found,
        "here": here,
        "table": [(row, here.row(row.n)) for row in found.rows],
        "earlier": to(found.earlier),
        "later": to(found.later),
        "previous": to(found.previous),
        "following": to(found.following),
        "first": to(found.first.n) if found.first else None,
        "onwards": here.onwards(here.part + 1) if found.more else None,
        "back": here.onwards(here.part - 1) if here.part else None,
        "other_way": here.row(current.n if current else None).side_by_side(
            not here.split
        ),
        "from_step": two.shared + here.part * PART,
        "states": steps.address(current.a.id, current.b.id)
        if current and current.a and current.b
        else "",
    }


urlpatterns = [
    path("threads/compare/", chosen, name="compare"),
    path("threads/compare/<uuid:a>/<uuid:b>/", branches, name="compare_branches"),
    path("f/threads/compare/<uuid:a>/<uuid:b>/", rows, name="compare_rows"),
    path("threads/diff/<uuid:a>/<uuid:b>/", diff, name="diff"),
]
