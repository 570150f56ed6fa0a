"""What a run has used, counted step by step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Self
from uuid import UUID

from agents.models import Run
from agents.pure.step import Step
from checkpoints.access import Reason

MOST = Decimal("999999.999999")  # US dollars; what the column holds


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
            cost = min((cost or Decimal(0)) + meta.cost, MOST)
        return Used(
            tokens=self.tokens + (meta.tokens_in or 0) + (meta.tokens_out or 0),
            cost=cost,
            unpriced=self.unpriced + (_is_reply(step) and meta.cost is None),
            worked=self.worked + worked,
        )

    def with_children(self, tokens: int, cost: Decimal | None) -> Used:
        """And what runs below it have used. What they could not price is their failure."""
        if cost is not None:
            cost = min((self.cost or Decimal(0)) + cost, MOST)
        return replace(self, tokens=self.tokens + tokens, cost=cost or self.cost)


def used_below(run_id: UUID) -> tuple[int, Decimal | None]:
    """Tokens and US dollars of the runs that a run had started, and those had, and so on.

    A query for each level, of which there are few (`SubAgents.MOST_DEEP`).
    """
    tokens, costs, level = 0, [], [run_id]
    while level:
        below = list(
            Run.objects.unscoped(Reason.WORKER)
            .filter(parent__in=level)
            .values_list("pk", "tokens", "cost")
        )
        level = [pk for pk, _, _ in below]
        tokens += sum(each for _, each, _ in below)
        costs += [cost for _, _, cost in below if cost is not None]
    return tokens, sum(costs, Decimal(0)) if costs else None


def _is_reply(step: Step) -> bool:
    """Whether a model was paid for it. Not every summary is one's."""
    if step.kind == "summary":
        return step.status == "ok" and bool(step.meta.model_requested)
    return step.kind == "model"
