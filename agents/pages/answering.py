"""How far a model's reply has come, while a run waits for it."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import path
from django.views.decorators.http import require_safe

from agents.models import Run
from agents.pages.principal import MemberRequest, member


def said(run: Run, *, head_step: int) -> str:
    """In plain words; empty where no model is asked, or nobody has told of it yet.

    What was told of another step than the one after the head is out of date.
    """
    found = run.answering
    if run.status != Run.Status.RUNNING or not isinstance(found, dict):
        return ""
    if found.get("step") != head_step + 1:
        return ""
    attempt, most = found.get("attempt", 1), found.get("attempts", 1)
    which = f"attempt {attempt} of {most}, " if attempt > 1 else ""
    if outcome := found.get("outcome"):
        return f"{which}waiting {found.get('wait', 0):.0f} s after {outcome}"
    if characters := found.get("characters"):
        return f"{which}answering, {characters:,} characters"
    return f"{which}waiting for the model"


@require_safe
@member
def answering(request: MemberRequest, pk: UUID) -> HttpResponse:
    """What a page asks while a run is at work. Nothing is opened for it."""
    runs = Run.objects.for_user(request.principal).select_related("branch")
    run = get_object_or_404(runs.defer("error"), pk=pk)
    context = {"run": run, "said": said(run, head_step=run.branch.head_step)}
    return render(request, "runs/_answering.html", context)


urlpatterns = [path("f/runs/<uuid:pk>/answering", answering, name="run_answering")]
