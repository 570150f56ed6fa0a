"""What a run of an agent may use before it stops and says why."""

from __future__ import annotations

from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any

from agents.errors import BadDeclaration


@dataclass(frozen=True)
class Limits:
    """Each is looked at between two steps; None is no limit.

    Budgets are a run's own: the run that a retry starts has them anew.
    """

    max_steps: int | None = None  # and never more than the setting MAX_STEPS
    max_tokens: int | None = None  # of model calls, in and out
    max_cost: Decimal | None = None  # US dollars
    max_seconds: int | None = None  # of work; waiting for people is none
    max_rejections: int | None = 5  # that people gave in a row
    max_repeats: int | None = 5  # of one tool with the same arguments, in a row

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is None:
                continue
            kind = Decimal if each.name == "max_cost" else int
            if not isinstance(value, kind) or isinstance(value, bool) or value <= 0:
                raise BadDeclaration(
                    f"{each.name}={value!r} is not a {kind.__name__} above 0; None is "
                    "no limit."
                )
        if self.max_repeats == 1:
            raise BadDeclaration(
                "max_repeats=1 would refuse every call; 2 is the least."
            )

    def spec(self) -> dict[str, Any]:
        """What of them belongs to an agent's version."""
        cost = self.max_cost
        return {
            **{each.name: getattr(self, each.name) for each in fields(self)},
            "max_cost": None if cost is None else format(cost, "f"),
        }


DEFAULT = Limits()
