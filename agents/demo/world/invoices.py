"""The airlines' invoices of three quarters, and what the travel desk's books say of each.

Most agree. Some differ by cents, as currencies do; `WRONG` differ by more.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

CONTROL = "NW-7731-K"  # closes a check of these books
TOLERANCE = Decimal("2.40")  # dollars by which an invoice may differ
QUARTERS = {"Q1": 315, "Q2": 630, "Q3": 945}  # the last invoice of each
COUNT = QUARTERS["Q3"]
WRONG = {
    137: Decimal("18.00"),
    262: Decimal("-40.50"),
    341: Decimal("112.00"),
    508: Decimal("9.75"),
    664: Decimal("-3.10"),
    812: Decimal("60.00"),
}
AIRLINES = ("TAP Air Portugal", "Emirates", "Swiss", "United", "ANA")
FIRST_DAY, DAYS = date(2026, 1, 2), 270


@dataclass(frozen=True)
class Invoice:
    number: str
    airline: str
    day: date
    billed: Decimal
    booked: Decimal


def named(place: int) -> str:
    return f"INV-{place:04d}"


def find(number: str) -> Invoice | None:
    place = int(number[4:]) if number[4:].isdecimal() else 0
    if not 1 <= place <= COUNT or number != named(place):
        return None
    roll = hashlib.sha256(number.encode()).digest()
    booked = Decimal(15_000 + int.from_bytes(roll[:2], "big")) / 100
    rounded = Decimal(roll[2] - 128) / 100 if roll[3] % 9 == 0 else Decimal(0)
    return Invoice(
        number,
        AIRLINES[roll[4] % len(AIRLINES)],
        FIRST_DAY + timedelta(days=(place - 1) * DAYS // COUNT),
        booked + WRONG.get(place, rounded),
        booked,
    )
