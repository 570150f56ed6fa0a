"""What the fork page shows: what changes, what becomes of calls, what the source took."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.urls import reverse

from agents.pages.fork.calls import (
    CALLS,
    answered_here,
    asked_again,
    later_calls,
    single_calls,
)
from agents.pages.fork.form import ForkForm, Was
from agents.pages.fork.places import (
    said_in,
    text_at,
    text_diff,
    value_at,
    value_diff,
    who_said,
)
from agents.pages.fork.version import other_version
from agents.pages.thread.attempts import changed_since
from agents.pages.thread.place import Place
from agents.pages.thread.rights import resumes
from agents.pages.thread.steps import Step
from agents.pages.thread.subject import Subject, calls_of
from agents.pure.context import calls_of as calls_of_reply
from agents.pure.context import messages_of
from agents.runs.fork_calls import may_go_live
from agents.tools import registry
from checkpoints.blobs import Contents
from checkpoints.models import Branch
from checkpoints.pure.codec import State


@dataclass(frozen=True)
class Source:
    """The step that is forked, opened."""

    subject: Subject
    at: Step
    state: State
    contents: Contents
    was: Was


@dataclass(frozen=True)
class Estimate:
    """What the source took from the step on."""

    steps: int
    cost: Decimal | None
    latency_ms: int


def context(source: Source, form: ForkForm) -> dict[str, Any]:
    """For the template `fork.html`."""
    subject, at = source.subject, source.at
    calls = calls_of(subject)
    single, more = single_calls(subject, at, form.call_choices)
    answered = answered_here(
        subject, calls, at, form.call_choices, again=bool(form.sent.get("again"))
    )
    apart = {each.id for each in answered if each.recorded}
    single = [call for call in single if call.id not in apart]
    offered = dict(CALLS)
    if not may_go_live(subject.principal):
        del offered[Branch.Calls.LIVE]
    return {
        "subject": subject,
        "thread": subject.thread,
        "at": at,
        "branch_name": subject.names[subject.branch.pk],
        "form": form,
        "was": source.was,
        "diffs": {
            name: text_diff(getattr(source.was, name), form[name].value() or "")
            for name in ("system", "message")
        },
        **_editors(source, form),
        "calls": offered,
        "answered_here": answered,
        "single": single,
        "more_calls": more,
        "otherwise": sum(bool(call.chosen) for call in single),
        "chosen": form["calls"].value() or Branch.Calls.RECORDED,
        "anything_else": {
            Branch.Calls.RECORDED: "asks a person",
            Branch.Calls.SIMULATE: "simulated: not run",
            Branch.Calls.LIVE: "asks a person, then runs",
        },
        "later": later_calls(calls, subject.steps, at),
        "asked_again": asked_again(calls, subject.steps, at),
        "estimate": _estimate(subject, at),
        "answered": _answered(source.state),
        "said_later": sum(
            step.kind == "input" and step.branch_id == at.branch_id
            for step in subject.steps[at.step + 1 :]
        ),
        "resumes": resumes(subject),  # none: its agent asks no model
        "model_changed": changed_since(subject.history.records, at.step)
        if subject.history
        else "",
        "version": other_version(subject, at, source.state),
        "agents": [] if subject.runs else [agent.name for agent in registry],
        "back": Place(
            subject.thread.pk,
            None if at.branch_id == subject.branch.pk else subject.branch.pk,
            at.id,
        ).page,
        "action": reverse("agents:fork", args=[subject.thread.pk, at.id])
        + f"?branch={subject.branch.pk}",
    }


def _editors(source: Source, form: ForkForm) -> dict[str, Any]:
    """The list of messages, and the two editors where they are open."""
    found: dict[str, Any] = {
        "said_list": said_in(source.state, source.subject.chips),
        "plan": bool(source.state.get("plan")),
        "focus": form.sent.get("focus"),
    }
    path = form.sent.get("said_path") or ""
    was = text_at(source.state, path, source.contents) if path else None
    if was is not None:
        found["said"] = {
            "who": who_said(source.state, path),
            "was": was,
            "diff": text_diff(was, form["said"].value() or ""),
        }
    if form.opened_path is not None:
        there = value_at(source.state, form.opened_path)
        found["opened"] = there
        found["value_diff"] = value_diff(
            there.path, there.was, form["value"].value() or ""
        )
    return found


def _estimate(subject: Subject, at: Step) -> Estimate:
    later = subject.steps[at.step + 1 :]
    return Estimate(
        steps=len(later),
        cost=sum((step.cost for step in later if step.cost), Decimal(0)) or None,
        latency_ms=sum(step.latency_ms or 0 for step in later),
    )


def _answered(state: State) -> bool:
    """Whether the agent has answered at this step, so that a run would end at once."""
    said = messages_of(state)
    return (
        bool(said) and said[-1]["role"] == "assistant" and not calls_of_reply(said[-1])
    )
