"""The invariants of the protocol, asked of the rows, the ledger and the journal.

Each finding is a sentence; none is what a suite wants. The ledger is outside: it has
received what it has received, whatever our rows say.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

from django.db.models import Count

from agents.models import Approval, Decision, Run, ToolCall
from checkpoints.ids import short
from checkpoints.log.verify import verify
from checkpoints.models import Branch, Checkpoint, ThreadInput
from tests.faults import journal

# Kinds of effects whose tools must not be called twice with one key (desk: `send`,
# `deliver`).
ONCE = {"emails", "deliveries"}
# The desk's tools whose effects the ledger receives, of those that a storm calls.
EXTERNAL = {"book", "send", "deliver", "hold"}


class Memory:
    """What was seen on the way: it may grow, and nothing of it may change."""

    def __init__(self) -> None:
        self.steps: dict[UUID, tuple[UUID, int, bytes]] = {}
        self.over: dict[UUID, tuple[str, Any]] = {}
        self.inputs: set[UUID] = set()  # messages that were accepted
        self.decided: set[UUID] = set()  # decisions that were accepted
        self.changed: list[str] = []

    def look(self) -> None:
        self.changed += self._changes()

    def _changes(self) -> Iterator[str]:
        now = {
            pk: (branch, step, bytes(mac))
            for pk, branch, step, mac in Checkpoint.objects.values_list(
                "pk", "branch_id", "step", "state_mac"
            )
        }
        for pk, was in self.steps.items():
            if now.get(pk) != was:
                yield f"step {was[1]} of branch {short(was[0])} is not as it was"
        self.steps = now
        over = {
            pk: (status, at)
            for pk, status, at in Run.objects.exclude(status__in=Run.LIVE).values_list(
                "pk", "status", "finished_at"
            )
        }
        for run, ended in self.over.items():
            if over.get(run) != ended:
                yield f"run {short(run)} was {ended[0]} and is {over.get(run)}"
        self.over = over


def findings(*, ledger: list[dict[str, Any]], log: Path, memory: Memory) -> list[str]:
    """Everything that is wrong, once nothing moves any more."""
    memory.look()
    taken, stored = journal.read(log)
    assert stored, "the journal says nothing"  # what nobody told cannot be missed
    return [
        *memory.changed,
        *_lines(),
        *_acknowledged(stored),
        *_fences(taken, stored),
        *_effects(ledger),
        *_people(memory),
        *_failures(),
        *_forgotten(),
        *(str(found) for found in verify()),
    ]


def _lines() -> Iterator[str]:
    """Steps are contiguous and unique on each branch, up to its head."""
    steps: dict[UUID, list[tuple[int, UUID, UUID | None]]] = defaultdict(list)
    rows = Checkpoint.objects.order_by("step")
    for on, step, pk, parent in rows.values_list(
        "branch_id", "step", "pk", "parent_id"
    ):
        steps[on].append((step, pk, parent))
    for branch in Branch.objects.all():
        line = steps[branch.pk]
        numbers = [step for step, _, _ in line]
        if numbers != list(range(branch.fork_step + 1, branch.head_step + 1)):
            yield f"{branch} has the steps {numbers}, and its head is {branch.head_step}"
        if any(parent != before for (_, before, _), (_, _, parent) in pairwise(line)):
            yield f"{branch}: a step does not follow from the one before it"
        if line and line[-1][1] != branch.head_id:
            yield f"{branch}: its head is not its last step"


def _acknowledged(stored: Iterable[journal.Told]) -> Iterator[str]:
    """A commit that returned is there."""
    there = {
        pk: (branch, step)
        for pk, branch, step in Checkpoint.objects.values_list(
            "pk", "branch_id", "step"
        )
    }
    for told in stored:
        if there.get(told.checkpoint) != (told.branch, told.step):
            yield f"step {told.step} of branch {short(told.branch)} was lost"


def _fences(taken: list[journal.Told], stored: list[journal.Told]) -> Iterator[str]:
    """Once a branch was taken at a step, whoever held it before appends nothing."""
    fences: dict[UUID, dict[int, int]] = defaultdict(dict)  # of steps, by branch
    for told in stored:
        fences[told.branch][told.step] = told.fence
    for took in taken:
        for step, fence in fences[took.branch].items():
            if step > took.step and fence < took.fence:
                yield (
                    f"branch {short(took.branch)}: step {step} was stored under fence "
                    f"{fence}, after fence {took.fence} had begun at step {took.step}"
                )


def _effects(ledger: list[dict[str, Any]]) -> Iterator[str]:
    """Nothing took place twice, or unannounced; nothing is recorded that did not."""
    calls = {str(call.pk): call for call in ToolCall.objects.all()}
    received = Counter(effect["key"] for effect in ledger)
    done: Counter[tuple[UUID, str, str]] = Counter()
    for effect in ledger:
        call = calls.get(effect["key"])
        if call is None:
            yield f"an effect has the key {effect['key']}, which no call has"
            continue
        if call.status in ("proposed", "waiting", "approved", "rejected"):
            yield f"{call} is {call.status}, and took place"
        if effect["applied"]:
            done[call.branch_id, effect["kind"], str(effect["body"])] += 1
        if effect["kind"] in ONCE and received[effect["key"]] > 1:
            yield f"{call} must not be made twice, and was made {received[effect['key']]} times"
    for (branch, kind, body), times in done.items():
        if times > 1:
            yield f"branch {short(branch)}: {kind} {body} took place {times} times"
    for key, call in calls.items():
        external = call.tool in EXTERNAL and call.recorded_from is None
        if external and call.status == "succeeded" and key not in received:
            yield f"{call} succeeded, and did not take place"


def _people(memory: Memory) -> Iterator[str]:
    """What people were told was accepted counts, once."""
    decided = Decision.objects.values("approval", "revision").annotate(n=Count("pk"))
    for row in decided.filter(n__gt=1):
        yield f"approval {row['approval']} has {row['n']} decisions at one revision"
    known = set(Decision.objects.values_list("pk", flat=True))
    if lost := memory.decided - known:
        yield f"{len(lost)} decisions were lost"
    inputs = dict(ThreadInput.objects.values_list("pk", "checkpoint_id"))
    if missing := memory.inputs - set(inputs):
        yield f"{len(missing)} messages were lost"
    taken_in = Counter(filter(None, inputs.values()))
    if any(n > 1 for n in taken_in.values()):
        yield "a step holds two messages"
    unread = ThreadInput.objects.filter(checkpoint=None).select_related("branch")
    for said in unread:
        last = Run.objects.filter(branch=said.branch).latest("created_at")
        if last.status not in ("cancelled", "failed"):
            yield f"a message to {said.branch} was not taken in by a {last.status} run"


def _failures() -> Iterator[str]:
    """Nothing that a storm does is a reason to fail. Another try may well get further: who
    looks at what ended well alone does not see what stopped the first."""
    for run in Run.objects.filter(status="failed"):
        yield f"{run} failed: {run.error_class}"


def _forgotten() -> Iterator[str]:
    """No run is ready, held, or waits for nothing, when all is quiet."""
    for run in Run.objects.filter(status__in=Run.LIVE):
        waits = Approval.objects.pending().filter(run=run).exists()
        if run.status != "waiting" or not waits:
            yield f"{run} is {run.status}, and nobody is at it"
    for branch in Branch.objects.exclude(holder=None):
        yield f"{branch} is held, and nobody is at it"
