"""The step panel: what one step added, and under which circumstances it was taken."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.models import AgentVersion, Run, ToolCall
from agents.pages.chips import NO_CHIPS, Chip, Chips
from agents.pages.cost_limit import CostLimit, cost_limit
from agents.pages.thread import notable
from agents.pages.thread.attempts import Attempt, attempts, changed
from agents.pages.thread.cards import Card, card, messages
from agents.pages.thread.effects import CallView, call_views, calls_at
from agents.pages.thread.notes import Note, notes
from agents.pages.thread.place import Place
from agents.pages.thread.steps import Step, has_failed, is_notable
from agents.pages.thread.subject import Subject
from agents.pages.thread.trouble import means
from agents.pure.context import compose
from checkpoints.log.hydrate import StepRecord
from checkpoints.pure.ops import Op

VALUE = 200  # characters of a value beside its operation


@dataclass(frozen=True)
class Operation:
    """An operation that is not a message: what it did, where, and with what."""

    verb: str
    path: str
    value: str
    chips: Sequence[Chip] = ()  # of what the value holds as blobs


@dataclass(frozen=True)
class Additions:
    cards: list[Card] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)


@dataclass(frozen=True)
class Ways:
    """Steps that one key leads to."""

    previous: Place | None
    next: Place | None
    first: Place | None
    last: Place | None
    notable_before: Place | None
    notable_after: Place | None


@dataclass(frozen=True)
class StepPanel:
    at: Step
    record: StepRecord | None  # None: sealed
    added: Additions
    calls: list[CallView]
    run: Run | None
    version: str  # of the agent that took it
    who: str
    failed: bool
    ways: Ways
    means: str  # of its failure
    cleaned: list[str]  # where text was that is none, as one reads it now
    notes: list[Note]
    attempts: list[Attempt]
    changed: str  # of the model that answered
    left_out: int | None = None  # messages that facts stand for, since a resume

    @property
    def title(self) -> str:
        """The label; of an error, which is a whole reason, what it happened to."""
        if self.at.kind == "error":
            return f"{self.at.name or 'The run'} failed"
        return self.at.label

    @property
    def reason(self) -> str:
        """Why it failed, in full where the step holds that: labels are cut."""
        if self.added.cards and self.added.cards[-1].text:
            return self.added.cards[-1].text
        return self.at.label

    @property
    def limit(self) -> CostLimit | None:
        """What the step's run may cost, where somebody said."""
        return cost_limit(self.run) if self.run else None

    @property
    def shows_added(self) -> bool:
        """Whether there is more to see than the reason above and the calls below."""
        if self.at.kind == "error":
            return bool(self.added.operations)
        return bool(self.added.cards or self.added.operations or not self.calls)


def step_panel(
    subject: Subject,
    place: Place,
    at: Step,
    calls: Sequence[ToolCall],
    listed: Sequence[int] | None = None,
) -> StepPanel:
    """`listed`: the steps that a filter leaves, which keys lead through then."""
    record = subject.history.record(at.step) if subject.history else None
    who = subject.people.get(at.actor_id or 0, "")
    run_id = getattr(at, "run", None)
    run = next((run for run in subject.runs if run.pk == run_id), None)
    failed = has_failed(at)
    return StepPanel(
        at=at,
        record=record,
        added=additions(record.ops, step=at.step, who=who, chips=subject.chips)
        if record
        else Additions(),
        calls=call_views(
            calls_at(calls, subject.steps, at, subject.children),
            subject.placed,
            subject.opened,
            subject.children,
        ),
        run=run,
        version=_version(subject, at, run),
        who=who,
        failed=failed,
        ways=_ways(subject, place, at, listed),
        means=means(at.error_class) if failed else "",
        cleaned=_cleaned(record),
        notes=notes(record.context) if record else [],
        attempts=attempts(record.context) if record else [],
        changed=changed(subject.history.records, record)
        if subject.history and record
        else "",
        left_out=_left_out(subject, at),
    )


