"""What people see before the travel desk buys or sends something, and what may change
meanwhile: the fare.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

from agents.demo.lookups import offer_of
from agents.demo.world.flights import Fare, Flight
from agents.tools import (
    Changed,
    Found,
    Invalid,
    Preview,
    Seen,
    ToolError,
    Unchanged,
    titles,
)

ASKED_OVER = Decimal(1000)  # US dollars: a booking that costs more needs a person
TOLERATED = 2  # percent that such a fare may have moved since


def fare_now(
    flight: str, date: date, fare: str, price: Decimal, hold: str, *, seen: Seen
) -> Found:
    """Whether the fare is still sold, at the price that the call says."""
    try:
        found, offer = offer_of(flight, date, fare)
    except ToolError as error:
        return Invalid(str(error))
    if not offer.seats:
        return Invalid(f"{offer.name} on {found.number} is sold out.")
    now = _values(found, offer)
    if Decimal(offer.price) == price:
        return Unchanged(now)
    before = {**now, **(seen or {}), "price": format(price, "f")}
    lapsed = " The hold does not keep it any more." if hold else ""
    return Changed(
        before,
        now,
        f"The fare was ${titles.grouped(before['price'])} when asked, is now"
        f" ${titles.grouped(offer.price)}.{lapsed}",
        arguments={"price": offer.price},
    )


def ticket(
    flight: str, date: date, passenger: str, fare: str, price: Decimal, seat: str
) -> Preview:
    """The ticket that is bought, as the airline would print it."""
    found, offer = offer_of(flight, date, fare)
    return Preview.table(
        ["Ticket", ""],
        [
            ["Passenger", passenger],
            ["Flight", f"{found.number}, {found.airline}"],
            ["Route", _route(found)],
            ["Date", f"{date:%a} {date.day} {date:%b %Y}"],
            ["Fare", f"{offer.name}{', refundable' if offer.refundable else ''}"],
            ["Seat", seat or "given out at the airport"],
            ["Charged", f"${titles.grouped(format(price, 'f'))} to the corporate card"],
        ],
    )


def message(to: str, subject: str, body: str) -> Preview:
    return Preview.email(to=to, subject=subject, body=body)


def within_tolerance(offer: Fare, price: Decimal) -> bool:
    """Whether the fare may be bought by a call that says `price`."""
    moved = abs(Decimal(offer.price) - price)
    return moved == 0 or (price > ASKED_OVER and moved <= price * TOLERATED / 100)


def _values(flight: Flight, offer: Fare) -> dict[str, Any]:
    return {
        "price": offer.price,
        "seats_left": offer.seats,
        "refundable": offer.refundable,
        "departs": f"{flight.departs:%H:%M}",
    }


def _route(flight: Flight) -> str:
    return (
        f"{flight.origin} {flight.departs:%H:%M} → "
        f"{flight.destination} {flight.arrives}"
    )
