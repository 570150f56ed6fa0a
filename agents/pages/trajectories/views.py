"""The Trajectories page: what an export would hold, the file, and files taken in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_POST, require_safe

from agents.debug.chatlog import import_conversations
from agents.debug.trajectories import MOST, Preview, Report, lines, preview
from agents.errors import AlreadyImported
from agents.models import Agent
from agents.pages.audience import groups_of
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import download, went_on
from agents.pages.thread.cards import Card, card
from agents.pages.trajectories.form import (
    MOST_BYTES,
    MOST_MESSAGES,
    ImportForm,
    WantedForm,
)
from checkpoints.errors import StoreUnavailable
from checkpoints.models import Thread, Workspace

MESSAGES = 12  # of an example in the preview
READERS = "Who may read threads can export them; your role is {}."
OPERATORS = "Operators and admins of this workspace import; your role is {}."


@dataclass(frozen=True)
class Shown:
    """An example as the page shows it."""

    number: int
    cards: list[Card] = field(repr=False)
    messages: int
    tools: int

    @property
    def more(self) -> int:
        return self.messages - len(self.cards)


@require_safe
@member
def page(request: MemberRequest) -> HttpResponse:
    """The form; where it was sent, how many would be exported, and the first few."""
    _require_reader(request)
    asked = "look" in request.GET
    form = _wanted(request, request.GET if asked else None)
    found = None
    if asked and form.is_valid():
        found = preview(form.wanted(), request.principal)
    status = 422 if form.errors else 200
    return _page(request, form, found=found, status=status)


@require_POST
@member
def export(request: MemberRequest) -> HttpResponseBase:
    """The file. Each thread is in the audit log before it is opened."""
    _require_reader(request)
    form = _wanted(request, request.POST)
    if not form.is_valid():
        return _page(request, form, status=422)
    return download(
        request,
        lines(form.wanted(), request.principal, Report()),
        name="trajectories.jsonl",
        content_type="application/jsonl",
    )


@require_POST
@member
def import_(request: MemberRequest) -> HttpResponse:
    """Threads of a file's conversations: all of them, or none."""
    principal = request.principal
    if not principal.may_operate:
        raise PermissionDenied(OPERATORS.format(principal.role.label.lower()))
    form = ImportForm(request.POST, request.FILES, groups=groups_of(principal))
    if form.is_valid():
        try:
            made = import_conversations(
                form.cleaned_data["file"],
                workspace=Workspace.objects.get(pk=principal.workspace_id),
                owner_id=principal.user_id,
                title=form.title,
                by=principal,
                **form.audience,
            )
        except AlreadyImported as before:
            form.add_error("file", str(before))
        except StoreUnavailable:
            form.add_error(
                "file", "Large values cannot be stored now. Try again later."
            )
        else:
            only = made[0].thread_id if len(made) == 1 else None
            to = (
                reverse("agents:thread", args=[only])
                if only
                else reverse("agents:threads")
            )
            threads = "1 thread" if only else f"{len(made)} threads"
            return went_on(request, to, say=f"Imported {threads}.")
    return _page(request, _wanted(request, None), import_form=form, status=422)


def _require_reader(request: MemberRequest) -> None:
    """Raises PermissionDenied."""
    if not request.principal.may_read:
        role = request.principal.role.label.lower()
        raise PermissionDenied(READERS.format(role))


def _wanted(request: MemberRequest, data: Any) -> WantedForm:
    agents = Agent.objects.for_user(request.principal).order_by("name")
    return WantedForm(data, agents=agents.values_list("name", flat=True))


def _page(
    request: MemberRequest,
    form: WantedForm,
    *,
    found: Preview | None = None,
    import_form: ImportForm | None = None,
    status: int = 200,
) -> HttpResponse:
    principal = request.principal
    if import_form is None and principal.may_operate:
        import_form = ImportForm(
            initial={"request_key": uuid4(), "visibility": Thread.Visibility.PRIVATE},
            groups=groups_of(principal),
        )
    return render(
        request,
        "trajectories.html",
        {
            "form": form,
            "found": found,
            "left_out": sorted(found.report.left_out.items()) if found else (),
            "examples": _shown(found) if found else (),
            "import_form": import_form if principal.may_operate else None,
            "most": MOST,
            "most_bytes": MOST_BYTES,
            "most_messages": MOST_MESSAGES,
        },
        status=status,
    )


def _shown(found: Preview) -> list[Shown]:
    return [
        Shown(
            number,
            [card(message) for message in example["messages"][:MESSAGES]],
            len(example["messages"]),
            len(example.get("tools", ())),
        )
        for number, example in enumerate(found.examples, 1)
    ]


urlpatterns = [
    path("threads/trajectories/", page, name="trajectories"),
    path("threads/trajectories/export", export, name="trajectories_export"),
    path("threads/trajectories/import", import_, name="trajectories_import"),
]
