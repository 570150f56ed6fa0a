"""Buttons that hold runs: pause and resume of one, the kill switch for all."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from agents.models import Run
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import hx_location
from agents.runs import control as service


@require_POST
@member
def pause(request: MemberRequest, pk: UUID) -> HttpResponse:
    run = _run(request, pk)
    done = service.pause(run, by=request.principal)
    said = "Paused." if done else "It is paused already, or over."
    if done and run.status == Run.Status.RUNNING:
        said = "It pauses after this step."
    return hx_location(request, _thread(run), say=said)


@require_POST
@member
def resume(request: MemberRequest, pk: UUID) -> HttpResponse:
    run = _run(request, pk)
    done = service.resume(run, by=request.principal)
    said = "The run goes on." if done else "It was not paused."
    return hx_location(request, _thread(run), say=said)


@require_POST
@member
def halt(request: MemberRequest) -> HttpResponse:
    principal = request.principal
    done = service.halt(principal.workspace_id, by=principal)
    said = "All runs stop after their step." if done else "They are stopped already."
    return hx_location(request, "agents:runs", say=said)


@require_POST
@member
def lift(request: MemberRequest) -> HttpResponse:
    principal = request.principal
    done = service.lift(principal.workspace_id, by=principal)
    said = "Runs go on." if done else "Runs were not stopped."
    return hx_location(request, "agents:runs", say=said)


def _run(request: MemberRequest, pk: UUID) -> Run:
    mine = Run.objects.for_user(request.principal).select_related("branch")
    return get_object_or_404(mine, pk=pk)


def _thread(run: Run) -> str:
    return f"{reverse('agents:thread', args=[run.thread_id])}?branch={run.branch_id}"


urlpatterns = [
    path("runs/<uuid:pk>/pause", pause, name="pause"),
    path("runs/<uuid:pk>/resume", resume, name="resume"),
    path("runs/halt", halt, name="halt"),
    path("runs/lift", lift, name="lift"),
]