def _version(subject: Subject, at: Step, run: Run | None) -> str:
    """The version of its agent that took the step: its run may have gone on as another."""
    if run is None:
        return ""
    took = getattr(at, "agent_version", None)
    if took is None or took == run.agent_version_id:
        return str(run.agent_version)
    known = AgentVersion.objects.for_user(subject.principal).select_related("agent")
    return str(known.defer("spec").filter(pk=took).first() or run.agent_version)


def _left_out(subject: Subject, at: Step) -> int | None:
    """Of a step that resumed a run from the facts, or moved its window. None of others."""
    if at.kind not in ("resume", "summary") or subject.history is None:
        return None
    request = compose(subject.history.state_at(at.step), ())
    left_out: int | None = request.manifest.get("left_out")
    return left_out


def _cleaned(record: StepRecord | None) -> list[str]:
    found = (record.context or {}).get("cleaned") if record else None
    return [str(path) for path in found] if isinstance(found, list) else []


def _ways(
    subject: Subject, place: Place, at: Step, listed: Sequence[int] | None
) -> Ways:
    steps, end = subject.steps, len(subject.steps) - 1

    def to(step: int | None) -> Place | None:
        if step is None or step == at.step or not 0 <= step <= end:
            return None
        checkpoint, branch = subject.where(step)
        return place.at(checkpoint, own=branch == subject.branch.pk)

    near = subject.near
    before = range(near.start, at.step)
    after = range(at.step + 1, near.stop)
    notable_before = next((n for n in reversed(before) if is_notable(steps[n])), None)
    notable_after = next((n for n in after if is_notable(steps[n])), None)
    if notable_before is None and before.start:
        notable_before = notable.last(subject, before=before.start)
    if notable_after is None and after.stop <= end:
        notable_after = notable.next(subject, after=after.stop - 1)
    every = range(end + 1) if listed is None else listed
    here = bisect_left(every, at.step)
    beyond = bisect_right(every, at.step)
    return Ways(
        previous=to(every[here - 1] if here else None),
        next=to(every[beyond] if beyond < len(every) else None),
        first=to(every[0] if every else None),
        last=to(every[-1] if every else None),
        notable_before=to(notable_before),
        notable_after=to(notable_after),
    )


VERBS = {
    "append": "appended to",
    "put": "set",
    "delete": "deleted",
    "set": "set",
    "unset": "removed",
}


def additions(
    ops: Iterable[Op], *, step: int, who: str, chips: Chips = NO_CHIPS
) -> Additions:
    """What these operations added: messages as cards, everything else by path."""
    found = Additions()
    for op in ops:
        match op:
            case ["append", "/messages", message]:
                found.cards.append(card(message, chips, step=step, who=who, new=True))
            case ["reset", dict() as state]:
                found.cards.extend(
                    card(message, chips, step=step, who=who, new=True)
                    for message in messages(state)
                )
                found.operations.extend(_channels(state, chips))
            case ["put", path, key, value]:
                found.operations.append(
                    _operation(VERBS["put"], f"{path}/{key}", value, chips)
                )
            case ["delete", path, key]:
                found.operations.append(Operation(VERBS["delete"], f"{path}/{key}", ""))
            case [verb, path, value]:
                found.operations.append(
                    _operation(VERBS.get(verb, str(verb)), str(path), value, chips)
                )
            case [verb, path]:
                found.operations.append(
                    Operation(VERBS.get(verb, str(verb)), str(path), "")
                )
    return found


def _channels(state: Mapping[str, Any], chips: Chips) -> Iterable[Operation]:
    """The channels that a thread began with, where they hold something."""
    for name, value in state.items():
        if name not in {"messages", "_schema"} and value not in ({}, [], "", None):
            yield _operation("began with", f"/{name}", value, chips)


def _operation(verb: str, path: str, value: Any, chips: Chips) -> Operation:
    return Operation(verb, path, _value(value, chips), chips.within(value))


def _value(value: Any, chips: Chips) -> str:
    """Texts as they read, all else as JSON; nothing where a chip says it all."""
    if chips.of(value):
        return ""
    said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return said if len(said) <= VALUE else said[: VALUE - 1] + "…"
