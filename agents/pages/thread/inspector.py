"""The inspector's tabs: one function each, from a history to what its template shows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import Q

from agents.models import ToolCall
from agents.pages.bundles.code import code_of
from agents.pages.bundles.elsewhere import calls_elsewhere
from agents.pages.thread.between import between
from agents.pages.thread.between import neighbours as step_states
from agents.pages.thread.cards import card, message_id, messages, pretty, unchanged
from agents.pages.thread.context import context_view
from agents.pages.thread.diff import diff_view
from agents.pages.thread.effects import call_views
from agents.pages.thread.files import files_view
from agents.pages.thread.memory import panel
from agents.pages.thread.people import authors
from agents.pages.thread.place import Place
from agents.pages.thread.steps import Step
from agents.pages.thread.subject import Subject
from agents.pages.thread.versions import neighbours
from agents.pages.thread.watch import Blamer
from checkpoints.log.hydrate import History
from checkpoints.models import Checkpoint, Thread
from checkpoints.pure.compare import Change, compare
from checkpoints.pure.ops import Op
from checkpoints.pure.refs import is_ref

KEPT = 3  # unchanged messages that stay in sight, for context
MOST_FOLDED = 200  # messages; for earlier ones there are earlier steps
MOST_LEAVES = 1_500  # values of a state shown as a tree
TAIL = 100  # messages that are left of a state with more
MOST_RAW = 200_000  # characters
# Steps that say from where on messages are sent whole.
_SHORTENS = (Checkpoint.Kind.RESUME, Checkpoint.Kind.SUMMARY)


def inspect(
    subject: Subject, place: Place, at: Step, calls: Sequence[ToolCall], query: str
) -> dict[str, Any]:
    """What the open tab shows. Nobody gets here who may not read."""
    history = subject.history
    assert history is not None  # the caller shows the sealed view instead
    match place.tab:
        case "state":
            return _state(subject, history, place, at, query)
        case "messages":
            return _messages(subject, history, at)
        case "context":
            return _context(subject, history, at)
        case "effects":
            is_import = subject.thread.origin == Thread.Origin.IMPORT
            return {
                "calls": call_views(
                    calls, subject.placed, subject.opened, subject.children
                ),
                "elsewhere": calls_elsewhere(history.records) if is_import else (),
            }
        case "files":
            return files_view(subject, history, place, at)
        case "raw":
            return _raw(subject, history, at)
    return _diff(subject, history, place, at)


def _diff(subject: Subject, history: History, place: Place, at: Step) -> dict[str, Any]:
    found = between(subject, history, place, at)
    view = diff_view(compare(found.before, found.after), subject.chips)
    return {
        **found.context,
        "diff": view,
        "entries": Blamer(subject, place, at).beside(view),
        "split": place.split,
    }


def _state(
    subject: Subject, history: History, place: Place, at: Step, query: str
) -> dict[str, Any]:
    view = neighbours(subject.agent, *step_states(history, at.step))
    before, after = view.states
    # Everything is new at the first step; saying so everywhere would say nothing.
    changes = compare(before, after) if at.step else []
    changed = {c.path: _was(c) for c in changes if c.kind != "removed"}
    tree: Any = after
    cut = 0
    if query:
        tree = matches(after, query.casefold())
    elif leaves(after) > MOST_LEAVES and len(messages(after)) > TAIL:
        cut = len(messages(after)) - TAIL
        tail = {str(n): m for n, m in enumerate(messages(after)) if n >= cut}
        tree = {**after, "messages": tail}
    # Paths of a state that is shown as newer code has it are not those of the steps.
    blamer = None if view.note else Blamer(subject, place, at)
    return {
        "memory": [] if query else panel(before, after, changes, subject.chips, blamer),
        "state": tree,
        "changed": changed,
        "query": query,
        "found": leaves(tree) if query and tree is not None else 0,
        "cut": cut,
        "note": view.note,
        "blamer": blamer,
    }


def matches(value: Any, query: str) -> Any:
    """What is left of a value when only keys and values that hold the text stay.

    Of what is kept as a blob, its first words are looked at.
    """
    if is_ref(value):
        return value if query in value["digest"].casefold() else None
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = {str(n): child for n, child in enumerate(value)}.items()
    else:
        said = value if isinstance(value, str) else json.dumps(value)
        return value if query in said.casefold() else None
    kept: dict[str, Any] = {}
    for key, child in items:
        if query in key.casefold() and isinstance(value, dict):
            kept[key] = child
        elif (found := matches(child, query)) is not None:
            kept[key] = found
    return kept or None


def _was(change: Change) -> str:
    if change.kind == "moved":
        return f"moved from {change.old_path}"
    if change.kind == "added":
        return "added"
    said = json.dumps(change.old, ensure_ascii=False)
    return f"was {said}" if len(said) <= 60 else "changed"


def _messages(subject: Subject, history: History, at: Step) -> dict[str, Any]:
    view = neighbours(subject.agent, *step_states(history, at.step))
    before, after = view.states
    old, new = messages(before), messages(after)
    same = unchanged(old, new) if at.step else 0
    steps = _steps_of_messages(history.operations(at.step + 1))
    cards = []
    first = max(0, same - KEPT - MOST_FOLDED)
    shown = [
        (n, message, steps.get(message_id(message) or ""))
        for n, message in enumerate(new[first:], first)
    ]
    who = authors(subject, {step for _, _, step in shown if step is not None})
    for n, message, step in shown:
        cards.append(
            card(
                message,
                subject.chips,
                step=step,
                who="" if step is None else who.get(step, ""),
                new=n >= same,
            )
        )
    folded = max(0, same - KEPT - first)
    params = after.get("params")
    system = params.get("system") if isinstance(params, dict) else None
    return {
        "folded": cards[:folded],
        "cards": cards[folded:],
        "cut": first,
        "gone": max(0, len(old) - same),
        "system": system if isinstance(system, str) else "",
        "note": view.note,
    }


def _steps_of_messages(made: Iterable[tuple[int, list[Op]]]) -> dict[str, int]:
    """Which step appended a message, by the message's id."""
    found: dict[str, int] = {}
    for step, ops in made:
        for op in ops:
            match op:
                case ["append", "/messages", message]:
                    added = [message]
                case ["reset", dict() as state]:
                    added = messages(state)
                case _:
                    continue
            for message in added:
                if identifier := message_id(message):
                    found.setdefault(identifier, step)
    return found


