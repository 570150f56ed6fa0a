"""Threads long enough to be packed, and ways to look at them."""

from __future__ import annotations

from checkpoints.access import Reason
from checkpoints.log.append import NewStep, commit, writer
from checkpoints.models import Branch, Checkpoint, CheckpointDelta, Segment
from checkpoints.pure import ops
from checkpoints.pure.ops import Op


def message(number: int) -> NewStep:
    said = {"id": f"m{number}", "role": "assistant", "content": f"step {number}"}
    return NewStep("model", [ops.append("/messages", said)], f"said {number}")


def grow(branch: Branch, steps: int) -> None:
    """Append this many steps, each a message, and bring the row up to date."""
    at = writer(branch)
    for _ in range(steps):
        at = commit(at, message(at.step + 1))
    branch.refresh_from_db()


def append(branch: Branch, changes: list[Op]) -> None:
    commit(writer(branch), NewStep("tool", changes, ""))
    branch.refresh_from_db()


def step_of(branch: Branch, step: int) -> Checkpoint:
    """A step of the branch's own."""
    return Checkpoint.objects.unscoped(Reason.TEST).get(branch=branch, step=step)


def segments(branch: Branch) -> list[tuple[int, int]]:
    return [
        (segment.first_step, segment.last_step)
        for segment in Segment.objects.unscoped(Reason.TEST)
        .filter(branch=branch)
        .order_by("first_step")
    ]


def deltas(branch: Branch) -> list[int]:
    return list(
        CheckpointDelta.objects.unscoped(Reason.TEST)
        .filter(branch=branch)
        .order_by("step")
        .values_list("step", flat=True)
    )
