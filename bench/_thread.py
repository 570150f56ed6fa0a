"""A thread that grows: each step a message, packed and vacuumed as it goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg

from checkpoints import gate
from checkpoints.access import Reason, SystemPrincipal
from checkpoints.gate import Pass
from checkpoints.log.append import NewStep, Writer, commit, writer
from checkpoints.log.pack import pack_branch
from checkpoints.log.threads import create_thread
from checkpoints.models import Branch, Workspace
from checkpoints.pure import ops
from checkpoints.pure.segment import SEGMENT_STEPS

STATE = {"_schema": 1, "messages": []}


@dataclass
class Turns:
    """What a step and an insert took, turn by turn, in seconds."""

    floor: list[float] = field(default_factory=list)
    step: list[float] = field(default_factory=list)


class GrowingThread:
    """One thread's main branch, and the texts that go into it."""

    def __init__(
        self,
        workspace: Workspace,
        texts: Iterator[str],
        owner: psycopg.Connection[Any],
    ) -> None:
        self.branch = new_branch(workspace)
        self.payload = 0  # bytes of text so far
        self._at = writer(self.branch)
        self._texts = texts
        self._owner = owner

    def grow(self, to: int, *, beside: Callable[[str], object] | None = None) -> Turns:
        """Take steps up to step `to`, in turns with an insert of the same text."""
        turns = Turns()
        while self._at.step < to:
            text = next(self._texts)
            if beside is not None:
                began = time.perf_counter()
                beside(text)
                turns.floor.append(time.perf_counter() - began)
            began = time.perf_counter()
            self._at = say(self._at, text)
            turns.step.append(time.perf_counter() - began)
            self.payload += len(text.encode())
            if self._at.step % SEGMENT_STEPS == SEGMENT_STEPS - 1:
                self._pack()
        return turns

    def reread(self) -> Branch:
        """The branch as it is now."""
        self.branch = (
            Branch.objects.unscoped(Reason.WORKER)
            .select_related("thread")
            .get(pk=self.branch.pk)
        )
        return self.branch

    def admit(self) -> Pass:
        """A pass to it, as the packing of a worker has. Its row is not measured."""
        principal = SystemPrincipal("bench", self.branch.workspace_id)
        return gate.admit(principal, purpose="bench", threads=[self.branch.thread])

    def _pack(self) -> None:
        """As the reaper does within a second, and autovacuum within minutes."""
        pack_branch(self.branch.pk)
        self._owner.execute("VACUUM checkpoints_checkpointdelta")


def new_branch(workspace: Workspace) -> Branch:
    """A thread's main branch, at step 0."""
    return create_thread(
        workspace=workspace, owner_id=None, title="Bench", state=STATE, label="start"
    )


def say(at: Writer, text: str) -> Writer:
    """One step: a message of this text."""
    message = {"id": f"m{at.step + 1}", "role": "assistant", "content": text}
    return commit(at, NewStep("model", [ops.append("/messages", message)], "said"))
