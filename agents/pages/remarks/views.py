"""Say something about a thread, a branch or a step, take it back, and read all of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import path, reverse
from django.views.decorators.http import require_http_methods

from agents.debug import remarks as service
from agents.debug.remarks import About
from agents.errors import InvalidRemark
from agents.pages.damage import DAMAGE
from agents.pages.principal import MemberRequest, member
from agents.pages.remarks.history import all_of
from agents.pages.respond import hx_location, invalid, is_fragment, said, went_on
from agents.pages.thread.page import page_context
from checkpoints.models import Remark, Thread

DONE = {
    "note": "Note added",
    "label": "Label added",
    "good": "Verdict: good",
    "bad": "Verdict: bad",
    "star": "Starred",
    "unstar": "No longer starred",
    "remove": "Taken back",
}
TOPICS = ("step", "branch", "thread")


class RemarkForm(forms.Form):
    """What the panel sends. `branch` and `step` are those that the page shows."""

    do = forms.ChoiceField(choices=[(name, name) for name in DONE])
    about = forms.ChoiceField(choices=[(name, name) for name in TOPICS])
    branch = forms.UUIDField(required=False)
    step = forms.UUIDField(required=False)
    text = forms.CharField(required=False)
    remark = forms.UUIDField(required=False)
    request_key = forms.UUIDField(required=False)


@dataclass(frozen=True)
class Asked:
    """A form that names what is there."""

    do: str
    about: About
    text: str
    remark: UUID | None
    request_key: UUID | None


@require_http_methods(["GET", "HEAD", "POST"])
@member
def remarks(request: MemberRequest, pk: UUID) -> HttpResponse:
    """All that was said about a thread; or one thing more, or less."""
    thread = get_object_or_404(Thread.objects.for_user(request.principal), pk=pk)
    if request.method == "POST":
        return _change(request, thread)
    context = all_of(request.principal, thread, before=request.GET.get("before", ""))
    return render(request, "remarks.html", context)


def _change(request: MemberRequest, thread: Thread) -> HttpResponse:
    form = RemarkForm(request.POST)
    try:
        asked = _asked(form, thread)
        done = _do(asked, request)
    except InvalidRemark as wrong:
        return _again(request, thread, form, wrong)
    except DAMAGE as gone:
        messages.error(request, f"Nothing was changed. {gone}")
        return hx_location(request, _back(request, thread, form))
    if not is_fragment(request):
        return went_on(request, _back(request, thread, form), say=done)
    context = _context(request, thread, form)
    response = render(request, "remarks/_answer.html", context | {"answered": True})
    response.write(said(request, done))
    return response


def _asked(form: RemarkForm, thread: Thread) -> Asked:
    """Raises InvalidRemark for a form that is none of ours, Http404 for what is not there."""
    if not form.is_valid():
        name, [problem, *_] = next(iter(form.errors.items()))
        raise InvalidRemark(f"{name}: {problem}")
    sent = form.cleaned_data
    branch = checkpoint = None
    if sent["about"] == "step":
        checkpoint = get_object_or_404(thread.checkpoints.all(), pk=sent["step"])
    elif sent["about"] == "branch":
        branch = get_object_or_404(thread.branches.all(), pk=sent["branch"])
    return Asked(
        sent["do"],
        About(thread, branch, checkpoint),
        sent["text"],
        sent["remark"],
        sent["request_key"],
    )


def _do(asked: Asked, request: MemberRequest) -> str:
    """Does it; what is said then. Raises what the service does."""
    by, about, key = request.principal, asked.about, asked.request_key
    match asked.do:
        case "note":
            service.note(about, by, text=asked.text, request_key=key)
        case "label":
            service.label(about, by, text=asked.text)
        case "good" | "bad" as word:
            good = word == "good"
            service.judge(about, by, good=good, reason=asked.text, request_key=key)
        case "star":
            service.star(about, by)
        case "unstar":
            service.unstar(about, by)
        case "remove":
            try:
                done = asked.remark and service.remove(about.thread, by, asked.remark)
            except Remark.DoesNotExist:
                raise Http404 from None
            if not done:
                return "It was taken back already."
    return DONE[asked.do]


def _again(
    request: MemberRequest, thread: Thread, form: RemarkForm, wrong: InvalidRemark
) -> HttpResponse:
    """The panel with what was typed, and what is wrong with it."""
    context = _context(request, thread, form) | {
        "remark_error": str(wrong),
        "remark_typed": form.data.get("text", ""),
        "remark_about": form.data.get("about", ""),
    }
    return invalid(request, "remarks/_panel.html", page="thread.html", **context)


def _context(
    request: MemberRequest, thread: Thread, form: RemarkForm
) -> dict[str, Any]:
    """The page at the step where the form was: its address has the rest."""
    sent = form.cleaned_data
    step = sent.get("step")
    if step and not thread.checkpoints.filter(pk=step).exists():
        step = None
    branch = sent.get("branch")
    if branch and not thread.branches.filter(pk=branch).exists():
        branch = None
    return page_context(request, thread.pk, checkpoint=step, branch=branch)


def _back(request: MemberRequest, thread: Thread, form: RemarkForm) -> str:
    """The page where the form was, with its tab and all."""
    query = f"?{request.GET.urlencode()}" if request.GET else ""
    step = form.cleaned_data.get("step")
    following = request.POST.get("following")
    if step is None or following:
        return reverse("agents:thread", args=[thread.pk]) + query
    return reverse("agents:step", args=[thread.pk, step]) + query


urlpatterns = [path("threads/<uuid:pk>/remarks", remarks, name="remarks")]
