"""Everything that the thread's page shows, put together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

from django.http import Http404, HttpRequest
from django.urls import reverse

from agents.pages.answering import said
from agents.pages.compare import choose
from agents.pages.compare.address import Address
from agents.pages.cost_limit import cost_limit
from agents.pages.principal import MemberRequest
from agents.pages.remarks.shown import beside
from agents.pages.thread.files import has_files
from agents.pages.thread.filter import StepFilter
from agents.pages.thread.inspector import inspect
from agents.pages.thread.map import branch_map
from agents.pages.thread.matches import filter_form, find, list_of
from agents.pages.thread.panel import step_panel
from agents.pages.thread.place import TABS, Place, asked_path, number
from agents.pages.thread.relatives import relatives
from agents.pages.thread.rights import actions, composer, lock_of, pending, waiting
from agents.pages.thread.settled import Settled, settled
from agents.pages.thread.status import (
    branch_menu,
    listed,
    siblings,
    thread_status,
    version,
)
from agents.pages.thread.steps import Step, step_list
from agents.pages.thread.subject import (
    Subject,
    agent_gone,
    calls_of,
    load,
    marks,
    newest_run,
    queued,
    why_paused,
)
from agents.pages.thread.watch import Blamer
from checkpoints.log import rules
from checkpoints.models import Branch

POLL = "every 2s"
WARN_AT = 0.8  # of the steps that a policy allows
PANES = ("steps", "step", "inspector")  # one at a time on a phone


def page_context(
    request: MemberRequest,
    pk: UUID,
    *,
    checkpoint: UUID | None = None,
    branch: UUID | None = None,
) -> dict[str, Any]:
    """What the page and its parts show at the place that the address names.

    Raises Http404 for what is not there, or not for this person.
    """
    step = number(request.GET.get("step", ""))
    subject = load(
        request.principal,
        pk,
        branch=branch or _uuid(request, "branch"),
        checkpoint=checkpoint,
        step=step,
    )
    at = subject.at(checkpoint, step)
    tab = request.GET.get("tab", TABS[0])
    shown = subject.branch.pk
    wanted = StepFilter.of(request.GET)
    unread = subject.history is None
    tip = Place(
        thread=pk,
        branch=shown,
        tab=tab if tab in TABS else TABS[0],
        base=_uuid(request, "base"),
        split=request.GET.get("split") == "1",
        path=asked_path(request.GET.get("path", "")),
        filter=wanted.without("label") if unread else wanted,
    )
    here = tip
    if at is not None and (checkpoint is not None or step is not None):
        here = tip.at(at.id, own=at.branch_id == shown)
    every = here.tab == "effects" or bool(here.path)
    calls = calls_of(subject, every=every) if subject.steps else []
    lines, near = subject.lines, relatives(subject)
    sums = settled(subject.thread, subject.branches)
    current = at.step if at else 0
    matches = find(subject, tip.filter, current=current) if tip.filter else None
    remarks = beside(subject, at)
    beside_it = siblings(lines, shown, at.step) if at else []

    def names(drawn: list[UUID]) -> Iterator[str]:
        """All names of the page are opened together."""
        in_menu = [line.id for line in listed(lines, drawn)]
        subject.names.look([*in_menu, *dict(beside_it).values()])
        return subject.names.of(drawn)

    drawn = branch_map(
        lines,
        marks(subject),
        shown=shown,
        at=(at.branch_id, at.step) if at else (shown, 0),
        address=tip.step,
        names=names,
        starred=remarks.starred_branches,
    )
    seen = number(request.GET.get("seen", ""))
    # First of what needs states: it asks for two, and what else is shown for one of them.
    inspected = (
        inspect(subject, here, at, calls, request.GET.get("q", ""))
        if at and not subject.sealed
        else {}
    )
    return {
        "subject": subject,
        "thread": subject.thread,
        "place": here,
        "tip": tip,
        "at": at,
        "status": thread_status(
            subject,
            near,
            asked=pending(calls, subject) is not None,
            lock=lock_of(calls, subject),
        ),
        "answering": said(subject.run, head_step=subject.branch.head_step)
        if subject.run
        else "",
        "branches": branch_menu(subject, drawn, tip, remarks.starred_branches),
        "inspector": inspected,
        "tabs": [(name, here.on(name)) for name in _tabs(subject, here, at)],
        "totals": sums,
        "filling": filling(subject, sums),
        "map": drawn,
        "list": step_list(
            subject.steps,
            place=tip,
            branch=shown,
            branch_name=subject.names[shown],
            parent_name=subject.parent_name,
            current=current,
            people=subject.people,
            where=subject.where,
            waiting=waiting(subject, calls, near),
        )
        if matches is None
        else list_of(matches, subject, tip, current),
        "narrow": filter_form(wanted, sums, here=here, tip=tip, unread=unread),
        "siblings": [
            (key, subject.names[branch], *tip.step(branch, at.step if at else None))
            for key, branch in beside_it
        ],
        "panel": step_panel(subject, tip, at, calls, matches.steps if matches else None)
        if at
        else None,
        "remarks": remarks,
        "watch": Blamer(subject, here, at).watch(calls)
        if at and here.path and not subject.sealed
        else None,
        "actions": actions(subject, at),
        "composer": composer(subject, calls),
        "queued": queued(subject),
        "paused": why_paused(subject),
        "limit": cost_limit(subject.run) if subject.run else None,
        "agent_gone": agent_gone(subject),
        "relatives": near,
        "request_key": uuid4(),
        "following": here is tip,
        "new_steps": max(0, subject.branch.head_step - seen) if seen is not None else 0,
        "seen": subject.branch.head_step if seen is None or here is tip else seen,
        "pane": _pane(request),
        **_addresses(subject, tip, here, at),
        "version": version(subject.branches, subject.runs),
        "poll": POLL if any(run.is_live for run in subject.runs) else "",
    }


def _tabs(subject: Subject, here: Place, at: Step | None) -> list[str]:
    """Most agents have no files: the tab is there where there are some, or one is on it."""
    shows_files = here.tab == "files" or has_files(subject, at)
    return [name for name in TABS if name != "files" or shows_files]


def filling(subject: Subject, sums: Settled) -> int | None:
    """The steps that the thread may have, where most of them are taken; else None."""
    run = subject.run or newest_run(subject.runs)
    agent = run.agent_version.agent.name if run else ""
    most = rules.most_steps(subject.thread.workspace_id, agent)
    return most if most is not None and sums.steps >= most * WARN_AT else None


def _addresses(
    subject: Subject, tip: Place, here: Place, at: Step | None
) -> dict[str, Any]:
    """What is one click away and is no step of the list."""
    thread = subject.thread.pk
    found: dict[str, Any] = {
        "unified": here.side_by_side(False),
        "side_by_side": here.side_by_side(True),
        "clear_base": here.against(None),
        "set_base": here.against(at.id if at else None),
        "base_place": replace(tip, checkpoint=here.base),
        "scrub_url": reverse("agents:thread_scrub", args=[thread]) + tip.query,
        "live": here.live,
        "compare_url": compared(subject.branch),
        "choose_url": choose.address(subject.branch.pk),
        "panes": [(pane, here.showing(pane)) for pane in PANES],
    }
    if at is not None:
        back = f"?branch={subject.branch.pk}"
        found["fork_url"] = reverse("agents:fork", args=[thread, at.id]) + back
        if at.step:
            before, _ = subject.where(at.step - 1)
            found["fork_before_url"] = (
                reverse("agents:fork", args=[thread, before]) + back
            )
    return found


def compared(branch: Branch) -> str:
    """Where a branch is compared: a fork with its source, another with what one chooses."""
    if branch.parent_id is None:
        return choose.address(branch.pk)
    return Address(branch.parent_id, branch.pk).page


def _pane(request: HttpRequest) -> str:
    """What a phone shows: who follows a link to a tab, or watches a path, wants that."""
    asked = {"tab", "path"} & request.GET.keys()
    pane = request.GET.get("pane", "inspector" if asked else "step")
    return pane if pane in PANES else "step"


def _uuid(request: HttpRequest, name: str) -> UUID | None:
    """An id from the address; Http404 for what can be none."""
    if not (text := request.GET.get(name)):
        return None
    try:
        return UUID(text)
    except ValueError:
        raise Http404 from None
