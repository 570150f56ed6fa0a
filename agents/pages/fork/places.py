"""What may be edited at places of a state: the text of a message, or whatever JSON is there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agents.pages.chips import Chips
from agents.pages.damage import GONE
from agents.pages.thread.cards import messages, summary
from agents.pages.thread.diff import DiffLine, Entry, entries, text_lines
from agents.pages.thread.place import asked_path
from agents.runs.placed import OWN
from checkpoints.blobs import Contents, is_ref
from checkpoints.errors import BadOperation, NotJson
from checkpoints.pure import codec, text
from checkpoints.pure.changes import ABSENT, look
from checkpoints.pure.codec import State
from checkpoints.pure.pointer import pointer, split

LONGEST = 100_000  # characters of a text, or of JSON, in a field
LISTED = 40  # messages, the newest; earlier ones are opened by their path
TOO_LONG = "There are more than {most:,} characters: open a path within it."


@dataclass(frozen=True)
class Said:
    """A message in the list of those that may be edited."""

    path: str  # of its text, or of itself where it has none
    is_text: bool
    words: str


@dataclass(frozen=True)
class Value:
    """What stands at a path: `was` as it is there, `text` as it is edited."""

    path: str
    was: Any  # ABSENT: nothing
    text: str
    problem: str = ""  # why it cannot be edited here

    @property
    def nothing(self) -> bool:
        return self.was is ABSENT


def said_in(state: State, chips: Chips) -> list[Said]:
    """The newest messages of the context, the last first."""
    found = []
    for place, message in enumerate(messages(state)):
        if not isinstance(message, dict):
            continue
        content = message.get("content")
        is_text = isinstance(content, str) or is_ref(content)
        path = pointer("messages", place, *(["content"] if is_text else []))
        found.append(Said(path, is_text, summary(message, chips=chips)))
    return found[: -LISTED - 1 : -1]


def text_at(state: State, path: str, contents: Contents) -> str | None:
    """The text of the message whose content is at the path; None: it has none to edit."""
    match _parts(path):
        case ("messages", _, "content") as parts:
            content = look(state, parts)
        case _:
            return None
    if is_ref(content):
        try:
            content = contents.restore(content)
        except GONE:
            return None
    return content if isinstance(content, str) and len(content) <= LONGEST else None


def who_said(state: State, path: str) -> str:
    """What a field calls the message whose content is at the path."""
    parts = _parts(path) or ()
    message = look(state, parts[:-1])
    if not isinstance(message, dict):
        return "Message"
    role, name = str(message.get("role", "")), message.get("name")
    if role == "tool":
        return f"Result of {name}" if isinstance(name, str) else "Result of a call"
    return {"user": "Message of a person", "assistant": "Message of the agent"}.get(
        role, "Message"
    )


def value_at(state: State, path: str) -> Value:
    """What stands there, as JSON to be edited; "" is all of it but the engine's own."""
    path = asked_path(path)
    parts = _parts(path)
    if parts is None:
        return Value(path, ABSENT, "", "This is no path: write /facts/fare.")
    if parts and parts[0].startswith(OWN):
        return Value(path, ABSENT, "", f"{parts[0]} is the engine's own.")
    was = look(state, parts)
    if was is ABSENT and not isinstance(look(state, parts[:-1]), dict):
        return Value(path, ABSENT, "", "The state has nothing there, nor around it.")
    if path == "":
        was = {key: kept for key, kept in state.items() if not key.startswith(OWN)}
    written = "" if was is ABSENT else json.dumps(was, indent=2, ensure_ascii=False)
    if len(written) > LONGEST:
        return Value(path, was, "", TOO_LONG.format(most=LONGEST))
    return Value(path, was, written)


def normal(typed: str) -> str:
    """A text with the ends of lines as we store them; browsers send others."""
    return typed.replace("\r\n", "\n").replace("\r", "\n")


@dataclass(frozen=True)
class TextDiff:
    lines: list[DiffLine]
    added: int
    removed: int


def text_diff(old: str, new: str) -> TextDiff:
    lines = text_lines(text.hunks(normal(old), normal(new)))
    return TextDiff(
        lines,
        added=sum(line.sign == "+" for line in lines),
        removed=sum(line.sign == "-" for line in lines),
    )


@dataclass(frozen=True)
class ValueDiff:
    """How a value changes, by path; or why what is written is none."""

    entries: Sequence[Entry] = ()
    problem: str = ""


def value_diff(path: str, old: Any, typed: str) -> ValueDiff:
    """`old`: what is there, or ABSENT."""
    if not typed.strip():
        return ValueDiff()
    try:
        new, _ = codec.clean(codec.load_strict(normal(typed)))
    except NotJson as problem:
        return ValueDiff(problem=str(problem))
    return ValueDiff(entries(path, old, new))


def _parts(path: str) -> tuple[str, ...] | None:
    try:
        return split(path)
    except BadOperation:
        return None
