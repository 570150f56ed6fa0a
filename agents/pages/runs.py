"""The Runs page: what runs, waits and failed, and the ways on from there."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import path, reverse
from django.views.decorators.http import require_POST, require_safe

from agents import errors
from agents.models import Approval, Run
from agents.pages import live
from agents.pages.damage import open_each
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import hx_location, moved_on
from agents.runs import start as service
from checkpoints import gate
from checkpoints.access import UserPrincipal
from checkpoints.errors import FutureSchema

LIMIT = 100  # rows

SHOWN: dict[str, tuple[Run.Status, ...]] = {
    "all": tuple(Run.Status),
    "live": Run.LIVE,
    "failed": (Run.Status.FAILED,),
}


@dataclass(frozen=True)
class Row:
    """One run, with its thread's title, its branch's name and why it failed."""

    run: Run
    title: str | None = None
    branch: str = ""
    error: str | None = None


def _find(principal: UserPrincipal, show: str) -> list[Run]:
    return list(
        Run.objects.for_user(principal)
        .filter(status__in=SHOWN[show])
        .select_related(
            "thread",
            "branch",
            "grant__token",
            "agent_version__agent",
            "started_by",
        )
        .order_by("-created_at")[:LIMIT]
    )


def _rows(principal: UserPrincipal, runs: list[Run]) -> list[Row]:
    if not runs or not principal.may_read:
        return [Row(run) for run in runs]
    opened = gate.admit(
        principal,
        purpose="runs",
        threads={run.thread_id: run.thread for run in runs}.values(),
    )
    return [
        Row(run, title, (branch or "") if run.branch.parent_id else "", error)
        for run, title, branch, error in zip(
            runs,
            open_each(opened, [run.thread for run in runs], "title"),
            open_each(opened, [run.branch for run in runs], "name"),
            open_each(opened, runs, "error"),
            strict=True,
        )
    ]


def _tag(show: str, runs: list[Run]) -> str:
    return live.tag(
        [
            show,
            *(
                f"{run.pk} {run.shown_status} {run.steps} {run.worker} {run.needs_owner}"
                f" {run.is_held}"
                for run in runs
            ),
        ]
    )


def _counts(principal: UserPrincipal) -> dict[str, int]:
    mine = Run.objects.for_user(principal)
    return {
        "ready": mine.filter(status=Run.Status.READY).count(),
        "running": mine.filter(status=Run.Status.RUNNING).count(),
        "waiting": Approval.objects.for_user(principal).pending().count(),
        "failed": mine.filter(status=Run.Status.FAILED).count(),
    }


@require_safe
@member
def runs(request: MemberRequest) -> HttpResponse:
    show = request.GET.get("show", "all")
    show = show if show in SHOWN else "all"
    found = _find(request.principal, show)
    return render(
        request,
        "runs.html",
        {
            "show": show,
            "rows": _rows(request.principal, found),
            "counts": _counts(request.principal),
            "tag": _tag(show, found),
        },
    )


@require_safe
@member
def table(request: MemberRequest) -> HttpResponse:
    show = request.GET.get("show", "all")
    show = show if show in SHOWN else "all"
    found = _find(request.principal, show)
    tag = _tag(show, found)
    if same := live.unchanged(request, tag):
        return same
    rows = _rows(request.principal, found)
    counts = _counts(request.principal)
    context = {"show": show, "rows": rows, "counts": counts, "tag": tag}
    return live.region(request, "runs/_poll.html", context, shown=tag)


@require_POST
@member
def retry(request: MemberRequest, pk: UUID) -> HttpResponse:
    run = get_object_or_404(Run.objects.for_user(request.principal), pk=pk)
    try:
        again = service.retry(run, by=request.principal)
    except (errors.AgentsError, FutureSchema) as refused:
        # NotRetryable, BranchBusy, UnknownAgent
        messages.error(request, str(refused))
        return hx_location(request, _thread(run))
    said = "The run goes on." if again == run else "A new run goes on from the head."
    return hx_location(request, _thread(again), say=said)


@require_POST
@member
def cancel(request: MemberRequest, pk: UUID) -> HttpResponse:
    run = get_object_or_404(Run.objects.for_user(request.principal), pk=pk)
    done = service.cancel(run, by=request.principal)
    run.refresh_from_db()
    said = "Cancelled." if done else "It was over already; nothing was cancelled."
    return moved_on(
        request,
        "runs/_row.html",
        to=_thread(run),
        say=said,
        row=_rows(request.principal, [run])[0],
    )


def _thread(run: Run) -> str:
    return f"{reverse('agents:thread', args=[run.thread_id])}?branch={run.branch_id}"


urlpatterns = [
    path("runs/", runs, name="runs"),
    path("f/runs/", table, name="runs_table"),
    path("runs/<uuid:pk>/retry", retry, name="retry"),
    path("runs/<uuid:pk>/cancel", cancel, name="cancel"),
]