def _context(subject: Subject, history: History, at: Step) -> dict[str, Any]:
    """Of the open step, or of the last model call before it."""
    record = next(
        (
            r
            for r in reversed(history.records[: at.step + 1])
            if r.context and "request" in r.context
        ),
        None,
    )
    if record is None:
        return {"view": None}
    before = history.state_at(record.step - 1) if record.step else {}
    steps = _steps_of_messages(history.operations(record.step))
    near = range(history.near.start, record.step)
    kinds = ((n, history.record(n).kind) for n in reversed(near))
    resumed = next((n for n, kind in kinds if kind in _SHORTENS), None)
    if resumed is None and near.start:
        resumed = subject.last(Q(kind__in=_SHORTENS), before=near.start)
    return {
        "resumed": None if resumed is None else (resumed, history.label(resumed)),
        "view": context_view(
            record.context,
            before,
            subject.chips,
            counted=record.tokens_in,
            steps=steps,
        ),
        "of": record,
        "code": code_of(subject, record.context or {}, before),
        "earlier": record.step != at.step,
    }


def _raw(subject: Subject, history: History, at: Step) -> dict[str, Any]:
    record = history.record(at.step)
    step = {
        "id": str(record.id),
        "branch": str(record.branch_id),
        "parent": str(record.parent_id) if record.parent_id else None,
        "step": record.step,
        "kind": record.kind,
        "status": record.status,
        "schema_version": record.schema_version,
        "name": record.name,
        "label": record.label,
        "created_at": record.created_at.isoformat(),
        "ops": record.ops,
        "context": record.context,
        "state_mac": bytes(record.state_mac).hex(),
    }
    state = pretty(history.state_at(at.step))
    return {
        "record": pretty(step),
        "state_text": state if len(state) <= MOST_RAW else "",
        "state_size": len(state),
        "chips": subject.chips.within(record.ops),
    }


def leaves(value: Any) -> int:
    """How many plain values there are in it."""
    count, todo = 0, [value]
    while todo:
        node = todo.pop()
        if isinstance(node, dict) and node:
            todo.extend(node.values())
        elif isinstance(node, list) and node:
            todo.extend(node)
        else:
            count += 1
    return count
