"""The travel desk's tools with effects, and the list of all its tools.

Effects go to the airline (`agents/demo/airline.py`), at most once for their key.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal

from agents.demo import airline
from agents.demo.before_buying import (
    ASKED_OVER,
    TOLERATED,
    fare_now,
    message,
    ticket,
    within_tolerance,
)
from agents.demo.lookups import (
    ask_traveller,
    get_traveller,
    lookup_policy,
    offer_of,
    quote_fare,
    search_flights,
    search_hotels,
    stay_price,
)
from agents.demo.world import hotels, people, places
from agents.demo.world.flights import Fare, Flight
from agents.tools import (
    IdempotencyKey,
    Rule,
    ToolContext,
    ToolError,
    never,
    tool,
)

HOLD_HOURS = 24

# Writes: can be undone


@tool(
    effect="write",
    idempotent=True,
    risk="low",
    title="Hold {flight} for {passenger}, ${price}",
    approve=never,
)
def hold_fare(
    flight: str,
    date: date,
    passenger: str,
    fare: str,
    price: Decimal,
    *,
    key: IdempotencyKey,
    ctx: ToolContext,
) -> dict[str, Any]:
    """Keep a fare for 24 hours without paying it. Holds lapse by themselves."""
    found, offer = offer_of(flight, date, fare)
    _same_price(found, offer, price)
    held = {
        "flight": found.number,
        "date": date.isoformat(),
        "passenger": passenger,
        "fare": offer.name,
        "price": offer.price,
    }
    code = airline.record("holds", key, held)
    ctx.put("vars", "hold", code)
    ctx.put("vars", "fare", offer.price)
    ctx.append("decisions", f"{found.number} on {date}, {offer.name}, ${offer.price}")
    return {"hold": code, **held, "currency": "USD", "hours": HOLD_HOURS}


@tool(
    effect="write",
    idempotent=True,
    risk="low",
    title="Hold {nights} nights at {hotel} for {guest}",
    approve=never,
)
def hold_hotel(
    hotel: str,
    guest: str,
    check_in: date,
    nights: int,
    *,
    key: IdempotencyKey,
    ctx: ToolContext,
) -> dict[str, Any]:
    """Keep a room. It can be cancelled without cost until the day before."""
    if nights < 1:
        raise ToolError(f"A stay has at least one night, not {nights}.")
    known = hotels.find(hotel)
    total = stay_price(known[1], nights) if known else None
    held = {
        "hotel": hotel,
        "guest": guest,
        "check_in": check_in.isoformat(),
        "nights": nights,
    }
    code = airline.record("holds", key, held)
    ctx.put("facts", "hotel", {**held, "hold": code, "total": total})
    return {"hold": code, **held, "total": total, "currency": "USD"}


# External effects


@tool(
    effect="external",
    idempotent=True,
    risk="high",
    title="Book {flight} for {passenger}, ${price}",
    approve=Rule(
        f"book_flight over ${ASKED_OVER:,}",
        when={"path": "/price", "op": "gt", "value": str(ASKED_OVER)},
    ),
    guard=fare_now,
    tolerance={"/price": f"{TOLERATED}%", "/seats_left": 9},
    preview=ticket,
    reversible="for 24 hours",
)
def book_flight(
    flight: str,
    date: date,
    passenger: str,
    fare: str,
    price: Decimal,
    currency: Literal["USD"] = "USD",
    seat: str = "",
    hold: str = "",
    *,
    key: IdempotencyKey,
    ctx: ToolContext,
) -> dict[str, Any]:
    """Buy the ticket with the corporate card. It is charged at once."""
    found, offer = offer_of(flight, date, fare)
    if not within_tolerance(offer, price):
        _same_price(found, offer, price)
    _serves_its_purpose(found, passenger)
    bought = {
        "flight": found.number,
        "route": f"{found.origin} {found.departs:%H:%M} → {found.destination} {found.arrives}",
        "date": date.isoformat(),
        "passenger": passenger,
        "fare": offer.name,
        "price": offer.price,
        "currency": currency,
        "seat": seat,
    }
    code = airline.record("bookings", key, bought)
    ctx.put(
        "facts", "booking", {"code": code, "flight": found.number, "date": str(date)}
    )
    ctx.put("vars", "spent", offer.price)
    return {
        "booking": code,
        **bought,
        "refundable": offer.refundable,
        "status": "ticketed",
    }


@tool(
    effect="external",
    idempotent=True,
    risk="high",
    title="Refund {booking} for {passenger}, ${amount}",
    approve=Rule("refund_ticket, every time"),
    reversible=False,
)
def refund_ticket(
    booking: str,
    passenger: str,
    amount: Decimal,
    currency: Literal["USD"] = "USD",
    *,
    key: IdempotencyKey,
    ctx: ToolContext,
) -> dict[str, Any]:
    """Cancel a ticket and have the amount paid back to the corporate card."""
    if amount <= 0:
        raise ToolError(f"A refund is more than nothing, not {amount}.")
    paid = {
        "booking": booking,
        "passenger": passenger,
        "amount": format(amount, "f"),
        "currency": currency,
    }
    code = airline.record("refunds", key, paid)
    ctx.put("facts", "refund", {"code": code, "amount": paid["amount"]})
    return {"refund": code, **paid, "status": "refunded"}


@tool(
    effect="external",
    idempotent=True,
    risk="medium",
    title="E-mail {to}: {subject}",
    approve=Rule(
        "send_email outside Northwind",
        when={
            "not": {
                "path": "/to",
                "op": "matches",
                "value": r"^[^@\s]+@northwind\.example$",
            }
        },
    ),
    preview=message,
    reversible=False,
)
def send_email(
    to: str, subject: str, body: str, *, key: IdempotencyKey
) -> dict[str, Any]:
    """Send a message. It cannot be taken back."""
    code = airline.record("emails", key, {"to": to, "subject": subject, "body": body})
    return {"message": code, "to": to, "status": "sent"}


TOOLS = (
    get_traveller,
    lookup_policy,
    search_flights,
    quote_fare,
    search_hotels,
    hold_fare,
    hold_hotel,
    book_flight,
    refund_ticket,
    send_email,
    ask_traveller,
)


def _same_price(flight: Flight, offer: Fare, price: Decimal) -> None:
    if Decimal(offer.price) != price:
        raise ToolError(
            f"{offer.name} on {flight.number} costs ${offer.price}, not ${price}."
        )


def _serves_its_purpose(flight: Flight, passenger: str) -> None:
    """A ticket that misses the appointment it is for is not issued."""
    traveller = people.find(passenger)
    city = places.find(flight.destination)
    for event in traveller.calendar if traveller else ():
        days = (event.at.date() - flight.day).days
        meant = city and event.city == city.code and 0 <= days <= 2
        if city and meant and flight.arrives_at > event.at:
            raise ToolError(
                f"Not ticketed: {flight.number} lands in {city.name} on"
                f" {_when(flight.arrives_at)}, after “{event.what}” on"
                f" {_when(event.at)} (local time). Choose a flight that arrives"
                " before it.",
                stop=True,
            )


def _when(moment: datetime) -> str:
    return f"{moment:%a} {moment.day} {moment:%b}, {moment:%H:%M}"
