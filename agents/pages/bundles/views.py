"""Export a step, a branch or a thread; import what was exported elsewhere."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import path, reverse
from django.views.decorators.http import require_http_methods

from agents.debug.bundles.export import export as export_bundle
from agents.debug.bundles.importing import import_bundle
from agents.debug.testcase import save
from agents.errors import AlreadyImported, BadFile, NoTestCase, TooLarge
from agents.pages.audience import AudienceForm, groups_of
from agents.pages.damage import GONE, open_each
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import hx_location
from agents.pages.thread.place import Place, number
from agents.pure.bundles.file import MOST_BYTES
from checkpoints import gate
from checkpoints.errors import BadOperation, StoreUnavailable
from checkpoints.ids import short
from checkpoints.models import Branch, Thread, Workspace

MOST_MASKED = 50  # paths of one export
WHAT = {
    "step": "this step",
    "branch": "this branch",
    "thread": "the whole thread",
    "test": "a test case: what follows this step on this branch",
}
NOT_YOURS = "Operators and admins of this workspace import; your role is {}."


class ExportForm(forms.Form):
    """What goes into the file, and what is masked there."""

    what = forms.ChoiceField(choices=list(WHAT.items()))
    masked = forms.CharField(required=False, max_length=20_000)

    def clean(self) -> dict[str, Any]:
        found: dict[str, Any] = super().clean() or {}
        if found.get("what") == "test" and found.get("masked"):
            self.add_error("masked", "A test case needs its state whole: name none.")
        return found

    def clean_masked(self) -> list[str]:
        lines = [line.strip() for line in self.cleaned_data["masked"].splitlines()]
        paths = [line for line in lines if line]
        if len(paths) > MOST_MASKED:
            raise forms.ValidationError(f"{len(paths)} paths; {MOST_MASKED} at most.")
        for line in paths:
            if not line.startswith("/") or line == "/":
                raise forms.ValidationError(
                    "A path begins with a slash and the name of a channel, such as"
                    " /vars/passport; one a line."
                )
        return paths


@require_http_methods(["GET", "HEAD", "POST"])
@member
def export(request: MemberRequest, pk: UUID) -> HttpResponse:
    """What to export; on POST the file, to keep."""
    thread = get_object_or_404(Thread.objects.for_user(request.principal), pk=pk)
    branch = _branch(request, thread)
    step = _step(request, branch)
    if request.method != "POST":
        what = request.GET.get("what", "")
        form = ExportForm(initial={"what": what if what in WHAT else "thread"})
        return _export_page(request, branch, step, form)
    form = ExportForm(request.POST)
    if not form.is_valid():
        return _export_page(request, branch, step, form, status=422)
    asked: dict[str, Any] = form.cleaned_data
    try:
        text = _file(request, branch, step, **asked)
    except (TooLarge, NoTestCase, BadOperation, *GONE) as problem:
        form.add_error(None, str(problem))
        return _export_page(request, branch, step, form, status=problem.status)
    name = f"{asked['what']}-{short(thread.pk)}.json"
    return HttpResponse(
        text,
        content_type="application/json",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _file(
    request: MemberRequest, branch: Branch, step: int, *, what: Any, masked: list[str]
) -> str:
    if what == "test":
        return save(branch, step=step, by=request.principal)
    return export_bundle(
        branch.thread,
        what=what,
        branch=branch,
        step=step if what == "step" else None,
        by=request.principal,
        masked=masked,
    )


def _branch(request: MemberRequest, thread: Thread) -> Branch:
    """The one that the address names, else the first. Raises Http404."""
    branches = thread.branches.select_related("thread").order_by("created_at", "pk")
    if wish := request.GET.get("branch"):
        try:
            branches = branches.filter(pk=UUID(wish))
        except ValueError:
            raise Http404 from None
    found = branches.first()
    if found is None:
        raise Http404
    return found


def _step(request: MemberRequest, branch: Branch) -> int:
    """The step that the address names, else the last. Raises Http404."""
    wish = request.GET.get("step")
    step = branch.head_step if wish is None else number(wish)
    if step is None or step > branch.head_step:
        raise Http404
    return step


def _export_page(
    request: MemberRequest,
    branch: Branch,
    step: int,
    form: ExportForm,
    *,
    status: int = 200,
) -> HttpResponse:
    thread = branch.thread
    opened = gate.admit(request.principal, purpose="export page", threads=[thread])
    [title] = open_each(opened, [thread], "title")
    [name] = open_each(opened, [branch], "name")
    return render(
        request,
        "bundles/export.html",
        {
            "thread": thread,
            "title": title or f"Thread {short(thread.pk)}",
            "branch_name": name or short(branch.pk),
            "step": step,
            "form": form,
            "chosen": form["what"].value(),
            "choices": WHAT.items(),
            "back": Place(thread.pk, branch.pk).page,
            "most": MOST_BYTES,
        },
        status=status,
    )


class ImportForm(AudienceForm):
    """A bundle, and who may see what it becomes."""

    file = forms.FileField(
        allow_empty_file=True,
        error_messages={"required": "Choose the file that was exported."},
    )

    def clean_file(self) -> bytes:
        given = self.cleaned_data["file"]
        if given.size > MOST_BYTES:
            raise forms.ValidationError(
                f"It has {given.size:,} bytes; a file holds {MOST_BYTES // 1024**2} MB at"
                " most. Nothing of it was imported."
            )
        content: bytes = given.read()
        return content


@require_http_methods(["GET", "HEAD", "POST"])
@member
def import_(request: MemberRequest) -> HttpResponse:
    """The form; on POST the thread."""
    principal = request.principal
    if not principal.may_operate:
        raise PermissionDenied(NOT_YOURS.format(principal.role.label.lower()))
    groups = groups_of(principal)
    if request.method != "POST":
        initial = {"request_key": uuid4(), "visibility": Thread.Visibility.PRIVATE}
        return _import_page(request, ImportForm(initial=initial, groups=groups))
    form = ImportForm(request.POST, request.FILES, groups=groups)
    if not form.is_valid():
        return _import_page(request, form, status=422)
    try:
        thread = import_bundle(
            form.cleaned_data["file"],
            workspace=Workspace.objects.get(pk=principal.workspace_id),
            by=principal,
            owner_id=principal.user_id,
            request_key=form.cleaned_data["request_key"],
            **form.audience,
        )
    except (BadFile, AlreadyImported) as problem:
        form.add_error("file", f"{problem} Nothing of it was imported.")
        return _import_page(request, form, status=problem.status)
    except StoreUnavailable as away:
        form.add_error("file", "Large values cannot be stored now. Try again later.")
        return _import_page(request, form, status=away.status)
    to = reverse("agents:thread", args=[thread.pk])
    return hx_location(request, to, say="Imported.")


def _import_page(
    request: MemberRequest, form: ImportForm, *, status: int = 200
) -> HttpResponse:
    context = {"form": form, "most": MOST_BYTES}
    return render(request, "bundles/import.html", context, status=status)


urlpatterns = [
    path("threads/import", import_, name="import_bundle"),
    path("threads/<uuid:pk>/export", export, name="export_bundle"),
]
