"""How far a claim has got: the branch's head, its state, and the steps of the run.

The state is kept in memory between steps by folding what was committed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from datetime import timedelta
from uuid import UUID

from django.db import transaction

from agents.models import ToolCall
from agents.pure import engine
from agents.pure.context import calls_of
from agents.pure.engine import Call, ReplyMeta, Step, unanswered
from agents.runs.beside import UNTOLD, Told, beside, told
from agents.runs.claim import Claim
from agents.runs.doubt import see_through
from agents.runs.ledger import Ledger
from agents.runs.used import Used
from agents.tools.secrets import capture
from checkpoints.about import now_at
from checkpoints.failpoints import failpoint
from checkpoints.log.append import (
    Beside,
    NewStep,
    StepMeta,
    Writer,
    commit,
    committed,
    writer,
)
from checkpoints.models import Checkpoint
from checkpoints.pure.codec import State
from checkpoints.pure.ops import Op, fold

logger = logging.getLogger(__name__)


class Progress:
    """Writes steps of one claim, and knows what is committed."""

    def __init__(self, held: Claim) -> None:
        self.writer: Writer = writer(held.branch, lease=held.lease)
        self.steps = held.run.steps
        self.used = Used.by(held.run)
        self.state: State = {}
        self.was_decided = False  # since this claim began: people's decisions came
        self._claim = held
        self._since = time.monotonic()  # of what is not yet counted as work
        # Until a step has told: messages are looked for.
        self.told = Told(cancel_requested=False, messages=True)
        self._sent = self.writer  # as it is once the last step that was sent is there
        self._stored: Sequence[Op] = ()  # that step's operations, as they are stored

    def begin(self, state: State, *, known: set[UUID], ledger: Ledger) -> None:
        """From the branch as it was opened; `known` are the checkpoints behind it
        that another branch wrote."""
        self.state = state
        self.keys = engine.keys_on(self._claim.branch.pk, known)
        self._ledger = ledger

    @property
    def open_calls(self) -> list[Call]:
        return unanswered(self.state, self.keys)

    def store(
        self,
        step: Step,
        *,
        actor_id: int | None = None,
        schema_version: int | None = None,
        also: Callable[[], object] | None = None,
    ) -> None:
        """Commit the step, with the rows that `also` writes, and move to it.

        Raises as `commit`, and what PostgreSQL's absence raises, after a while.
        """

        def act() -> None:
            if also is None:  # one statement
                self.commit(step, actor_id=actor_id, schema_version=schema_version)
                return
            with transaction.atomic():
                self.commit(step, actor_id=actor_id, schema_version=schema_version)
                also()

        self.see_through(step, act)

    def see_through(self, step: Step | None, act: Callable[[], object]) -> None:
        """Do `act`, a transaction that commits the step if there is one, and move to it.

        A commit whose answer was lost is looked for, and sent again where it is not
        there (doubt.py).
        """
        if step is None:
            act()
            return
        before = self.writer

        def happened() -> bool:
            if committed(before, step.id):
                self._sent = self._found(before, step)
                return True
            self._ledger.take_back(step.id)
            return False

        see_through(act, happened=happened, patience=self._claim.lease)
        self._move()

    def commit(
        self,
        step: Step,
        *,
        actor_id: int | None = None,
        schema_version: int | None = None,
    ) -> Writer:
        """Write the step and what belongs to it, in the open transaction or one of its own.

        Raises Fenced, StoreUnavailable and KeysUnavailable.
        """
        step = _without_secrets(step)
        failpoint("before commit")
        new: list[ToolCall] = []
        now = time.monotonic()
        used = self.used.and_(step, timedelta(seconds=now - self._since))
        self._counted = used, now

        def with_it(stored: Sequence[Op]) -> Beside:
            self._stored = stored
            if step.call is not None:
                result = stored[-1][2]["content"]
                settled = self._ledger.settle(step.call, step, result)
                return beside(used, settled=settled)
            calls = unanswered(fold(self.state, stored), self.keys)
            new[:] = self._ledger.rows(calls, reply=step.id)
            return beside(used, proposed=new[0] if len(new) == 1 else None)

        checkpoint = self._checkpoint(step, actor_id, schema_version)
        # Rows of several calls take a statement of their own, which goes with the step.
        with transaction.atomic() if _several(step) else nullcontext():
            after = commit(self.writer, checkpoint, beside=with_it)
            if len(new) > 1:
                self._ledger.store(new)
            else:
                self._ledger.stored(new)
        self._sent = after
        return after

    def _found(self, before: Writer, step: Step) -> Writer:
        """Where the step leads that got through although its answer was lost."""
        there = Checkpoint.objects.for_run(self._claim.principal).get(pk=step.id)
        return replace(
            before,
            head=step.id,
            step=before.step + 1,
            mac=bytes(there.state_mac),
            schema_version=there.schema_version,
            stored=self._stored,
            told=UNTOLD,
        )

    def tell(self, event: str) -> None:
        """For whoever turns these lines on: the run, and its branch as it stands."""
        at = self.writer
        ids = {
            "run": self._claim.run.pk,
            "branch": at.branch_id,
            "fence": at.fence,
            "step": at.step,
            "checkpoint": at.head,
        }
        logger.debug(event, extra={"ids": ids})

    def _move(self) -> None:
        """What was committed is what is known now."""
        self.writer = self._sent
        self.state = fold(self.state, self.writer.stored)
        self.told = told(self.writer.told)
        self.steps += 1
        now_at(step=self.writer.step + 1)  # for the log's lines
        self.used, self._since = self._counted
        self.tell("stored a step")

    def _checkpoint(
        self, step: Step, actor_id: int | None, schema_version: int | None
    ) -> NewStep:
        meta = step.meta
        return NewStep(
            id=step.id,
            kind=step.kind,
            ops=step.ops,
            label=step.label,
            context=step.context,
            schema_version=schema_version,
            meta=StepMeta(
                status=step.status,
                name=step.name,
                run=self._claim.run.pk,
                actor_id=actor_id,
                agent_version=self._claim.run.agent_version_id,
                error_class=step.error_class,
                **{column: getattr(meta, column) for column in _REPLY_COLUMNS},
            ),
        )


def _several(step: Step) -> bool:
    """Whether it proposes more calls than go into the step's own statement."""
    last = step.ops[-1] if step.kind == Checkpoint.Kind.MODEL and step.ops else None
    return last is not None and len(calls_of(last[2])) > 1


def _without_secrets(step: Step) -> Step:
    """The step as it may be stored; its context names what was taken out."""
    (ops, label, context), found = capture([list(step.ops), step.label, step.context])
    if not found:
        return step
    if label.endswith("…"):  # it was cut, maybe within a secret
        label = f"{label.rpartition(' ')[0]}…"
    return replace(
        step,
        ops=tuple(ops),
        label=label,
        context={**(context or {}), "secrets": found},
    )


_REPLY_COLUMNS = tuple(column.name for column in fields(ReplyMeta))
