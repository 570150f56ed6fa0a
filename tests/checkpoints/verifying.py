"""Threads to verify, and what is found where a row of them was changed."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from checkpoints.access import Reason
from checkpoints.log.append import NewStep, StepMeta, commit, writer
from checkpoints.log.verify import Finding, Tally, verify
from checkpoints.models import Branch, Checkpoint
from checkpoints.pure import ops
from tests.tampering import tamper

Change = tuple[
    str, tuple[str, str, str]
]  # SQL; the table, row and words of what it gives


def with_steps(branch: Branch, texts: str) -> Branch:
    at = writer(branch)
    for text in texts:
        step = NewStep("model", [ops.put("/facts", text, 1)], text, StepMeta(seed=7))
        at = commit(at, step)
    branch.refresh_from_db()
    return branch


def step_of(branch: Branch, step: int) -> Checkpoint:
    return Checkpoint.objects.unscoped(Reason.TEST).get(branch=branch, step=step)


def side_of(branch: Branch) -> Branch:
    return Branch.objects.unscoped(Reason.TEST).get(parent=branch)


def only(found: list[Finding], thread: UUID | None) -> Finding:
    (one,) = found
    assert one.thread_id == thread
    return one


def must_name(change: Change, ids: Mapping[str, UUID], thread: UUID) -> None:
    """Of two threads, one of them changed so, this row of it is named, and nothing else."""
    sql, (table, row, said) = change
    assert tamper(sql, ids)
    tally = Tally()
    found = only(list(verify(tally=tally)), thread)
    assert (found.table, found.row) == (table, ids[row])
    assert said in found.problem
    assert (tally.threads, tally.bad) == (2, 1)
