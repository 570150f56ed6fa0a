"""What a bundle's content is made of, checked value by value before any of it is used."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from agents.errors import BadFile
from agents.pure.bundles.file import kind, shown, unfolded
from checkpoints.errors import BadOperation, NotStorable
from checkpoints.pure import codec, schema
from checkpoints.pure.codec import State
from checkpoints.pure.ops import Op, fold

MOST_BRANCHES, MOST_STEPS = 1_000, 20_000
KINDS = (
    *("input", "model", "tool", "interrupt", "decision", "edit", "summary"),
    *("snapshot", "migrate", "progress", "resume", "error"),
)
STATUSES = ("ok", "failed", "waiting")
IMPORTED = "imported"  # in a step's context: what was known of it elsewhere

Check = Callable[[Any, str], None]


@dataclass(frozen=True)
class Step:
    """One step of a branch, and the state after it; `row` has the other values."""

    row: Mapping[str, Any] = field(repr=False)
    ops: list[Op] = field(repr=False)
    context: dict[str, Any] | None = field(repr=False)
    schema_version: int


@dataclass(frozen=True)
class Branch:
    name: str = field(repr=False)
    parent: int | None  # which of the branches before it
    fork_step: int  # of the parent's line; -1: none
    steps: list[Step]  # its own: without those before the fork


@dataclass(frozen=True)
class Content:
    title: str = field(repr=False)
    branches: list[Branch]

    @property
    def steps(self) -> int:
        return sum(len(branch.steps) for branch in self.branches)


def parse(content: dict[str, Any]) -> Content:
    """The content of a bundle. Raises BadFile, which names branch and step."""
    fields(content, "content", {"title": text(500), "branches": items(MOST_BRANCHES)})
    if not content["branches"]:
        raise BadFile("content.branches", "there is no branch in it.")
    branches: list[Branch] = []
    lines: list[list[State]] = []  # of each branch, the states after its line's steps
    total = 0
    for number, raw in enumerate(content["branches"]):
        place = f"branch {number}"
        fields(raw, place, _BRANCH)
        total += len(raw["steps"])
        if total > MOST_STEPS:
            raise BadFile(place, f"a bundle has {MOST_STEPS:,} steps at most.")
        line = _begun(raw, number, lines, place)
        first = len(line)
        steps = []
        for at, step in enumerate(raw["steps"], first):
            steps.append(_step(step, at, line, f"{place}, step {at}"))
        if not line:
            raise BadFile(place, "there is no step in it.")
        branches.append(Branch(raw["name"], raw["parent"], raw["fork_step"], steps))
        lines.append(line)
    return Content(content["title"], branches)


def _begun(
    raw: dict[str, Any], number: int, lines: list[list[State]], place: str
) -> list[State]:
    """The states that a branch has from its parent."""
    parent, fork_step = raw["parent"], raw["fork_step"]
    if number == 0:
        if parent is not None or fork_step != -1:
            raise BadFile(place, "the first branch has no parent: null, and -1.")
        return []
    if parent is None or not 0 <= parent < number:
        raise BadFile(place, "its parent is not one of the branches before it.")
    if not 0 <= fork_step < len(lines[parent]):
        raise BadFile(place, f"its parent, branch {parent}, has no step {fork_step}.")
    return lines[parent][: fork_step + 1]


def _step(raw: Any, at: int, line: list[State], place: str) -> Step:
    fields(raw, place, STEP)
    if raw["step"] != at:
        raise BadFile(f"{place}: step", f"expected {at}, found another number.")
    ops = unfolded(raw["ops"], f"{place}: ops")
    if not isinstance(ops, list):
        raise BadFile(f"{place}: ops", f"expected a list, found {kind(ops)}.")
    try:
        codec.check_structure(ops)
        state = fold(line[-1] if line else {}, ops)
    except BadOperation as wrong:
        raise BadFile(f"{place}: ops", f"{wrong}") from None
    except NotStorable as wrong:
        raise BadFile(f"{place}: ops", f"{wrong.found}; {wrong.expected}.") from None
    if at == 0 and (len(ops) != 1 or ops[0][0] != "reset"):
        raise BadFile(f"{place}: ops", "the first step sets the whole state (reset).")
    if (version := schema.version(state)) != raw["schema_version"]:
        raise BadFile(
            f"{place}: schema_version",
            f"expected {version}, as its state says, found another number.",
        )
    context = unfolded(raw["context"], f"{place}: context")
    _context(context, f"{place}: context")
    line.append(state)
    return Step(raw, ops, context, version)


def _context(value: Any, place: str) -> None:
    """What pages take for granted of a step's context; all else in it is shown as it is."""
    if value is None:
        return
    if not isinstance(value, dict):
        raise BadFile(place, f"expected an object or null, found {kind(value)}.")
    if IMPORTED in value:
        raise BadFile(place, f'the key "{IMPORTED}" is written by an import only.')
    for name in ("left_out", "attempts", "cleaned"):
        if not isinstance(value.get(name, []), list):
            raise BadFile(place, f'"{name}": expected a list.')
    request = value.get("request", {})
    if not isinstance(request, dict) or not isinstance(request.get("tools", []), list):
        raise BadFile(place, '"request": expected an object, its "tools" a list.')
    try:
        codec.check(value)
    except NotStorable as wrong:
        raise BadFile(place, f"{wrong}") from None


