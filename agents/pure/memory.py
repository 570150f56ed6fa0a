"""Working memory: the channels of a state that say what the work is about, read for people.

A state may come from anywhere, so nothing is taken for granted about a channel's shape: one
that is not as ours are is left to whoever shows the state itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from checkpoints.pure.codec import State
from checkpoints.pure.pointer import pointer
from checkpoints.pure.refs import is_ref

CHANNELS = ("goal", "plan", "facts", "decisions", "todos", "vars", "summary")

_STATUSES = {
    "done": "done",
    "complete": "done",
    "completed": "done",
    "finished": "done",
    "succeeded": "done",
    "skipped": "skipped",
    "doing": "doing",
    "in_progress": "doing",
    "active": "doing",
}


@dataclass(frozen=True)
class Entry:
    """One thing that is remembered. `path` is its JSON Pointer."""

    path: str
    name: str  # of a fact or a note; else empty
    value: Any
    more: str = ""  # a decision's reason, a planned step's result
    status: str = ""  # of a planned step: open, doing, done, skipped


@dataclass(frozen=True)
class Memory:
    """What a state remembers, channel by channel, in the order that it was kept in."""

    goal: Entry | None
    plan: tuple[Entry, ...]
    facts: tuple[Entry, ...]
    decisions: tuple[Entry, ...]
    todos: tuple[Entry, ...]
    vars: tuple[Entry, ...]
    summary: Entry | None

    def __bool__(self) -> bool:
        return any(getattr(self, channel) for channel in CHANNELS)


def memory_of(state: State) -> Memory:
    """What this state remembers. Raises nothing, whatever it holds."""
    return Memory(
        goal=_text(state, "goal"),
        plan=tuple(_plan(state)),
        facts=tuple(_named(state, "facts")),
        decisions=tuple(_decisions(state)),
        todos=tuple(_listed(state, "todos")),
        vars=tuple(_named(state, "vars")),
        summary=_text(state, "summary"),
    )


def size_of(get: Callable[[str], Any]) -> int:
    """Characters of working memory as JSON, that stands for earlier messages after a rest."""
    held = [get(channel) for channel in CHANNELS if channel != "goal"]
    return sum(len(json.dumps(value, ensure_ascii=False)) for value in held if value)


def _text(state: State, channel: str) -> Entry | None:
    value = state.get(channel)
    if not value or not (isinstance(value, str) or is_ref(value)):
        return None
    return Entry(pointer(channel), "", value)


def _named(state: State, channel: str) -> Iterator[Entry]:
    held = state.get(channel)
    if isinstance(held, dict):
        for name, value in held.items():
            yield Entry(pointer(channel, name), name, value)


def _listed(state: State, channel: str) -> Iterator[Entry]:
    held = state.get(channel)
    if isinstance(held, list):
        for place, value in enumerate(held):
            yield Entry(pointer(channel, place), "", value)


def _plan(state: State) -> Iterator[Entry]:
    for entry in _listed(state, "plan"):
        step = entry.value
        if not (isinstance(step, dict) and isinstance(step.get("step"), str)):
            yield Entry(entry.path, "", step, status="open")
            continue
        said = str(step.get("status", "")).casefold()
        status = "done" if step.get("done") is True else _STATUSES.get(said, "open")
        result = step.get("result")
        more = result if isinstance(result, str) else ""
        yield Entry(entry.path, "", step["step"], more=more, status=status)


def _decisions(state: State) -> Iterator[Entry]:
    for entry in _listed(state, "decisions"):
        made = entry.value
        if isinstance(made, dict) and isinstance(made.get("decision"), str):
            reason = made.get("reason")
            more = reason if isinstance(reason, str) else ""
            yield Entry(entry.path, "", made["decision"], more=more)
        else:
            yield entry
