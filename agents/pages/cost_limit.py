"""What somebody let a run cost, and what it has used of that, as pages show it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from django import forms

from agents.models import Run
from agents.pages.text import cost, money
from agents.tools import registry

LEAST = Decimal("0.000001")  # US dollars; what the column tells from nothing


@dataclass(frozen=True)
class CostLimit:
    """In US dollars. `most` is the run's own limit, or its agent's where that is less."""

    most: Decimal
    spent: Decimal  # of what has a known price
    unpriced: bool  # there are calls without one
    reached: bool  # the run ended because of it
    of_agent: bool  # so that no retry may have a higher one

    @property
    def words(self) -> str:
        """Such as `$0.061 of at most $0.20`."""
        unknown = " + ?" if self.unpriced else ""
        return f"{cost(self.spent)}{unknown} of at most {money(self.most)}"

    @property
    def higher(self) -> str:
        """What a field for another limit starts with."""
        return f"{(2 * self.most).normalize():f}"


def cost_limit(run: Run) -> CostLimit | None:
    """None: nobody set one for this run. Its agent's alone stands on the agent's page."""
    if run.max_cost is None:
        return None
    name = run.agent_version.agent.name
    of_agent = registry.agent(name).limits.max_cost if name in registry else None
    lower = of_agent is not None and of_agent <= run.max_cost
    most = of_agent if of_agent is not None and lower else run.max_cost
    return CostLimit(
        most=most.normalize(),
        spent=run.cost or Decimal(0),
        unpriced=bool(run.unpriced),
        reached=run.status == Run.Status.FAILED and run.error_class == "too_expensive",
        of_agent=lower,
    )


def cost_field() -> forms.DecimalField:
    """Takes a limit, or nothing."""
    return forms.DecimalField(
        required=False,
        min_value=LEAST,
        max_digits=12,
        decimal_places=6,
        label="Cost limit",
    )