def fields(value: Any, place: str, checks: Mapping[str, Check]) -> None:
    """An object with these keys, no other, each as its check says."""
    if not isinstance(value, dict):
        raise BadFile(place, f"expected an object, found {kind(value)}.")
    for name in value:
        if name not in checks:
            raise BadFile(place, f"the key {shown(name)} does not belong there.")
    for name, check in checks.items():
        if name not in value:
            raise BadFile(place, f"the key {shown(name)} is missing.")
        check(value[name], f"{place}: {name}")


def text(most: int, form: str = "") -> Check:
    """A text of up to so many characters, of this form where one is given."""
    pattern = re.compile(form + r"\Z") if form else None

    def check(value: Any, place: str) -> None:
        if not isinstance(value, str):
            raise BadFile(place, f"expected a text, found {kind(value)}.")
        if len(value) > most:
            raise BadFile(place, f"{len(value):,} characters; {most:,} at most.")
        if pattern is not None and not pattern.match(value):
            raise BadFile(place, "this text has not the form of one.")

    return check


def one_of(*choices: str) -> Check:
    def check(value: Any, place: str) -> None:
        if not isinstance(value, str) or value not in choices:
            raise BadFile(place, f"expected one of {', '.join(choices)}.")

    return check


def whole(least: int, most: int) -> Check:
    def check(value: Any, place: str) -> None:
        if type(value) is not int or not least <= value <= most:
            raise BadFile(place, f"expected a whole number from {least} to {most}.")

    return check


def _number(value: Any, place: str) -> None:
    if type(value) not in (int, float):
        raise BadFile(place, f"expected a number, found {kind(value)}.")


def _moment(value: Any, place: str) -> None:
    try:
        if datetime.fromisoformat(value).tzinfo is not None:
            return
    except (TypeError, ValueError):
        pass
    raise BadFile(place, "expected a time with its zone, as 2026-07-14T09:30:00+00:00.")


def _money(value: Any, place: str) -> None:
    try:
        if isinstance(value, str) and 0 <= Decimal(value) < 1_000_000:
            return
    except (InvalidOperation, ValueError):
        pass
    raise BadFile(place, 'expected US dollars as a text, such as "0.0125".')


def maybe(check: Check) -> Check:
    def checked(value: Any, place: str) -> None:
        if value is not None:
            check(value, place)

    return checked


def items(most: int, of: Check | None = None) -> Check:
    def check(value: Any, place: str) -> None:
        if not isinstance(value, list):
            raise BadFile(place, f"expected a list, found {kind(value)}.")
        if len(value) > most:
            raise BadFile(place, f"{len(value):,} items; {most:,} at most.")
        for number, item in enumerate(value if of is not None else ()):
            assert of is not None  # as asked above
            of(item, f"{place} {number}")

    return check


def _object(checks: Mapping[str, Check]) -> Check:
    return lambda value, place: fields(value, place, checks)


def anything(value: Any, place: str) -> None:
    """Checked by who reads it."""


_CLEAR = r"[^\x00-\x1f\x7f]*"  # of texts that columns hold in clear
_CODE = r"[a-z0-9_]*"
_COUNT = maybe(whole(0, 2**31 - 1))

_DECISION = {
    "verdict": one_of("approve", "edit", "reject", "respond"),
    "by": text(200),
    "at": _moment,
}
_APPROVAL = {
    "number": whole(1, 2**31 - 1),
    "kind": text(10, _CODE),
    "status": text(10, _CODE),
    "rule": text(200),
    "risk": text(10, _CODE),
    "asked_at": _moment,
    "decided_at": maybe(_moment),
    "decided_by": text(200),
    "decisions": items(1_000, _object(_DECISION)),
}
CALL: dict[str, Check] = {
    "ordinal": whole(0, 2**15 - 1),
    "tool": text(100),
    "title": text(2_000),
    "effect": one_of("none", "read", "write", "external"),
    "status": text(10, _CODE),
    "error_class": text(60, _CODE),
    "attempts": whole(0, 2**31 - 1),
    "started_at": maybe(_moment),
    "finished_at": maybe(_moment),
    "approval": maybe(_object(_APPROVAL)),
}
STEP: dict[str, Check] = {
    "step": whole(0, MOST_STEPS),
    "kind": one_of(*KINDS),
    "status": one_of(*STATUSES),
    "name": text(100),
    "label": text(2_000),
    "at": _moment,
    "by": text(200),
    "agent": text(100),
    "schema_version": whole(1, schema.MAX_VERSION),
    "model_requested": text(100, _CLEAR),
    "model_returned": text(100, _CLEAR),
    "temperature": maybe(_number),
    "top_p": maybe(_number),
    "seed": maybe(whole(-(2**63), 2**63 - 1)),
    "fingerprint": text(100, _CLEAR),
    "tokens_in": _COUNT,
    "tokens_out": _COUNT,
    "tokens_cached": _COUNT,
    "cost": maybe(_money),
    "latency_ms": _COUNT,
    "error_class": text(60, _CODE),
    "context": anything,
    "ops": anything,
    "calls": items(1_000, _object(CALL)),
}
_BRANCH: dict[str, Check] = {
    "name": text(200),
    "parent": maybe(whole(0, MOST_BRANCHES)),
    "fork_step": whole(-1, MOST_STEPS),
    "steps": items(MOST_STEPS),
}
