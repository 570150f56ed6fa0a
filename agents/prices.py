"""What a model costs today: as admins say, else as Holdpoint ships it."""

from __future__ import annotations

import threading
import time

from django.db import InterfaceError, OperationalError
from django.db.models import DateField
from django.db.models.functions import Cast

from agents.models import Price
from agents.pure import prices
from agents.pure.prices import Rates
from checkpoints.clock import ClockTimestamp

FRESH = 5.0  # seconds until a price that was changed is seen by every process

_lock = threading.Lock()
_known: tuple[float, dict[str, Rates | None]] | None = None


def look() -> None:
    """Know the prices, before there is something that would be lost if they were not to
    be had. Raises the connection's errors."""
    _said()


def rates(model: str) -> Rates | None:
    """None: not known. Where PostgreSQL is away: as they were."""
    said = _said()
    for name in (model, prices.undated(model)):
        if name in said:
            return said[name]
    return prices.SHIPPED.get(prices.undated(model))


def forget() -> None:
    """Have this process look anew."""
    global _known
    with _lock:
        _known = None


def _said() -> dict[str, Rates | None]:
    """Of each model the newest price that has begun."""
    global _known
    with _lock:
        if _known is None or time.monotonic() - _known[0] > FRESH:
            try:
                _known = time.monotonic(), _begun()
            except (OperationalError, InterfaceError):
                if _known is None:
                    raise
        return _known[1]


def _begun() -> dict[str, Rates | None]:
    today = Cast(ClockTimestamp(), DateField())
    begun = Price.objects.filter(since__lte=today).order_by("since")
    return {price.model: _rates(price) for price in begun}


def _rates(price: Price) -> Rates | None:
    if price.fresh is None or price.cached is None or price.output is None:
        return None
    return Rates(price.fresh, price.cached, price.output)
