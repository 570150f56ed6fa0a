"""Buttons that hold runs: pause and resume of one, the kill switch for all; and agents."""

from __future__ import annotations

from uuid import UUID

from django.core.exceptions import BadRequest
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from agents.models import Agent, Run
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import hx_location
from agents.pure.queues import PRIORITIES
from agents.runs import control as service
from agents.tools import registry


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
def prioritise(request: MemberRequest, pk: UUID) -> HttpResponse:
    run = _run(request, pk)
    asked = request.POST.get("priority", "")
    wanted = next((name for name in PRIORITIES if name == asked), None)
    if wanted is None:
        raise BadRequest
    done = service.prioritise(run, wanted, by=request.principal)
    said = f"Its priority is {wanted} now." if done else "It has that, or is over."
    return hx_location(request, "agents:runs", say=said)


@require_POST
@member
def halt(request: MemberRequest) -> HttpResponse:
    principal = request.principal
    done = service.halt(principal.workspace_id, by=principal)
    said = (
        "All runs stop after their step, and none starts."
        if done
        else "All runs are stopped already."
    )
    return hx_location(request, "agents:runs", say=said)


@require_POST
@member
def lift(request: MemberRequest) -> HttpResponse:
    principal = request.principal
    done = service.lift(principal.workspace_id, by=principal)
    said = "Runs go on." if done else "Runs were not stopped."
    return hx_location(request, "agents:runs", say=said)


@require_POST
@member
def switch(request: MemberRequest, name: str) -> HttpResponse:
    """An agent on or off. Switching it back takes either back."""
    wanted = request.POST.get("to", "")
    if wanted not in ("on", "off"):
        raise BadRequest
    known = Agent.objects.for_user(request.principal).filter(name=name)
    if name not in registry and not known.exists():
        raise Http404
    changed = service.switch(name, on=wanted == "on", by=request.principal)
    said = f"{name} was {wanted} already."
    if changed and wanted == "off":
        said = f"{name} is switched off: no run of it starts. Those that began go on."
    elif changed:
        said = f"{name} is switched on."
    return hx_location(request, reverse("agents:agent", args=[name]), say=said)


def _run(request: MemberRequest, pk: UUID) -> Run:
    mine = Run.objects.for_user(request.principal).select_related("branch")
    return get_object_or_404(mine, pk=pk)


def _thread(run: Run) -> str:
    return f"{reverse('agents:thread', args=[run.thread_id])}?branch={run.branch_id}"


urlpatterns = [
    path("runs/<uuid:pk>/pause", pause, name="pause"),
    path("runs/<uuid:pk>/resume", resume, name="resume"),
    path("runs/<uuid:pk>/priority", prioritise, name="prioritise"),
    path("runs/halt", halt, name="halt"),
    path("runs/lift", lift, name="lift"),
    path("agents/<slug:name>/switch", switch, name="agent_switch"),
]
