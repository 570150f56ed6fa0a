"""The fork page: the form, what it opens and shows on the way, and the branch it makes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any
from uuid import UUID, uuid4

from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.http import require_http_methods, require_POST

from agents.errors import AgentsError, InvalidEdit
from agents.pages.damage import DAMAGE, NO_STORE
from agents.pages.fork.form import ForkForm, Was
from agents.pages.fork.page import Source, context
from agents.pages.fork.places import LONGEST, text_at, text_diff, value_at, value_diff
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import hx_location, see_other
from agents.pages.thread.place import Place, asked_path
from agents.pages.thread.rights import VIEWER
from agents.pages.thread.subject import load
from agents.runs.repeat import fork_runs
from agents.runs.source import open_source
from agents.tools import registry
from checkpoints.blobs import Contents
from checkpoints.compiled import Compiled
from checkpoints.errors import (
    FutureSchema,
    MissingObject,
    NotJson,
    NotPermitted,
    StoreUnavailable,
)
from checkpoints.models import Branch, Checkpoint
from checkpoints.pure import codec
from checkpoints.pure.changes import ABSENT


@require_http_methods(["GET", "HEAD", "POST"])
@member
def fork(request: MemberRequest, pk: UUID, checkpoint: UUID) -> HttpResponse:
    """The form; on POST what it asked to be opened, a preview, or the branch itself."""
    if not request.principal.may_operate:
        raise PermissionDenied(VIEWER)
    form = ForkForm(request.POST) if _asks_for_branch(request) else None
    # First, and without what the page shows: of a long thread that takes ten times as long.
    if form and form.is_valid() and (made := _made(request, form, pk, checkpoint)):
        said = f"{_said(len(made), runs=_runs(request))}. The source is as it was."
        return hx_location(request, Place(pk, made[0].pk).page, say=said)
    branch = _uuid(request.GET.get("branch"))
    subject = load(
        request.principal,
        pk,
        branch=branch,
        checkpoint=checkpoint,
        purpose="fork page",
        whole=True,
    )
    at = subject.at(checkpoint, None)
    wrong = form is None or form.errors
    if subject.history is None or at is None or subject.future(at.step) or not wrong:
        return see_other(Place(pk, branch, checkpoint).page)  # which says why
    assert subject.opened is not None  # `load` opens the history with it
    state = subject.history.state_at(at.step)
    contents = Contents(subject.opened, pk)
    source = Source(subject, at, state, contents, Was.of(state, contents))
    if form:
        return _page(request, source, form, status=422)
    if request.method != "POST":
        initial = source.was.initial() | {
            "name": _free_name(subject.names.all()),
            "request_key": uuid4(),
            "resume": request.GET.get("resume", ""),
            "again": request.GET.get("again", ""),
        }
        if (wanted := request.GET.get("path")) is not None:
            initial |= {"path": wanted, **_opened(source, wanted)}
        return _page(request, source, ForkForm(initial=initial))
    if opening := _opening(request, source):
        typed = {name: request.POST[name] for name in request.POST}
        return _page(request, source, ForkForm(initial=typed | opening))
    form = ForkForm(request.POST)
    fits = form.is_valid() and form.edits(source.was, state, contents) is not None
    return _page(request, source, form, status=200 if fits else 422)


def _asks_for_branch(request: MemberRequest) -> bool:
    """Whether the form was sent to make a branch: not to open a path, nor for a preview."""
    return (
        request.method == "POST"
        and request.POST.get("do") != "preview"
        and not _asks_to_open(request)
    )


def _said(made: int, *, runs: bool) -> str:
    if made == 1:
        return "Forked, and a run is queued" if runs else "Branch created"
    return f"Forked {made} times{', and each run is queued' if runs else ''}"


def _made(
    request: MemberRequest, form: ForkForm, thread: UUID, checkpoint: UUID
) -> list[Branch] | None:
    """The branches; None where the form says why there is none, or the page does."""
    step = _STEP.first(request.principal, pk=checkpoint, thread=thread)
    if step is None or not request.principal.may_read or _is_ahead(request, step):
        return None
    try:
        source = open_source(step, by=request.principal)
    except (*DAMAGE, NotPermitted):
        return None
    contents = Contents(source.seen, thread)
    edits = form.edits(Was.of(source.state, contents), source.state, contents)
    if edits is None:
        return None
    values = form.cleaned_data
    try:
        return fork_runs(
            source,
            times=values["repeat"] or 1,
            edits=edits,
            name=values["name"],
            by=request.principal,
            run=_runs(request),
            agent=values["agent"],
            calls=values["calls"] or Branch.Calls.RECORDED,
            call_choices=values["call_choices"],
            request_key=values["request_key"],
            resume=values["resume"],
            max_cost=values["max_cost"],
            reapply=values["reapply"],
        )
    except InvalidEdit as wrong:
        for name, problem in wrong.fields.items():
            form.add_error(name, problem)
    except (AgentsError, FutureSchema) as error:
        form.add_error(None, str(error))
    except MissingObject as gone:
        form.add_error("reapply", str(gone))
    except StoreUnavailable:
        form.add_error(None, NO_STORE)
    return None


_STEP = Compiled(
    lambda by, pk, thread: (
        Checkpoint.objects.for_user(by)
        .select_related("branch", "thread")
        .filter(pk=pk, thread=thread)
    )
)


def _is_ahead(request: MemberRequest, step: Checkpoint) -> bool:
    """Whether newer code than the agent's has written the step (`Subject.future`)."""
    if step.schema_version <= min((a.schema_version for a in registry), default=0):
        return False  # than any agent's
    subject = load(request.principal, step.thread_id, checkpoint=step.pk)
    return subject.future(step.step) is not None


