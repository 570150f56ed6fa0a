"""Steps that are kept in memory, and stored as one checkpoint when the run is let go.

For agents that are declared `checkpoint="exit"`: what they do is short, and harmless to do
again. Until then a crash loses all of it, and the run starts over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import TypeVar

from agents.pure.step import Step
from agents.runs.beside import CallAs
from agents.runs.claim import Claim
from agents.runs.progress import Counted, Progress
from agents.runs.stored import calls_in, without_secrets
from checkpoints.log.append import Writer
from checkpoints.models import Checkpoint
from checkpoints.pure.ops import fold

N = TypeVar("N", int, Decimal)


class AtExit(Progress):
    """Moves on without storing; what it kept goes with the next step that is stored."""

    def __init__(self, held: Claim) -> None:
        super().__init__(held)
        self._kept: list[Step] = []
        self._last: Step  # that is being stored, by itself
        self._is_counted = False

    def store(
        self,
        step: Step,
        *,
        actor_id: int | None = None,
        schema_version: int | None = None,
        call: CallAs | None = None,
        also: Callable[[], object] | None = None,
    ) -> None:
        """Keep the step; but what people said, and migrations, are stored at once."""
        if (actor_id, schema_version, call, also) == (None,) * 4:
            if step.kind != Checkpoint.Kind.PROGRESS:
                self._keep(without_secrets(step))
            return
        self.flush()
        super().store(
            step, actor_id=actor_id, schema_version=schema_version, call=call, also=also
        )

    def send(self, step: Step) -> None:
        self.store(step)

    @property
    def calls(self) -> int:
        """How many calls the steps that are kept propose."""
        return sum(map(calls_in, self._kept))

    def flush(self) -> None:
        if self._kept:
            super().store(self._kept[-1])
        super().flush()

    def commit(
        self,
        step: Step,
        *,
        actor_id: int | None = None,
        schema_version: int | None = None,
        call: CallAs | None = None,
    ) -> Writer:
        if not self._kept:
            return super().commit(
                step, actor_id=actor_id, schema_version=schema_version, call=call
            )
        self._set(self._base)  # what it is stored on top of
        kept = [each for each in self._kept if each.id != step.id]
        self._is_counted = len(kept) < len(self._kept)
        self._last = step
        return super().commit(_folded([*kept, without_secrets(step)]))

    def _keep(self, step: Step) -> None:
        if not self._kept:
            self._base = self.state
        self.steps, self.used, self._since = super()._count(step, time.monotonic())
        self._kept.append(step)
        self._set(fold(self.state, step.ops))
        # Nothing was asked of the database: the right to go on is, before the next.
        self.told = self.told._replace(granted=False)

    def _count(self, step: Step, now: float) -> Counted:
        if not self._kept:
            return super()._count(step, now)
        worked = timedelta(seconds=now - self._since)
        if self._is_counted:  # with the rest, when it was kept
            used = replace(self.used, worked=self.used.worked + worked)
            return self.steps, used, now
        return self.steps + 1, self.used.and_(self._last, worked), now

    def _move(self) -> None:
        super()._move()
        self._kept.clear()


def _folded(steps: Sequence[Step]) -> Step:
    """The last step with all that the others did, said, used and cost."""
    *others, last = steps
    metas = [step.meta for step in steps]
    return replace(
        last,
        ops=tuple(op for step in steps for op in step.ops),
        call=None,  # its result is among the operations; it has no row
        meta=replace(
            last.meta,
            tokens_in=_sum(meta.tokens_in for meta in metas),
            tokens_out=_sum(meta.tokens_out for meta in metas),
            tokens_cached=_sum(meta.tokens_cached for meta in metas),
            latency_ms=_sum(meta.latency_ms for meta in metas),
            cost=_sum(meta.cost for meta in metas),
        ),
        context={
            **(last.context or {}),
            "folded": [
                {"kind": step.kind, "label": step.label, "status": step.status}
                for step in others
            ],
        },
    )


def _sum(values: Iterable[N | None]) -> N | None:
    """Of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None
