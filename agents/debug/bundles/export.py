"""A step, a branch or a whole thread becomes a bundle (docs/bundles.md).

Everything is opened through the gate and shown to be what was written, as for a page.
Large values stand in the file in full, secrets and chosen paths masked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from agents.debug.bundles.calls import agents, calls_of, people
from agents.debug.bundles.restoring import Restoring
from agents.errors import TooLarge
from agents.pure.bundles import file
from agents.pure.bundles.mask import MASKED, MOST_REMADE, Masks, remade
from agents.pure.bundles.shape import IMPORTED, MOST_BRANCHES, MOST_STEPS
from agents.tools.secrets import capture
from checkpoints import audit, clock, gate
from checkpoints.access import UserPrincipal
from checkpoints.blobs import Contents
from checkpoints.gate import Pass
from checkpoints.log import hydrate
from checkpoints.log.hydrate import StepRecord
from checkpoints.models import Branch, Thread, Workspace
from checkpoints.pure import ops as operations
from checkpoints.pure.codec import State
from checkpoints.pure.ops import fold

What = Literal["step", "branch", "thread"]

_COPIED = (
    *("kind", "status", "label", "schema_version", "temperature", "top_p", "seed"),
    *("tokens_in", "tokens_out", "tokens_cached", "latency_ms", "error_class"),
)
_MODEL = ("model_requested", "model_returned", "fingerprint")  # what others call it


@dataclass(frozen=True)
class Part:
    """A branch as it stands in the file, and the steps that are its own there."""

    branch: Branch
    parent: int | None
    fork_step: int
    records: Sequence[StepRecord]


def export(
    thread: Thread,
    *,
    what: What,
    branch: Branch,
    step: int | None,
    by: UserPrincipal,
    masked: Sequence[str] = (),
    via: str = "web",
) -> str:
    """The bundle's text. `step` is which one, where that is `what`; `masked` are paths.

    That it is exported is recorded before anything is opened. Raises NotPermitted,
    TooLarge, BadOperation for a path that is none, and what `hydrate.read` and reading a
    blob raise.
    """
    masks = Masks(capture, masked)
    branches = _branches(thread, what, branch)
    last = branch.head_step if step is None or what != "step" else step
    _check_steps(thread, what, branches, last, masks)
    seen = gate.admit(by, purpose="export", threads=[thread], steps=f"0-{last}")
    audit.record(
        by,
        "export",
        obj=thread,
        purpose="bundle",
        via=via,
        holds=what,
        branch=branch.pk,
        step=step if what == "step" else None,
    )
    parts = _parts(seen, branches, what, last)
    content = _Writer(thread, seen, masks).content(parts)
    manifest = {
        "holds": what,
        "step": step if what == "step" else None,
        "made_at": clock.now().isoformat(),
        "made_by": by.name,
        "workspace": Workspace.objects.get(pk=thread.workspace_id).name,
        **_about(content),
        "masked": masks.said(),
    }
    return file.write(file.BUNDLE, manifest, content, lines=False)


def _branches(thread: Thread, what: What, branch: Branch) -> list[Branch]:
    """Those that are in the file, each after its parent."""
    if what != "thread":
        return [branch]
    return list(thread.branches.order_by("fork_step", "created_at", "pk"))


def _check_steps(
    thread: Thread, what: What, branches: list[Branch], last: int, masks: Masks
) -> None:
    """Before anything is opened. Raises TooLarge."""
    steps = thread.checkpoints.count() if what == "thread" else last + 1
    if what == "step":
        return
    if steps > MOST_STEPS or len(branches) > MOST_BRANCHES:
        raise file.too_large(f"The {what}, with {steps:,} steps,")
    if masks.has_paths:
        _check_remade(steps)


def _check_remade(steps: int) -> None:
    if steps > MOST_REMADE:
        raise TooLarge(
            f"Paths can be masked in {MOST_REMADE:,} steps at most, and these are"
            f" {steps:,}. Export a branch, or one step."
        )


def _parts(seen: Pass, branches: list[Branch], what: What, last: int) -> list[Part]:
    if what != "thread":
        history = hydrate.read(seen, branches[0], to_step=last)
        records = history.records
        if what == "step":  # by itself it is the first: its state, all at once
            begun = [operations.reset(history.state_at(last))]
            records = [replace(history.record(last), step=0, ops=begun)]
        return [Part(branches[0], None, -1, records)]
    places = {branch.pk: number for number, branch in enumerate(branches)}
    parts = []
    for branch in branches:
        first = branch.fork_step + 1
        own: Sequence[StepRecord] = ()
        if branch.head_step >= first:
            own = hydrate.records(seen, branch, first=first, last=branch.head_step)
        parent = None if branch.parent_id is None else places[branch.parent_id]
        parts.append(Part(branch, parent, branch.fork_step, own))
    return parts


class _Writer:
    """One export under way."""

    def __init__(self, thread: Thread, seen: Pass, masks: Masks) -> None:
        self._thread = thread
        self._seen = seen
        self._masks = masks

    def content(self, parts: Sequence[Part]) -> dict[str, Any]:
        """Raises TooLarge, and what reading a blob raises."""
        records = [record for part in parts for record in part.records]
        self._people = people(record.actor_id for record in records)
        self._agents = agents(record.agent_version for record in records)
        self._calls = calls_of(
            self._thread, self._seen, {record.id for record in records}
        )
        restoring = Restoring(Contents(self._seen, self._thread.pk))
        whole = [list(restoring.steps(part.records)) for part in parts]
        told = None if self._masks.has_paths else self._in_place(parts, whole)
        told = told or self._anew(parts, whole)
        # After the states, from which it is known what a text must not say.
        title = self._text(self._seen.open(self._thread, "title"), most=500)
        return {"title": title, "branches": told}

    def _in_place(
        self, parts: Sequence[Part], whole: list[list[Any]]
    ) -> list[dict[str, Any]] | None:
        """As the steps are, secrets replaced where they stand. None: that cannot be."""
        branches = []
        for part, restored in zip(parts, whole, strict=True):
            steps = []
            for record, ops in zip(part.records, restored, strict=True):
                kept = self._masks.ops(ops)
                if kept is None:
                    _check_remade(sum(map(len, whole)))
                    return None
                steps.append(self._step(record, kept, self._masks.value(record.label)))
            branches.append(self._branch(part, steps))
        return branches

    def _anew(
        self, parts: Sequence[Part], whole: list[list[Any]]
    ) -> list[dict[str, Any]]:
        """With operations made from the states, masked: `mask.py` says when."""
        lines: list[list[State]] = []
        for part, restored in zip(parts, whole, strict=True):
            line = (
                [] if part.parent is None else lines[part.parent][: part.fork_step + 1]
            )
            for ops in restored:
                line.append(fold(line[-1] if line else {}, ops))
            lines.append(line)
            self._masks.learn(line)
        masked = [[self._masks.state(state) for state in line] for line in lines]
        branches = []
        for part, line, restored in zip(parts, masked, whole, strict=True):
            steps = []
            first = len(line) - len(restored)
            for at, record in enumerate(part.records, first):
                ops = remade(line[at - 1] if at else None, line[at])
                # A label is the first words of what the step holds: whole or cut.
                label = MASKED if self._masks.paths else self._masks.value(record.label)
                steps.append(self._step(record, ops, label))
            branches.append(self._branch(part, steps))
        return branches

    def _branch(self, part: Part, steps: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "name": self._text(self._seen.open(part.branch, "name"), most=200),
            "parent": part.parent,
            "fork_step": part.fork_step,
            "steps": steps,
        }

    def _step(self, record: StepRecord, ops: list[Any], label: str) -> dict[str, Any]:
        context = dict(record.context or {})
        before = context.pop(IMPORTED, {})  # what the bundle said that brought it here
        by = self._people.get(record.actor_id or 0, "")
        agent = self._agents.get(record.agent_version, "")
        return {
            **{name: getattr(record, name) for name in _COPIED},
            **{name: self._text(getattr(record, name), most=100) for name in _MODEL},
            "step": record.step,
            "name": self._text(before.get("name", record.name), most=100),
            "label": label,
            "at": before.get("at", record.created_at.isoformat()),
            "by": self._text(before.get("by", by), most=200),
            "agent": self._text(before.get("agent", agent), most=100),
            "cost": None if record.cost is None else format(record.cost, "f"),
            "context": file.folded(self._masks.value(context or None)),
            "ops": file.folded(ops),
            "calls": [
                self._call(call)
                for call in before.get("calls", self._calls.get(record.id, ()))
            ],
        }

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """Its texts alone are masked: a masked "read" is no effect any more."""
        title, approval = self._masks.value(call["title"]), call["approval"]
        return {
            **call,
            "tool": self._text(call["tool"], most=100),
            "title": MASKED if self._masks.paths else title,
            "approval": approval and self._approval(approval),
        }

    def _approval(self, approval: Mapping[str, Any]) -> dict[str, Any]:
        return {
            **approval,
            "rule": self._text(approval["rule"], most=200),
            "decided_by": self._text(approval["decided_by"], most=200),
            "decisions": [
                {**decision, "by": self._text(decision["by"], most=200)}
                for decision in approval["decisions"]
            ],
        }

    def _text(self, text: str, *, most: int) -> str:
        """Masked; whole where that makes it longer than a file has it (`shape`)."""
        kept: str = self._masks.value(text)
        return kept if len(kept) <= most else MASKED


def _about(content: dict[str, Any]) -> dict[str, Any]:
    """What the manifest says of the content."""
    steps = [step for branch in content["branches"] for step in branch["steps"]]
    agents = [step["agent"] for step in steps if step["agent"]]
    return {
        "agent": agents[-1] if agents else "",
        "schema_version": max(step["schema_version"] for step in steps),
        "counts": {
            "branches": len(content["branches"]),
            "steps": len(steps),
            "calls": sum(len(step["calls"]) for step in steps),
        },
    }
