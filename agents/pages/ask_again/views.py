"""Ask again: the form, and how far the answers agree. A worker asks the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_http_methods, require_safe

from agents.errors import AgentsError, NotAskable
from agents.models import AgentVersion
from agents.pages import live
from agents.pages.ask_again.answers import (
    SHOWN,
    Agreement,
    agreement,
    asked_again,
    message_of,
    records,
    tag,
)
from agents.pages.cost_limit import cost_field
from agents.pages.damage import DAMAGE, open_each
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import hx_location
from agents.pages.thread.place import Place
from agents.pages.thread.rights import VIEWER
from agents.runs.ask_again import LEAST, MOST, ask_again, is_folded
from agents.tools import registry
from agents.tools.versions import digest_of
from checkpoints import gate
from checkpoints.access import UserPrincipal
from checkpoints.errors import NotPermitted
from checkpoints.gate import Pass
from checkpoints.ids import short
from checkpoints.models import Checkpoint

POLL = "every 2s"
SEEDS = {
    "same": "as it was: exactly the same request",
    "new": "a new one each time: the same request but for it",
}


class AskForm(forms.Form):
    """How often, with which seeds, and what it may cost."""

    times = forms.IntegerField(min_value=LEAST, max_value=MOST, label="Answers")
    seeds = forms.ChoiceField(required=False, choices=list(SEEDS.items()), label="Seed")
    max_cost = cost_field()
    request_key = forms.UUIDField()


@dataclass(frozen=True)
class Asked:
    """The step, and what was asked for it."""

    step: Checkpoint
    title: str = field(repr=False)
    message: dict[str, Any] | None = field(repr=False)
    manifest: dict[str, Any] | None = field(repr=False)
    is_folded: bool  # it keeps others: what was asked for it is not known
    opened: Pass = field(repr=False)

    @property
    def back(self) -> str:
        return Place(self.step.thread_id, None, self.step.pk).page


@require_http_methods(["GET", "HEAD", "POST"])
@member
def page(request: MemberRequest, pk: UUID, checkpoint: UUID) -> HttpResponse:
    """The page; on POST the model is asked."""
    step = _step(request, pk, checkpoint)
    if request.method != "POST":
        initial = {"times": 5, "seeds": "same", "request_key": uuid4()}
        return _page(request, step, AskForm(initial=initial))
    if not request.principal.may_operate:
        raise PermissionDenied(VIEWER)
    form = AskForm(request.POST)
    if not form.is_valid():
        return _page(request, step, form, status=422)
    times = form.cleaned_data["times"]
    try:
        ask_again(
            step,
            times=times,
            by=request.principal,
            request_key=form.cleaned_data["request_key"],
            new_seeds=form.cleaned_data["seeds"] == "new",
            max_cost=form.cleaned_data["max_cost"],
        )
    except (AgentsError, NotPermitted, *DAMAGE) as problem:
        form.add_error(None, str(problem))
    if form.errors:
        return _page(request, step, form, status=422)
    to = reverse("agents:ask_again", args=[pk, checkpoint])
    return hx_location(request, to, say=f"Asked {times} times. Nothing else is done.")


@require_safe
@member
def answers(request: MemberRequest, pk: UUID, checkpoint: UUID) -> HttpResponse:
    """The answers anew, while some are on their way: 304 until one is there."""
    step = _step(request, pk, checkpoint)
    runs = asked_again(request.principal, step.pk)
    if same := live.unchanged(request, tag(runs)):
        return same
    asked = _open(request, step)
    found = agreement(request.principal, asked.opened, step, asked.message, runs)
    context = {"asked": asked, **_answers(found, tag(runs))}
    return live.region(request, "ask_again/_answers.html", context, shown=tag(runs))


def _step(request: MemberRequest, thread: UUID, checkpoint: UUID) -> Checkpoint:
    """With all that is asked of it. Raises Http404 for what is not there or not theirs."""
    found = (
        Checkpoint.objects.for_user(request.principal)
        .select_related("thread", "branch", "parent__branch", "parent__thread")
        .filter(pk=checkpoint, thread=thread)
        .first()
    )
    if found is None:
        raise Http404
    return found


def _open(request: MemberRequest, step: Checkpoint) -> Asked:
    """Raises NotPermitted for who may not read."""
    opened = gate.admit(
        request.principal,
        purpose="ask again",
        threads=[step.thread],
        steps=str(step.step),
    )
    [record] = records(request.principal, opened, [step])
    [title] = open_each(opened, [step.thread], "title")
    context = (record or {}).get("context") or {}
    manifest = context.get("request")
    return Asked(
        step,
        title or f"Thread {short(step.thread_id)}",
        message_of(record),
        manifest if isinstance(manifest, dict) else None,
        is_folded(context),
        opened,
    )


def _page(
    request: MemberRequest, step: Checkpoint, form: AskForm, *, status: int = 200
) -> HttpResponse:
    asked = _open(request, step)
    runs = asked_again(request.principal, step.pk)
    found = agreement(request.principal, asked.opened, step, asked.message, runs)
    return render(
        request,
        "ask_again.html",
        {
            "asked": asked,
            "step": step,
            "form": form,
            "seeds": SEEDS.items(),
            "least": LEAST,
            "most": MOST,
            "why_not": _why_not(asked),
            "may_ask": request.principal.may_operate,
            "viewer": VIEWER,
            "changed": _changed(request.principal, step),
            **_answers(found, tag(runs)),
        },
        status=status,
    )


def _why_not(asked: Asked) -> str:
    """Why the step cannot be asked again; "": it can."""
    step = asked.step
    is_reply = step.kind == Checkpoint.Kind.MODEL and step.run is not None
    if is_reply and not asked.is_folded:
        return ""
    return str(NotAskable(step.step, folded=is_reply))


def _answers(found: Agreement, shown: str) -> dict[str, Any]:
    return {
        "agreement": found,
        "tag": shown,
        "poll": POLL if found.is_live else "",
        "shown": SHOWN,
    }


def _changed(by: UserPrincipal, step: Checkpoint) -> str:
    """Why the tools that are offered may not be those of then; "": they are the same."""
    if step.agent_version is None:
        return ""
    version = (
        AgentVersion.objects.for_user(by)
        .filter(pk=step.agent_version)
        .select_related("agent")
        .first()
    )
    if version is None or version.agent.name not in registry:
        return "The agent that asked is not installed here any more."
    agent = registry.agent(version.agent.name)
    if digest_of(step.workspace_id, agent) == bytes(version.digest):
        return ""
    return (
        f"{version} asked, and its code is another by now: prompt, messages and parameters"
        " are sent as they were, tools as they are declared today."
    )


urlpatterns = [
    path(
        "threads/<uuid:pk>/at/<uuid:checkpoint>/ask-again",
        page,
        name="ask_again",
    ),
    path(
        "f/threads/<uuid:pk>/at/<uuid:checkpoint>/ask-again",
        answers,
        name="ask_again_answers",
    ),
]
