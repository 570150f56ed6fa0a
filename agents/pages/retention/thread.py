"""One thread: what protects it, what went, and the ways back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from agents.models import Run
from agents.pages.damage import open_each
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import hx_location
from checkpoints import gate
from checkpoints.access import Reason, Role, UserPrincipal, unscoped
from checkpoints.gate import Pass
from checkpoints.ids import short
from checkpoints.log import content, holds, rules, tasks
from checkpoints.models import Archive, Deletion, RetentionTask, Thread

LONGEST = 500  # characters of a reason
VIEWER = "Viewers read. An operator of the workspace can pin, archive and restore."
ADMIN = "Only an admin of the workspace does this."
WORD = "delete"  # typed to show that it is meant


@dataclass(frozen=True)
class Gone:
    """What is said of a thread whose content went."""

    what: str
    at: Any
    by: str
    reason: str | None
    steps: int
    archive: Archive | None  # from which it can be restored
    task: RetentionTask | None  # what a worker is asked to do, and has not done

    @property
    def is_shredded(self) -> bool:
        return self.what == Deletion.What.SHREDDED


def gone(thread: Thread, opened: Pass | None) -> Gone | None:
    """None while its content is here. Reasons are opened for those who may read."""
    if thread.pruned_at is None:
        return None
    [*rows] = thread.deletions.select_related("by", "policy").order_by("-at")[:1]
    last = rows[0] if rows else None
    return Gone(
        what=last.what if last else Deletion.What.ARCHIVED,
        at=last.at if last else thread.pruned_at,
        by=content.by_whom(last) if last else content.BY_POLICY,
        reason=open_each(opened, [last], "reason")[0] if opened and last else None,
        steps=last.steps if last else 0,
        archive=thread.archives.filter(status=Archive.Status.PRUNED).first(),
        task=open_task(thread),
    )


def open_task(thread: Thread) -> RetentionTask | None:
    return thread.retention_tasks.filter(outcome=RetentionTask.Outcome.OPEN).first()


@require_http_methods(["GET", "HEAD", "POST"])
@member
def thread_retention(request: MemberRequest, pk: UUID) -> HttpResponse:
    """What keeps this thread and what went of it; POST changes it, by `do`."""
    thread = get_object_or_404(Thread.objects.for_user(request.principal), pk=pk)
    if request.method != "POST":
        return _page(request, thread)
    wish = request.POST.get("do", "")
    if not request.principal.may_operate:
        raise PermissionDenied(VIEWER)
    if wish not in _DONE:
        return _page(request, thread, {"do": "Choose one of the buttons."})
    if wish in _ADMINS and request.principal.role is not Role.ADMIN:
        raise PermissionDenied(ADMIN)
    if wrong := _wrong(wish, request):
        return _page(request, thread, wrong)
    said = _DONE[wish](thread, request.principal, _reason(request))
    to = reverse("agents:thread_retention", args=[pk])
    if wish in ("pin", "unpin", "restore") and request.POST.get("back") == "thread":
        to = reverse("agents:thread", args=[pk])
    return hx_location(request, to, say=said)


def _reason(request: MemberRequest) -> str:
    return request.POST.get("reason", "").strip()[: LONGEST + 1]


def _wrong(wish: str, request: MemberRequest) -> dict[str, str]:
    """What is wrong with which field."""
    wrong: dict[str, str] = {}
    reason = _reason(request)
    if wish in ("hold", "shred") and not reason:
        wrong[f"{wish}_reason"] = "Say why; it is kept with the hold or the journal."
    elif len(reason) > LONGEST:
        wrong[f"{wish}_reason"] = f"At most {LONGEST} characters."
    if wish == "shred" and request.POST.get("word", "").strip().lower() != WORD:
        wrong["word"] = f"Type “{WORD}” to show that you mean it."
    return wrong


def _pin(thread: Thread, by: UserPrincipal, reason: str) -> str:
    holds.pin(thread, by=by)
    return "Pinned: retention leaves it alone."


def _unpin(thread: Thread, by: UserPrincipal, reason: str) -> str:
    holds.unpin(thread, by=by)
    return "Unpinned: the policies apply again."


def _hold(thread: Thread, by: UserPrincipal, reason: str) -> str:
    holds.hold(thread, by=by, reason=reason)
    return "On legal hold: nothing and nobody removes its content."


def _lift(thread: Thread, by: UserPrincipal, reason: str) -> str:
    holds.lift(thread, by=by)
    return "The legal hold is lifted."


def _asks(what: str) -> Callable[[Thread, UserPrincipal, str], str]:
    def ask(thread: Thread, by: UserPrincipal, reason: str) -> str:
        if tasks.ask(what, by=by, thread=thread, reason=reason) is None:
            return "Something was asked for here already; a worker is about to do it."
        return "Asked for. A worker does it in a moment."

    return ask


_ADMINS = frozenset({"hold", "lift", "shred"})
_DONE: dict[str, Callable[[Thread, UserPrincipal, str], str]] = {
    "pin": _pin,
    "unpin": _unpin,
    "hold": _hold,
    "lift": _lift,
    "archive": _asks("archive"),
    "restore": _asks("restore"),
    "shred": _asks("shred"),
}


def _page(
    request: MemberRequest, thread: Thread, errors: dict[str, str] | None = None
) -> HttpResponse:
    principal = request.principal
    opened = (
        gate.admit(principal, purpose="thread retention", threads=[thread])
        if principal.may_read
        else None
    )
    [title] = open_each(opened, [thread], "title") if opened else [None]
    [held] = open_each(opened, [thread], "hold_reason") if opened else [None]
    journal = list(thread.deletions.select_related("by", "policy").order_by("-at"))
    reasons = open_each(opened, journal, "reason") if opened else [None] * len(journal)
    run = (
        Run.objects.for_user(principal)
        .filter(thread=thread)
        .order_by("-created_at")
        .select_related("agent_version__agent")
        .defer("agent_version__spec", "error")
        .first()
    )
    agent = run.agent_version.agent.name if run else ""
    with unscoped(Reason.ARCHIVE):  # rules are the workspace's, and hold no content
        rule = rules.rule_of(thread.workspace_id, agent)
    return render(
        request,
        "thread_retention.html",
        {
            "thread": thread,
            "title": title or f"Thread {short(thread.pk)}",
            "gone": gone(thread, opened),
            "rule": rule,
            "agent": agent,
            "held": held,
            "task": open_task(thread),
            "tasks": thread.retention_tasks.exclude(outcome=RetentionTask.Outcome.OPEN)
            .select_related("by")
            .order_by("-asked_at")[:5],
            "journal": [
                (row, content.by_whom(row), reason)
                for row, reason in zip(journal, reasons, strict=True)
            ],
            "archives": thread.archives.order_by("-created_at")[:20],
            "is_admin": principal.role is Role.ADMIN,
            "errors": errors or {},
            "typed": request.POST if errors else {},
            "longest": LONGEST,
            "word": WORD,
        },
        status=422 if errors else 200,
    )
