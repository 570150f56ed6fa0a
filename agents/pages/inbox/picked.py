"""What a person has selected in the list: shown together, then done one by one.

A GET shows every request with its arguments and what will be left out, and why; the POST
gives back what was shown. Each request has a result of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import repeat
from typing import Any, Literal
from uuid import UUID

from django.core.exceptions import BadRequest
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.http import require_http_methods

from agents import errors
from agents.approvals import batch, care, who
from agents.approvals.asked import title_of
from agents.approvals.given import hash_of_shown
from agents.models import Approval
from agents.models.approvals import Seen
from agents.pages.damage import open_each
from agents.pages.inbox import find, pane
from agents.pages.inbox.arguments import Argument, as_json, table
from agents.pages.inbox.previewed import folded
from agents.pages.principal import MemberRequest, member
from checkpoints import gate
from checkpoints.access import UserPrincipal
from checkpoints.clock import now

DOES = ("approve", "reject", "snooze", "assign")
LONG = "It has more text than fits here: open it by itself."
LONG_PREVIEW = "Its preview is longer than fits here: open it by itself."
LOOKED_AT = "Its guard says more than fits here: open it by itself."
OTHER = "It asks for another tool, or under another rule, than the first."
UNREAD = "It cannot be opened."
SPANS = {
    "hour": ("for an hour", timedelta(hours=1)),
    "day": ("for a day", timedelta(days=1)),
    "week": ("for a week", timedelta(days=7)),
}
DONE = {
    "approve": "approved",
    "reject": "rejected",
    "snooze": "snoozed",
    "assign": "assigned",
}


@dataclass(frozen=True)
class Picked:
    """One of them. `left_out` says why nothing will be done with it; `result`, what was."""

    approval: Approval
    title: str | None
    arguments: list[Argument] = field(default_factory=list)
    left_out: str = ""
    result: str = ""
    shown: str = ""  # keyed hash of its line, where it can be decided

    @property
    def seen(self) -> str:
        """What the form gives back: which request, as it was shown."""
        one = self.approval
        return f"{one.pk}:{one.revision}:{bytes(one.digest).hex()}:{self.shown}"


@dataclass(frozen=True)
class Sent:
    """What a form gave back: `Picked.seen`, taken apart."""

    pk: UUID
    seen: Seen
    shown: bytes  # of its line; empty where nothing is decided


@require_http_methods(["GET", "HEAD", "POST"])
@member
def picked(request: MemberRequest) -> HttpResponse:
    """`do` is one of `DOES`; a GET names requests as `id`, a POST as `seen`."""
    if request.method == "POST":
        return _done(request)
    do = request.GET.get("do", "approve")
    if do not in DOES:
        raise BadRequest("There is nothing of that name to be done with requests.")
    ids = [pk for text in request.GET.getlist("id") if (pk := _uuid(text))]
    return _page(request, do, ids)


def _page(
    request: MemberRequest,
    do: str,
    ids: Sequence[UUID],
    problems: dict[str, str] | None = None,
) -> HttpResponse:
    rows = _opened(request.principal, _found(request.principal, ids), do)
    ready = [row for row in rows if not row.left_out]
    context = {
        "do": do,
        "rows": rows,
        "ready": ready,
        "left_out": len(rows) - len(ready),
        "problems": problems or {},
        "typed": request.POST,
        "canned_reasons": pane.CANNED_REASONS,
        "spans": [(name, words) for name, (words, _) in SPANS.items()],
        "people": care.assignable(ready[0].approval)
        if do == "assign" and ready
        else [],
    }
    return render(request, "inbox_batch.html", context, status=422 if problems else 200)


def _found(principal: UserPrincipal, ids: Sequence[UUID]) -> list[Approval]:
    """In the order of the queue."""
    rows = Approval.objects.for_user(principal).filter(pk__in=ids[: batch.MOST])
    rows = rows.select_related("thread", "call", "run__agent_version__agent")
    return list(find.in_order(rows, "team"))


def _opened(
    principal: UserPrincipal, approvals: Sequence[Approval], do: str
) -> list[Picked]:
    """With titles and, to decide, arguments. One opening for all, which is recorded."""
    if not approvals or not principal.may_read:
        return [Picked(one, None, left_out=UNREAD) for one in approvals]
    threads = {one.thread_id: one.thread for one in approvals}.values()
    opened = gate.admit(principal, purpose="requests together", threads=threads)
    calls = [one.call for one in approvals]
    titles, proposed, effective = (
        open_each(opened, calls, column)
        for column in ("title", "arguments", "effective")
    )
    first = _kind(approvals[0])
    decides = do in ("approve", "reject")
    previews = open_each(opened, approvals, "preview") if do == "approve" else []
    refused = who.ineligible_each(approvals, principal, do) if decides else []
    rows = []
    for one, title, given, edited, preview, why_not in zip(
        *(approvals, titles, proposed, effective),
        *(previews or repeat(None), refused or repeat("")),
        strict=False,
    ):
        shown = table(given or {}, edited, None) if decides else []
        why = _left_out(one, do, shown) or why_not
        if not why and (previewed := folded(preview)) and previewed.is_long:
            why = LONG_PREVIEW
        if not why and title is None:
            why = UNREAD
        if not why and decides and _kind(one) != first:
            why = OTHER
        asked = None if title is None else title_of(one, title, edited)
        line = "" if why or not decides else _hash_of(one, asked, shown)
        rows.append(Picked(one, asked, shown, why, shown=line))
    return rows


def _hash_of(
    approval: Approval, title: str | None, arguments: Sequence[Argument]
) -> str:
    """Of its line, as it is shown: without risk, reason and preview."""
    rows = [[row.name, row.text] for row in arguments]
    return hash_of_shown(approval, as_json(["list", title, rows])).hex()


def _kind(approval: Approval) -> object:
    return approval.call.tool, approval.kind, approval.policy_id, approval.rule


def _left_out(approval: Approval, do: str, shown: Sequence[Argument]) -> str:
    """Why nothing is done with it, whoever asks; empty where something is."""
    if not approval.is_pending:
        answered = approval.status == Approval.Status.RESPONDED
        word = "answered" if answered else approval.get_status_display().lower()
        return f"It is {word}."
    if do in ("snooze", "assign"):
        return ""
    if do not in approval.allowed:
        return f"It can be decided by: {', '.join(approval.allowed)}."
    if batch.is_alone(approval):
        return batch.ALONE
    if do == "approve" and approval.guard not in ("", Approval.Guard.SAME):
        return LOOKED_AT
    if do == "approve" and any(one.is_long for one in shown):
        return LONG
    return ""


def _done(request: MemberRequest) -> HttpResponse:
    do = request.POST.get("do", "")
    if do not in DOES:
        raise BadRequest("There is nothing of that name to be done with requests.")
    sent = [one for text in request.POST.getlist("seen") if (one := _seen(text))]
    shown = list({one.pk: one for one in sent}.values())
    ids = [one.pk for one in shown]
    try:
        said = _act(request, do, shown)
    except errors.InvalidDecision as wrong:
        return _page(request, do, ids, problems=wrong.fields)
    rows = [
        Picked(row.approval, row.title, result=said.get(row.approval.pk, ""))
        for row in _opened(request.principal, _found(request.principal, ids), "snooze")
    ]
    done = sum(not row.result for row in rows)
    context = {"do": do, "rows": rows, "done": done, "word": DONE[do]}
    return render(request, "inbox_batch_done.html", context)


def _act(request: MemberRequest, do: str, shown: Sequence[Sent]) -> dict[UUID, str]:
    """Does it; gives what went wrong with which. Raises InvalidDecision for all."""
    by = request.principal
    if do in ("approve", "reject"):
        reason = "\n".join(
            line
            for name in ("why", "reason")
            if (line := request.POST.get(name, "").strip())
        )
        verdict: Literal["approve", "reject"] = (
            "approve" if do == "approve" else "reject"
        )
        unread = _unread(by, shown) if do == "approve" else {}
        shown = [one for one in shown if one.pk not in unread]
        hashes = {one.pk: one.shown for one in shown}
        pairs = [(one.pk, one.seen) for one in shown]
        results = batch.decide(pairs, verdict, by, reason, hashes)
        return unread | {one.id: str(one.problem) for one in results if one.problem}
    found = _found(by, [one.pk for one in shown])
    if do == "snooze":
        span = SPANS.get(request.POST.get("until", ""))
        if span is None:
            raise errors.InvalidDecision({"until": "Say for how long."})
        until = now() + span[1]
        return _each(found, lambda one: _snooze(one, by, until))
    to = request.POST.get("to", "")
    if not to.isdecimal():
        raise errors.InvalidDecision({"to": "Say to whom."})
    return _each(found, lambda one: care.assign(one, by, to=int(to[:18])))


def _unread(by: UserPrincipal, shown: Sequence[Sent]) -> dict[UUID, str]:
    """Those that no form of this page holds: nobody can have read them on it."""
    sent = {one.pk: one for one in shown}
    unread = {}
    for row in _opened(by, _found(by, list(sent)), "approve"):
        one = sent[row.approval.pk]
        if row.left_out in (LONG, LONG_PREVIEW, LOOKED_AT, UNREAD):
            unread[one.pk] = row.left_out
        elif row.shown and one.shown.hex() != row.shown:
            unread[one.pk] = str(errors.NotAsShown())
    return unread


def _snooze(approval: Approval, by: UserPrincipal, until: datetime) -> None:
    care.snooze(approval, by, until=until)


def _each(
    approvals: Sequence[Approval], act: Callable[[Approval], Any]
) -> dict[UUID, str]:
    problems = {}
    for one in approvals:
        try:
            act(one)
        except errors.AgentsError as problem:
            problems[one.pk] = str(problem)
    return problems


def _seen(text: str) -> Sent | None:
    """What `Picked.seen` made; None for anything else."""
    pk, revision, digest, shown = (*text.split(":", 3), "", "", "")[:4]
    found = _uuid(pk)
    if found is None:
        return None
    try:
        seen = Seen(int(revision), bytes.fromhex(digest))
        return Sent(found, seen, bytes.fromhex(shown))
    except ValueError:
        return None


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


urlpatterns = [path("inbox/batch", picked, name="batch")]
