"""What tokens cost. A model that is not here has an unknown price, never $0."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

AS_OF = date(2025, 8, 7)  # list prices of the vendor's page on this day


@dataclass(frozen=True)
class Price:
    """US dollars for a million tokens."""

    fresh: Decimal  # of the input
    cached: Decimal  # of the input that the provider had cached
    output: Decimal


def _price(fresh: str, cached: str, output: str) -> Price:
    return Price(Decimal(fresh), Decimal(cached), Decimal(output))


PRICES = {
    "gpt-4o": _price("2.50", "1.25", "10.00"),
    "gpt-4o-mini": _price("0.15", "0.075", "0.60"),
    "gpt-4.1": _price("2.00", "0.50", "8.00"),
    "gpt-4.1-mini": _price("0.40", "0.10", "1.60"),
    "gpt-4.1-nano": _price("0.10", "0.025", "0.40"),
    "gpt-5": _price("1.25", "0.125", "10.00"),
    "gpt-5-mini": _price("0.25", "0.025", "2.00"),
    "gpt-5-nano": _price("0.05", "0.005", "0.40"),
    "o3": _price("2.00", "0.50", "8.00"),
    "o4-mini": _price("1.10", "0.275", "4.40"),
}

_DATED = re.compile(r"-\d{4}-\d{2}-\d{2}\Z")  # gpt-4o-2024-08-06
_MILLION = Decimal(1_000_000)


def cost(
    model: str, *, tokens_in: int | None, cached: int | None, tokens_out: int | None
) -> Decimal | None:
    """US dollars; None where the price or the count is unknown."""
    price = PRICES.get(_DATED.sub("", model))
    if price is None or tokens_in is None or tokens_out is None:
        return None
    cached = min(cached or 0, tokens_in)
    total = (
        price.fresh * (tokens_in - cached)
        + price.cached * cached
        + price.output * tokens_out
    )
    return total / _MILLION
