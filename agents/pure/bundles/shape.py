"""What a bundle's content is made of, checked value by value before any of it is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agents.errors import BadFile
from agents.pure.bundles.checks import (
    Check,
    a_number,
    an_object,
    anything,
    fields,
    items,
    maybe,
    moment,
    money,
    one_of,
    text,
    whole,
)
from agents.pure.bundles.file import kind, unfolded
from checkpoints.errors import BadOperation, NotStorable
from checkpoints.pure import codec, schema
from checkpoints.pure.ops import Folder, Op

MOST_BRANCHES, MOST_STEPS = 1_000, 20_000
KINDS = (
    *("input", "model", "tool", "interrupt", "decision", "edit", "summary"),
    *("snapshot", "migrate", "progress", "resume", "error", "code"),
)
STATUSES = ("ok", "failed", "waiting")
IMPORTED = "imported"  # in a step's context: what was known of it elsewhere


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

    @property
    def last(self) -> int:
        """The number of its newest step."""
        return self.fork_step + len(self.steps)


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
    total = 0
    for number, raw in enumerate(content["branches"]):
        place = f"branch {number}"
        fields(raw, place, _BRANCH)
        total += len(raw["steps"])
        if total > MOST_STEPS:
            raise BadFile(place, f"a bundle has {MOST_STEPS:,} steps at most.")
        line = _begun(raw, number, branches, place)
        first = raw["fork_step"] + 1
        steps = []
        for at, step in enumerate(raw["steps"], first):
            steps.append(_step(step, at, line, f"{place}, step {at}"))
        if not first + len(steps):
            raise BadFile(place, "there is no step in it.")
        branches.append(Branch(raw["name"], raw["parent"], raw["fork_step"], steps))
    return Content(content["title"], branches)


def _begun(
    raw: dict[str, Any], number: int, branches: list[Branch], place: str
) -> Folder:
    """The fold of what a branch has from its parent.

    Made anew for each: kept, the states of all steps would take far more room than the
    file, as each has its own copy of every list that its step adds to.
    """
    parent, fork_step = raw["parent"], raw["fork_step"]
    if number == 0:
        if parent is not None or fork_step != -1:
            raise BadFile(place, "the first branch has no parent: null, and -1.")
        return Folder({})
    if parent is None or not 0 <= parent < number:
        raise BadFile(place, "its parent is not one of the branches before it.")
    if not 0 <= fork_step <= branches[parent].last:
        raise BadFile(place, f"its parent, branch {parent}, has no step {fork_step}.")
    line: list[Step] = []
    last = fork_step
    while parent is not None:
        branch = branches[parent]
        line[:0] = branch.steps[: max(0, last - branch.fork_step)]
        parent, last = branch.parent, min(last, branch.fork_step)
    folder = Folder({})
    for step in line:
        folder.fold(step.ops)
    return folder


def _step(raw: Any, at: int, line: Folder, place: str) -> Step:
    fields(raw, place, STEP)
    if raw["step"] != at:
        raise BadFile(f"{place}: step", f"expected {at}, found another number.")
    ops = unfolded(raw["ops"], f"{place}: ops")
    if not isinstance(ops, list):
        raise BadFile(f"{place}: ops", f"expected a list, found {kind(ops)}.")
    try:
        codec.check_structure(ops)
        line.fold(ops)
    except BadOperation as wrong:
        raise BadFile(f"{place}: ops", f"{wrong}") from None
    except NotStorable as wrong:
        raise BadFile(f"{place}: ops", f"{wrong.found}; {wrong.expected}.") from None
    if at == 0 and (len(ops) != 1 or ops[0][0] != "reset"):
        raise BadFile(f"{place}: ops", "the first step sets the whole state (reset).")
    if (version := schema.version(line.state)) != raw["schema_version"]:
        raise BadFile(
            f"{place}: schema_version",
            f"expected {version}, as its state says, found another number.",
        )
    context = unfolded(raw["context"], f"{place}: context")
    _context(context, f"{place}: context")
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


_CLEAR = r"[^\x00-\x1f\x7f]*"  # of texts that columns hold in clear
_CODE = r"[a-z0-9_]*"
_COUNT = maybe(whole(0, 2**31 - 1))

_DECISION = {
    "verdict": one_of("approve", "edit", "reject", "respond"),
    "by": text(200),
    "at": moment,
}
_APPROVAL = {
    "number": whole(1, 2**31 - 1),
    "kind": text(10, _CODE),
    "status": text(10, _CODE),
    "rule": text(200),
    "risk": text(10, _CODE),
    "asked_at": moment,
    "decided_at": maybe(moment),
    "decided_by": text(200),
    "decisions": items(1_000, an_object(_DECISION)),
}
CALL: dict[str, Check] = {
    "ordinal": whole(0, 2**15 - 1),
    "tool": text(100),
    "title": text(2_000),
    "effect": one_of("none", "read", "write", "external"),
    "status": text(10, _CODE),
    "error_class": text(60, _CODE),
    "attempts": whole(0, 2**31 - 1),
    "started_at": maybe(moment),
    "finished_at": maybe(moment),
    "approval": maybe(an_object(_APPROVAL)),
}
STEP: dict[str, Check] = {
    "step": whole(0, MOST_STEPS),
    "kind": one_of(*KINDS),
    "status": one_of(*STATUSES),
    "name": text(100),
    "label": text(2_000),
    "at": moment,
    "by": text(200),
    "agent": text(100),
    "schema_version": whole(1, schema.MAX_VERSION),
    "model_requested": text(100, _CLEAR),
    "model_returned": text(100, _CLEAR),
    "temperature": maybe(a_number),
    "top_p": maybe(a_number),
    "seed": maybe(whole(-(2**63), 2**63 - 1)),
    "fingerprint": text(100, _CLEAR),
    "tokens_in": _COUNT,
    "tokens_out": _COUNT,
    "tokens_cached": _COUNT,
    "cost": maybe(money),
    "latency_ms": _COUNT,
    "error_class": text(60, _CODE),
    "context": anything,
    "ops": anything,
    "calls": items(1_000, an_object(CALL)),
}
_BRANCH: dict[str, Check] = {
    "name": text(200),
    "parent": maybe(whole(0, MOST_BRANCHES)),
    "fork_step": whole(-1, MOST_STEPS),
    "steps": items(MOST_STEPS),
}
