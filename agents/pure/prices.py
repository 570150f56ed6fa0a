"""What tokens cost. A model without a price has an unknown one, never $0."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from decimal import Decimal


@dataclass(frozen=True)
class Rates:
    """US dollars for a million tokens."""

    fresh: Decimal  # of the input
    cached: Decimal  # of the input that the provider had cached
    output: Decimal


def _rates(fresh: str, cached: str, output: str) -> Rates:
    return Rates(Decimal(fresh), Decimal(cached), Decimal(output))


AS_OF = date(2025, 8, 7)  # list prices of the vendor's page on this day
SHIPPED = {
    "gpt-4o": _rates("2.50", "1.25", "10.00"),
    "gpt-4o-mini": _rates("0.15", "0.075", "0.60"),
    "gpt-4.1": _rates("2.00", "0.50", "8.00"),
    "gpt-4.1-mini": _rates("0.40", "0.10", "1.60"),
    "gpt-4.1-nano": _rates("0.10", "0.025", "0.40"),
    "gpt-5": _rates("1.25", "0.125", "10.00"),
    "gpt-5-mini": _rates("0.25", "0.025", "2.00"),
    "gpt-5-nano": _rates("0.05", "0.005", "0.40"),
    "o3": _rates("2.00", "0.50", "8.00"),
    "o4-mini": _rates("1.10", "0.275", "4.40"),
}

_DATED = re.compile(r"-\d{4}-\d{2}-\d{2}\Z")  # gpt-4o-2024-08-06
_MILLION = Decimal(1_000_000)


def undated(model: str) -> str:
    """The name under which a dated edition of a model is sold."""
    return _DATED.sub("", model)


def cost(
    rates: Rates | None,
    *,
    tokens_in: int | None,
    cached: int | None,
    tokens_out: int | None,
) -> Decimal | None:
    """US dollars; None where the price or the count is unknown."""
    if rates is None or tokens_in is None or tokens_out is None:
        return None
    cached = min(cached or 0, tokens_in)
    total = (
        rates.fresh * (tokens_in - cached)
        + rates.cached * cached
        + rates.output * tokens_out
    )
    return total / _MILLION
