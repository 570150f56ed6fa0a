"""How far a claim has got: the branch's head, its state, and the steps of the run.

The state is kept in memory between steps by folding what was committed.
"""

from __future__ import annotations

from dataclasses import fields, replace
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import F, Value
from django.db.models.functions import Coalesce

from agents.models import Run
from agents.pure import engine
from agents.pure.engine import Call, ReplyMeta, Step, unanswered
from agents.runs.claim import Claim
from agents.runs.ledger import Ledger
from checkpoints.failpoints import failpoint
from checkpoints.log.append import NewStep, StepMeta, Writer, commit, writer
from checkpoints.pure.codec import State
from checkpoints.pure.ops import fold


class Progress:
    """Writes steps of one claim, and knows what is committed."""

    def __init__(self, held: Claim) -> None:
        self.writer: Writer = writer(held.branch, lease=held.lease)
        self.steps = held.run.steps
        self.state: State = {}
        self._claim = held

    def begin(self, state: State, *, known: set[UUID], ledger: Ledger) -> None:
        """From the branch as it was opened; `known` are the checkpoints behind it
        that another branch wrote."""
        self.state = state
        self.keys = engine.keys_on(self._claim.branch.pk, known)
        self._ledger = ledger

    @property
    def open_calls(self) -> list[Call]:
        return unanswered(self.state, self.keys)

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
        held, meta = self._claim, step.meta
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
        return after

    def move(self, after: Writer) -> None:
        """What was committed is what is known now."""
        self.writer = after
        self.state = fold(self.state, after.stored)
        self.steps += 1

    def _count(self, step: Step) -> None:
        """What the run has used, and that its attempts count anew."""
        meta = step.meta
        tokens = (meta.tokens_in or 0) + (meta.tokens_out or 0)
        values: dict[str, Any] = {
            "steps": F("steps") + 1,
            "attempts": 0,
            "tokens": F("tokens") + tokens,
        }
        if meta.cost is not None:
            values["cost"] = Coalesce(F("cost"), Value(Decimal(0))) + meta.cost
        Run.objects.for_run(self._claim.principal).filter(pk=self._claim.run.pk).update(
            **values
        )


_REPLY_COLUMNS = tuple(column.name for column in fields(ReplyMeta))
