"""A step, a branch or a whole thread becomes a bundle (docs/bundles.md).

Everything is opened through the gate and shown to be what was written, as for a page.
Large values stand in the file in full, secrets and chosen paths masked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal
from uuid import UUID

from agents.debug.bundles.calls import agents, calls_of, people
from agents.errors import TooLarge
from agents.pure.bundles import file
from agents.pure.bundles.mask import MASKED, MOST_REMADE, Masks, remade
from agents.pure.bundles.shape import IMPORTED, MOST_BRANCHES, MOST_STEPS
from agents.tools.secrets import capture
from checkpoints import audit, clock, gate
from checkpoints.access import UserPrincipal
from checkpoints.blobs import Contents
from checkpoints.errors import NotStorable
from checkpoints.gate import Pass
from checkpoints.log import hydrate
from checkpoints.log.hydrate import StepRecord
from checkpoints.models import Branch, Thread, Workspace
from checkpoints.pure import ops as operations
from checkpoints.pure import refs
from checkpoints.pure.codec import State
from checkpoints.pure.ops import fold
from checkpoints.pure.refs import Large, Ref

What = Literal["step", "branch", "thread"]

_COPIED = (
    *("kind", "status", "label", "schema_version", "model_requested", "model_returned"),
    *("temperature", "top_p", "seed", "fingerprint", "tokens_in", "tokens_out"),
    *("tokens_cached", "latency_ms", "error_class"),
)


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
        self._contents = Contents(seen, thread.pk)
        self._left = file.MOST_BYTES
        self._known: dict[UUID, Large | None] = {}

    def content(self, parts: Sequence[Part]) -> dict[str, Any]:
        """Raises TooLarge, and what reading a blob raises."""
        records = [record for part in parts for record in part.records]
        self._people = people(record.actor_id for record in records)
        self._agents = agents(record.agent_version for record in records)
        self._calls = calls_of(
            self._thread, self._seen, {record.id for record in records}
        )
        whole = [list(self._restored(part.records)) for part in parts]
        told = None if self._masks.has_paths else self._in_place(parts, whole)
        return {
            "title": self._masks.value(self._seen.open(self._thread, "title")),
            "branches": told or self._anew(parts, whole),
        }

    def _restored(self, records: Iterable[StepRecord]) -> Iterator[list[Any]]:
        """Each step's operations, with what is kept as blobs."""
        for record in records:
            ops = refs.restore_ops(record.ops, self._load)
            try:
                self._left -= file.room([ops, record.context])
            except NotStorable:
                self._left = -1
            if self._left < 0:
                raise file.too_large(f"What there is up to step {record.step}")
            yield ops

    def _load(self, ref: Ref) -> Large | None:
        """What a reference stands for, while there is room for it."""
        id = refs.ref_id(ref)
        if id not in self._known:
            row = self._contents.row(ref)
            if row is not None and row.size > self._left:
                raise file.too_large("A value that is kept as a blob")
            self._known[id] = None if row is None else self._contents.load(ref)
        return self._known[id]

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
            "name": self._masks.value(self._seen.open(part.branch, "name")),
            "parent": part.parent,
            "fork_step": part.fork_step,
            "steps": steps,
        }

    def _step(self, record: StepRecord, ops: list[Any], label: str) -> dict[str, Any]:
        context = dict(record.context or {})
        before = context.pop(IMPORTED, {})  # what the bundle said that brought it here
        return {
            **{name: getattr(record, name) for name in _COPIED},
            "step": record.step,
            "name": before.get("name", record.name),
            "label": label,
            "at": before.get("at", record.created_at.isoformat()),
            "by": before.get("by", self._people.get(record.actor_id or 0, "")),
            "agent": before.get("agent", self._agents.get(record.agent_version, "")),
            "cost": None if record.cost is None else format(record.cost, "f"),
            "context": file.folded(self._masks.value(context or None)),
            "ops": file.folded(ops),
            "calls": before.get("calls", self._said(record)),
        }

    def _said(self, record: StepRecord) -> list[dict[str, Any]]:
        calls = self._masks.value(self._calls.get(record.id, []))
        if self._masks.paths:
            return [{**call, "title": MASKED} for call in calls]
        return list(calls)


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
