"""Start a run with a message."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_http_methods

from agents import errors
from agents.pages.audience import AudienceForm, groups_of
from agents.pages.damage import NO_STORE
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import hx_location
from agents.runs.control import switched_off
from agents.runs.start import start_run
from agents.tools import registry
from checkpoints.errors import StoreUnavailable
from checkpoints.models import Thread

OFF = "The agent {} is switched off in this workspace. An admin can switch it on."
MESSAGE_LENGTH = 8000  # characters


class RunForm(AudienceForm):
    """What a run starts from. The agent's own checks come after."""

    agent = forms.CharField(max_length=60)
    message = forms.CharField(
        max_length=MESSAGE_LENGTH,
        error_messages={
            "required": "The message is empty. Say what the agent should do."
        },
    )
    title = forms.CharField(max_length=200, required=False)


@require_http_methods(["GET", "HEAD", "POST"])
@member
def new_run(request: MemberRequest) -> HttpResponse:
    principal = request.principal
    if not principal.may_operate:
        raise PermissionDenied(
            "Operators and admins of this workspace start runs; your role is "
            f"{principal.role.label.lower()}."
        )
    groups = groups_of(principal)
    if request.method != "POST":
        return _page(request, RunForm(initial=_initial(request), groups=groups))
    form = RunForm(request.POST, groups=groups)
    if not form.is_valid():
        return _page(request, form, status=422)
    asked: dict[str, Any] = form.cleaned_data
    if asked["agent"] in switched_off(principal):
        form.add_error("agent", OFF.format(asked["agent"]))
        return _page(request, form, status=422)
    try:
        run = start_run(
            agent=asked["agent"],
            message=asked["message"],
            title=asked["title"],
            request_key=asked["request_key"],
            by=principal,
            **form.audience,
        )
    except errors.UnknownAgent as unknown:
        form.add_error("agent", str(unknown))
    except errors.EmptyMessage as empty:
        form.add_error("message", str(empty))
    except StoreUnavailable:
        form.add_error("message", NO_STORE)
    else:
        return hx_location(
            request, reverse("agents:thread", args=[run.thread_id]), say="Started."
        )
    return _page(request, form, status=422)


def _initial(request: MemberRequest) -> dict[str, Any]:
    return {
        "agent": request.GET.get("agent", ""),
        "request_key": uuid4(),
        "visibility": Thread.Visibility.WORKSPACE,
    }


def _page(request: MemberRequest, form: RunForm, *, status: int = 200) -> HttpResponse:
    off = switched_off(request.principal)
    agents = [agent for agent in registry.as_registered() if agent.name not in off]
    chosen = form["agent"].value() or (agents[0].name if agents else "")
    return render(
        request,
        "new_run.html",
        {
            "form": form,
            "agents": agents,
            "off": off,
            "chosen": chosen,
            "limit": MESSAGE_LENGTH,
        },
        status=status,
    )


urlpatterns = [path("runs/new", new_run, name="new_run")]
