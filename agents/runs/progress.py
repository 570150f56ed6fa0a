"""How far a claim has got: the branch's head, its state, and the steps of the run.

The state is kept in memory between steps by folding what was committed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from decimal import Decimal
from typing import Self
from uuid import UUID

from django.db import transaction

from agents.models import Run
from agents.pure import engine
from agents.pure.engine import Call, ReplyMeta, Step, unanswered
from agents.runs.claim import Claim
from agents.runs.doubt import see_through
from agents.runs.ledger import Ledger
from agents.tools.secrets import capture
from checkpoints.failpoints import failpoint
from checkpoints.log.append import (
    NewStep,
    StepMeta,
    Writer,
    commit,
    committed,
    writer,
)
from checkpoints.pure.codec import State
from checkpoints.pure.ops import fold

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Used:
    """What a run has used, up to its last committed step."""

    tokens: int
    cost: Decimal | None  # US dollars, of what has a known price; None: of nothing
    unpriced: int  # model calls whose price is not known
    worked: timedelta

    @classmethod
    def by(cls, run: Run) -> Self:
        return cls(run.tokens, run.cost, run.unpriced, run.worked)

    def and_(self, step: Step, worked: timedelta) -> Used:
        meta = step.meta
        cost = self.cost
        if meta.cost is not None:
            cost = (cost or Decimal(0)) + meta.cost
        return Used(
            tokens=self.tokens + (meta.tokens_in or 0) + (meta.tokens_out or 0),
            cost=cost,
            unpriced=self.unpriced + (step.kind == "model" and meta.cost is None),
            worked=self.worked + worked,
        )


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
        self._sent = self.writer  # as it is once the last step that was sent is there

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
        also: Callable[[], object] = lambda: None,
    ) -> None:
        """Commit the step, with the rows that `also` writes, and move to it.

        Raises as `commit`, and what PostgreSQL's absence raises, after a while.
        """

        def act() -> None:
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
        """Write the step and what belongs to it, in the open transaction.

        Raises Fenced, StoreUnavailable and KeysUnavailable.
        """
        held, step = self._claim, _without_secrets(step)
        meta = step.meta
        after = commit(
            self.writer,
            NewStep(
                id=step.id,
                kind=step.kind,
                ops=step.ops,
                label=step.label,
                context=step.context,
                schema_version=schema_version,
                meta=StepMeta(
                    status=step.status,
                    name=step.name,
                    run=held.run.pk,
                    actor_id=actor_id,
                    agent_version=held.run.agent_version_id,
                    error_class=step.error_class,
                    **{column: getattr(meta, column) for column in _REPLY_COLUMNS},
                ),
            ),
        )
        if step.call is not None:
            self._ledger.settle(step.call, replace(step, ops=tuple(after.stored)))
        else:
            self._ledger.propose(
                unanswered(fold(self.state, after.stored), self.keys), reply=step.id
            )
        self._count(step)
        failpoint("before commit")
        self._sent = after
        return after

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
        self.steps += 1
        self.used, self._since = self._counted
        self.tell("stored a step")

    def _count(self, step: Step) -> None:
        """What the run has used, and that its attempts count anew."""
        now = time.monotonic()
        used = self.used.and_(step, timedelta(seconds=now - self._since))
        self._counted = used, now
        # Whoever holds the branch is the only one who counts.
        Run.objects.for_run(self._claim.principal).filter(pk=self._claim.run.pk).update(
            steps=self.steps + 1, attempts=0, **vars(used)
        )


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
