"""A test case: a state, what model, tools and people then did, and what is expected.

    {"agent": name, "start": state, "asked": [ordinal, ...], "decided": [ordinal, ...],
     "steps": [step, ...], "final": text or null}

`asked` and `decided` are calls of the last reply, at the start. Each step is one that
followed on the branch. Those that the engine makes (`MADE`) are expected of it again:
kind, status, tool, the digests of its calls' arguments. What model and tools gave is in
the steps' operations; other steps (people's messages and decisions, edits, migrations)
are done again as they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from agents.errors import BadFile
from agents.pure.bundles.checks import (
    Check,
    anything,
    fields,
    items,
    maybe,
    one_of,
    text,
    whole,
)
from agents.pure.bundles.file import kind, unfolded
from agents.pure.bundles.shape import KINDS, MOST_STEPS, STATUSES
from agents.pure.calls import parse_arguments
from agents.pure.context import backwards, calls_of
from checkpoints.errors import BadOperation, NotStorable
from checkpoints.pure import codec
from checkpoints.pure.codec import State
from checkpoints.pure.ops import Op, fold

REPLIES = frozenset({"model", "code"})
MADE = REPLIES | {"tool", "interrupt", "error"}


@dataclass(frozen=True)
class Recorded:
    """A step as it was. `ordinal`: of the call that it answers or decides."""

    step: int
    kind: str
    status: str
    name: str
    error_class: str
    ordinal: int | None
    asked: list[int]  # of an interrupt: the calls that people were asked about
    ruled: list[int]  # calls of which not the tool's rule said whether people are asked
    calls: list[dict[str, str]]  # of a reply: tools, and digests of their arguments
    ops: list[Op] = field(repr=False)

    @property
    def message(self) -> dict[str, Any] | None:
        """The message that it appended; None: none."""
        for op in self.ops:
            if op[0] == "append" and op[1] == "/messages" and isinstance(op[2], dict):
                return op[2]
        return None


@dataclass(frozen=True)
class TestCase:
    """`start` is the state that the first of the steps follows."""

    __test__ = False  # for pytest, which goes by names

    agent: str
    start: State = field(repr=False)
    asked: list[int]
    decided: list[int]
    steps: Sequence[Recorded]
    final: str | None = field(repr=False)


def parse(content: dict[str, Any]) -> TestCase:
    """The content of a test case's file. Raises BadFile."""
    fields(content, "content", _CASE)
    start = unfolded(content["start"], "content: start")
    if not isinstance(start, dict):
        raise BadFile("content: start", f"expected an object, found {kind(start)}.")
    steps = []
    state: State = start
    for number, raw in enumerate(content["steps"]):
        place = f"step {number} of the file"
        fields(raw, place, _STEP)
        ops = unfolded(raw["ops"], f"{place}: ops")
        if not isinstance(ops, list):
            raise BadFile(f"{place}: ops", f"expected a list, found {kind(ops)}.")
        try:
            codec.check_structure(ops)
            state = fold(state, ops)
        except (BadOperation, NotStorable) as wrong:
            raise BadFile(f"{place}: ops", str(wrong)) from None
        found = Recorded(**{**raw, "ops": ops})
        if found.kind == "model" and (found.message or {}).get("role") != "assistant":
            raise BadFile(place, "a model's step appends its reply to the messages.")
        steps.append(found)
    if not any(step.kind in MADE for step in steps):
        raise BadFile("content: steps", "there is no step of the agent's in it.")
    return TestCase(
        content["agent"],
        start,
        content["asked"],
        content["decided"],
        steps,
        content["final"],
    )


def said_calls(message: Mapping[str, Any] | None) -> list[dict[str, str]]:
    """The calls of a reply: each tool, and the SHA-256 of its canonical arguments."""
    found = []
    for call in calls_of(dict(message or {})):
        function = call["function"]
        arguments = parse_arguments(function.get("arguments"))[0]
        try:
            digest = sha256(codec.canonical(arguments)).hexdigest()
        except NotStorable:
            digest = sha256(repr(arguments).encode(errors="replace")).hexdigest()
        found.append({"tool": str(function.get("name")), "arguments": digest})
    return found


def final_of(state: State) -> str | None:
    """The last message's text, if it is the agent's answer."""
    last = next(backwards(state), None)
    if last is None or last["role"] != "assistant" or calls_of(last):
        return None
    content = last.get("content")
    return content if isinstance(content, str) else None


_ORDINALS = items(1_000, whole(0, 2**15 - 1))
_CALL = {"tool": text(200), "arguments": text(64, "[0-9a-f]{64}")}
_STEP: dict[str, Check] = {
    "step": whole(0, 2**31 - 1),
    "kind": one_of(*KINDS),
    "status": one_of(*STATUSES),
    "name": text(100),
    "error_class": text(60),
    "ordinal": maybe(whole(0, 2**15 - 1)),
    "asked": _ORDINALS,
    "ruled": _ORDINALS,
    "calls": items(1_000, lambda value, place: fields(value, place, _CALL)),
    "ops": anything,
}
_CASE: dict[str, Check] = {
    "agent": text(60),
    "start": anything,
    "asked": _ORDINALS,
    "decided": _ORDINALS,
    "steps": items(MOST_STEPS),
    "final": maybe(text(2**30)),
}
