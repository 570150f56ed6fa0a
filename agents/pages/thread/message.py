"""Send a message to the agent of a thread."""

from __future__ import annotations

from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_POST

from agents.errors import AgentsError
from agents.models import Run
from agents.pages.damage import DAMAGE
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import hx_location, invalid
from agents.pages.thread.page import page_context
from agents.pages.thread.place import Place
from agents.pages.thread.rights import VIEWER
from agents.runs.start import send_message
from checkpoints.errors import FutureSchema
from checkpoints.models import Branch

LONGEST = 20_000  # characters


class MessageForm(forms.Form):
    """What the composer sends. `agent` only where none has worked on the thread yet,
    `resume` only where the message starts a run."""

    branch = forms.UUIDField()
    message = forms.CharField(
        max_length=LONGEST,
        error_messages={"required": "Write what the agent should know or do."},
    )
    agent = forms.CharField(required=False, max_length=60)
    resume = forms.ChoiceField(required=False, choices=Run.Resume.choices)
    request_key = forms.UUIDField()


@require_POST
@member
def message(request: MemberRequest, pk: UUID) -> HttpResponse:
    """A message to the run at work on a branch, or to a new one."""
    form = MessageForm(request.POST)
    form.is_valid()
    branch = get_object_or_404(
        Branch.objects.for_user(request.principal).filter(thread=pk),
        pk=form.cleaned_data.get("branch"),
    )
    if not request.principal.may_operate:
        raise PermissionDenied(VIEWER)
    if form.errors:
        return _again(request, pk, branch.pk, form)
    try:
        send_message(
            branch,
            message=form.cleaned_data["message"],
            by=request.principal,
            agent=form.cleaned_data["agent"],
            request_key=form.cleaned_data["request_key"],
            resume=form.cleaned_data["resume"],
        )
    except (AgentsError, FutureSchema) as error:
        form.add_error("message", str(error))
        return _again(request, pk, branch.pk, form)
    except DAMAGE as damage:
        messages.error(request, f"The message was not sent. {damage}")
        return hx_location(request, Place(pk, branch.pk).page)
    return hx_location(
        request, Place(pk, branch.pk).page, say="Message sent to the agent"
    )


def _again(
    request: MemberRequest, pk: UUID, branch: UUID, form: MessageForm
) -> HttpResponse:
    """The form with what was typed, and what is wrong with it."""
    context = page_context(request, pk, branch=branch)
    context |= {
        "typed": form.data.get("message", ""),
        "chosen_resume": form.data.get("resume", ""),
        "composer_error": next(iter(form.errors.values()))[0],
    }
    return invalid(request, "thread/_composer.html", page="thread.html", **context)
