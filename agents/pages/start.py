"""Start a run with a message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import uuid4

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_http_methods

from agents import errors
from agents.pages.damage import NO_STORE
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import hx_location
from agents.runs.start import start_run
from agents.tools import registry
from checkpoints.errors import StoreUnavailable
from checkpoints.models import Group, Thread

MESSAGE_LENGTH = 8000  # characters


class RunForm(forms.Form):
    """What a run starts from. The agent's own checks come after."""

    agent = forms.CharField(max_length=60)
    message = forms.CharField(
        max_length=MESSAGE_LENGTH,
        error_messages={
            "required": "The message is empty. Say what the agent should do."
        },
    )
    title = forms.CharField(max_length=200, required=False)
    visibility = forms.ChoiceField()  # or a group's id
    request_key = forms.UUIDField()

    def __init__(self, *args: Any, groups: Iterable[Group], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.groups = {str(group.pk): group for group in groups}
        self.fields["visibility"] = forms.ChoiceField(
            choices=[
                (Thread.Visibility.WORKSPACE, "everyone in the workspace"),
                *((pk, f"the group {group}") for pk, group in self.groups.items()),
                (Thread.Visibility.PRIVATE, "only me"),
            ]
        )

    @property
    def audience(self) -> dict[str, Any]:
        """Who may see the thread, as `start_run` takes it."""
        chosen = self.cleaned_data["visibility"]
        if chosen in self.groups:
            group = self.groups[chosen]
            return {"visibility": Thread.Visibility.GROUP, "group": group}
        return {"visibility": chosen}


@require_http_methods(["GET", "HEAD", "POST"])
@member
def new_run(request: MemberRequest) -> HttpResponse:
    principal = request.principal
    if not principal.may_operate:
        raise PermissionDenied(
            "Operators and admins of this workspace start runs; your role is "
            f"{principal.role.label.lower()}."
        )
    groups = Group.objects.for_user(principal).filter(pk__in=principal.groups)
    if request.method != "POST":
        return _page(request, RunForm(initial=_initial(request), groups=groups))
    form = RunForm(request.POST, groups=groups)
    if not form.is_valid():
        return _page(request, form, status=422)
    asked: dict[str, Any] = form.cleaned_data
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
    agents = list(registry)
    chosen = form["agent"].value() or (agents[0].name if agents else "")
    return render(
        request,
        "new_run.html",
        {"form": form, "agents": agents, "chosen": chosen, "limit": MESSAGE_LENGTH},
        status=status,
    )


urlpatterns = [path("runs/new", new_run, name="new_run")]
