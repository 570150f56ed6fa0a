"""The Runs page: what runs, waits and failed, and the ways on from there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import path, reverse
from django.views.decorators.http import require_POST, require_safe

from agents import errors
from agents.models import Agent, Run
from agents.pages import live
from agents.pages.answering import said
from agents.pages.cost_limit import CostLimit, cost_field, cost_limit
from agents.pages.damage import open_each
from agents.pages.delegated import Relative, waited_for
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import hx_location, moved_on
from agents.pages.run_list.find import PERIODS, Filters, Found, Page, page_of
from agents.pages.run_list.health import Health, health
from agents.pages.thread.trouble import means
from agents.pure.queues import PRIORITIES
from agents.runs import start as service
from agents.runs import stop
from agents.tools import registry
from checkpoints import gate
from checkpoints.access import UserPrincipal
from checkpoints.errors import FutureSchema


@dataclass(frozen=True)
class Row:
    """One run, with its thread's title, its branch's name and why it failed."""

    run: Run
    title: str | None = None
    branch: str = ""
    error: str | None = None
    waits_for: Sequence[Relative] = ()  # agents

    @property
    def most_steps(self) -> int:
        """That its agent allows one run; of an agent that is not here, the setting's."""
        name = self.run.agent_version.agent.name
        own = registry.agent(name).limits.max_steps if name in registry else None
        return min(own or settings.MAX_STEPS, settings.MAX_STEPS)

    @property
    def why(self) -> str:
        """Why it failed, or pauses: its reason; for who cannot read that, what it means."""
        kind = self.run.error_class
        return self.error or (f"{means(kind)} ({kind})" if kind else "")

    @property
    def limit(self) -> CostLimit | None:
        return cost_limit(self.run)

    @property
    def answering(self) -> str:
        return said(self.run, head_step=self.run.branch.head_step)


def _rows(principal: UserPrincipal, runs: list[Found]) -> list[Row]:
    awaited = waited_for(principal, runs)
    if not runs or not principal.may_read:
        return [Row(run, waits_for=awaited.get(run.pk, ())) for run in runs]
    opened = gate.admit(
        principal,
        purpose="runs",
        threads={run.thread_id: run.thread for run in runs}.values(),
    )
    return [
        Row(
            run,
            title,
            (branch or "") if run.branch.parent_id else "",
            error,
            awaited.get(run.pk, ()),
        )
        for run, title, branch, error in zip(
            runs,
            open_each(opened, [run.thread for run in runs], "title"),
            open_each(opened, [run.branch for run in runs], "name"),
            open_each(opened, runs, "error"),
            strict=True,
        )
    ]


def _tag(found: Page, state: Health, filters: Filters) -> str:
    return live.tag(
        [
            filters,
            *state.tag(),
            *(
                f"{run.pk} {run.shown_status} {run.steps} {run.worker} {run.needs_owner}"
                f" {run.doing} {run.is_held} {run.priority} {run.unpriced}"
                for run in found.runs
            ),
        ]
    )


def _context(
    request: MemberRequest, filters: Filters, found: Page, state: Health
) -> dict[str, Any]:
    return {
        "filters": filters,
        "show": filters.show,
        "rows": _rows(request.principal, found.runs),
        "earlier": found.earlier,
        "before": request.GET.get("before", ""),
        "health": state,
        "tag": _tag(found, state, filters),
        "priorities": PRIORITIES,
    }


@require_safe
@member
def runs(request: MemberRequest) -> HttpResponse:
    filters, before = Filters.of(request.GET), request.GET.get("before", "")
    found = page_of(request.principal, filters, before=before)
    state = health(request.principal)
    agents = Agent.objects.for_user(request.principal).order_by("name")
    return render(
        request,
        "runs.html",
        {
            **_context(request, filters, found, state),
            "agents": agents.values_list("name", flat=True),
            "periods": PERIODS.items(),
        },
    )


@require_safe
@member
def table(request: MemberRequest) -> HttpResponse:
    filters, before = Filters.of(request.GET), request.GET.get("before", "")
    found = page_of(request.principal, filters, before=before)
    state = health(request.principal)
    tag = _tag(found, state, filters)
    if same := live.unchanged(request, tag):
        return same
    context = _context(request, filters, found, state)
    return live.region(request, "runs/_poll.html", context, shown=tag)


@require_POST
@member
def retry(request: MemberRequest, pk: UUID) -> HttpResponse:
    run = get_object_or_404(Run.objects.for_user(request.principal), pk=pk)
    try:
        again = service.retry(
            run,
            by=request.principal,
            resume=_resume(request.POST.get("resume", "")),
            max_cost=cost_field().clean(request.POST.get("max_cost", "")),
        )
    except ValidationError as wrong:
        messages.error(request, f"Nothing was retried. Cost limit: {wrong.messages[0]}")
        return hx_location(request, _thread(run))
    except (errors.AgentsError, FutureSchema) as refused:
        # NotRetryable, BranchBusy, UnknownAgent
        messages.error(request, str(refused))
        return hx_location(request, _thread(run))
    said = "The run goes on." if again == run else "A new run goes on from the head."
    return hx_location(request, _thread(again), say=said)


def _resume(chosen: str) -> str:
    return chosen if chosen in Run.Resume.values else ""


@require_POST
@member
def cancel(request: MemberRequest, pk: UUID) -> HttpResponse:
    run = get_object_or_404(Run.objects.for_user(request.principal), pk=pk)
    done = stop.cancel(run, by=request.principal)
    run.refresh_from_db()
    said = "Cancelled." if done else "It was over already; nothing was cancelled."
    return moved_on(
        request,
        "runs/_row.html",
        to=_thread(run),
        say=said,
        row=_rows(request.principal, [run])[0],
        priorities=PRIORITIES,
    )


def _thread(run: Run) -> str:
    return f"{reverse('agents:thread', args=[run.thread_id])}?branch={run.branch_id}"


urlpatterns = [
    path("runs/", runs, name="runs"),
    path("f/runs/", table, name="runs_table"),
    path("runs/<uuid:pk>/retry", retry, name="retry"),
    path("runs/<uuid:pk>/cancel", cancel, name="cancel"),
]