def _runs(request: MemberRequest) -> bool:
    """Whether a run was asked for. Enter in a field alone starts nothing."""
    return request.POST.get("do") not in {"create", "enter"}


def _asks_to_open(request: MemberRequest) -> bool:
    """Whether a button of the form, or Enter in the path's field, asked for an editor."""
    wanted, do = request.POST.get("path", ""), request.POST.get("do")
    entered = do == "enter" and asked_path(wanted) != request.POST.get("opened", "")
    return bool(request.POST.get("open")) or do == "path" or entered


def _opening(request: MemberRequest, source: Source) -> dict[str, Any]:
    """What a button of the form asked to be opened in one of its two editors."""
    if not _asks_to_open(request):
        return {}
    if wanted := request.POST.get("open"):
        if (found := text_at(source.state, wanted, source.contents)) is not None:
            return {"said_path": wanted, "said": found, "focus": "said"}
        return {"path": wanted, **_opened(source, wanted), "focus": "value"}
    return {**_opened(source, request.POST.get("path", "")), "focus": "value"}


def _opened(source: Source, wanted: str) -> dict[str, Any]:
    there = value_at(source.state, wanted)
    return {"path": there.path, "opened": there.path, "value": there.text}


@require_POST
@member
def preview(request: MemberRequest) -> HttpResponse:
    """The difference between two texts that the page holds; opens and changes nothing."""
    of = request.GET.get("of", "")
    name = of if of in {"message", "said", "value"} else "system"
    old, new = (
        request.POST.get(field, "")[: LONGEST + 1] for field in (f"was_{name}", name)
    )
    if name != "value":
        diff = text_diff(old, new)
        return render(request, "fork/_diff.html", {"diff": diff, "name": name})
    try:
        was = codec.load_strict(old) if old else ABSENT
    except NotJson:
        was = ABSENT  # another browser than ours wrote it
    at = asked_path(request.POST.get("opened", ""))
    return render(request, "fork/_value_diff.html", {"diff": value_diff(at, was, new)})


def _page(
    request: MemberRequest, source: Source, form: ForkForm, *, status: int = 200
) -> HttpResponse:
    return render(request, "fork.html", context(source, form), status=status)


def _free_name(taken: Iterable[str]) -> str:
    names = set(taken)
    return next(name for n in count(1) if (name := f"what-if-{n}") not in names)


def _uuid(text: str | None) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        return None


urlpatterns = [
    path("threads/<uuid:pk>/fork/<uuid:checkpoint>/", fork, name="fork"),
    path("f/fork/diff", preview, name="fork_diff"),
]
