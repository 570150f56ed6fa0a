"""The travel desk's tools.

Reads look into the invented world; writes and external effects go to the airline
(`agents/demo/airline.py`), at most once for their key. What a tool learns that a person
may want to follow through the steps, it also puts into working memory.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal

from agents.demo import airline
from agents.demo.world import flights, hotels, people, places, rules
from agents.demo.world.flights import Fare, Flight
from agents.demo.world.hotels import Hotel
from agents.demo.world.places import City
from agents.tools import (
    IdempotencyKey,
    Rule,
    ToolContext,
    ToolError,
    ask,
    never,
    tool,
)

HOLD_HOURS = 24

# Reads


@tool(effect="read", title="Profile of {name}")
def get_traveller(name: str, *, ctx: ToolContext) -> dict[str, Any]:
    """A traveller's profile: home, seat, e-mail address and calendar."""
    found = people.find(name)
    if found is None:
        raise ToolError(f"There is no traveller called {name!r}.")
    ctx.put("facts", "traveller", f"{found.name}, {found.title}, {found.profile}")
    return {
        "profile": found.profile,
        "name": found.name,
        "title": found.title,
        "email": found.email,
        "home": found.home,
        "seat": found.seat,
        "calendar": [
            {"what": event.what, "city": event.city, "at": f"{event.at:%Y-%m-%d %H:%M}"}
            for event in found.calendar
        ],
    }


@tool(effect="read", title="Policy on {topic}")
def lookup_policy(topic: str) -> dict[str, Any]:
    """A section of the travel policy: flights, arrival, hotels, refunds or messages."""
    section = rules.find(topic)
    if section is None:
        known = ", ".join(rules.topics())
        raise ToolError(f"The policy has no section on {topic!r}; it has {known}.")
    return {"section": section.number, "topic": section.topic, "text": section.text}


@tool(effect="read", title="Flights {origin} → {destination}, {date}")
def search_flights(
    origin: str, destination: str, date: date, *, ctx: ToolContext
) -> dict[str, Any]:
    """Flights of a day with their fares. `16:55+1` arrives on the day after."""
    start, end = _city(origin), _city(destination)
    found = flights.search(start, end, date)
    cheapest = min(
        (Decimal(fare.price) for flight in found for fare in flight.fares), default=None
    )
    ctx.put(
        "vars",
        f"found {start.code} → {end.code} {date}",
        {"flights": len(found), "from": str(cheapest)},
    )
    return {
        "origin": start.code,
        "destination": end.code,
        "date": date.isoformat(),
        "currency": "USD",
        "flights": [_row(flight) for flight in found],
    }


@tool(effect="read", title="Quote {flight}, {fare}")
def quote_fare(
    flight: str, date: date, fare: str, *, ctx: ToolContext
) -> dict[str, Any]:
    """What a fare costs now, its conditions, and the seats that are left."""
    found, offer = _offer(flight, date, fare)
    ctx.put(
        "facts",
        f"fare {found.number} {date}",
        {"fare": offer.name, "price": offer.price, "refundable": offer.refundable},
    )
    return {
        "flight": found.number,
        "date": date.isoformat(),
        "departs": f"{found.departs:%H:%M}",
        "arrives": found.arrives,
        "fare": offer.name,
        "price": offer.price,
        "currency": "USD",
        "refundable": offer.refundable,
        "seats": offer.seats,
        "valid_minutes": 20,
    }


@tool(effect="read", title="Hotels in {city}, {check_in}")
def search_hotels(
    city: str, check_in: date, nights: int, area: str = ""
) -> dict[str, Any]:
    """Hotels with rooms; those in the area come first."""
    place = _city(city)
    return {
        "city": place.code,
        "check_in": check_in.isoformat(),
        "nights": nights,
        "currency": "USD",
        "hotels": [
            {
                "hotel": hotel.name,
                "area": hotel.area,
                "stars": hotel.stars,
                "nightly": hotel.nightly,
                "total": _total(hotel, nights),
                "refundable": hotel.refundable,
            }
            for hotel in hotels.search(place, area)
        ],
    }


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
    found, offer = _offer(flight, date, fare)
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
    total = _total(known[1], nights) if known else None
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
        "book_flight over $1,000", when={"path": "/price", "op": "gt", "value": "1000"}
    ),
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
    found, offer = _offer(flight, date, fare)
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
)
def send_email(
    to: str, subject: str, body: str, *, key: IdempotencyKey
) -> dict[str, Any]:
    """Send a message. It cannot be taken back."""
    code = airline.record("emails", key, {"to": to, "subject": subject, "body": body})
    return {"message": code, "to": to, "status": "sent"}


# Questions


@ask(title="Ask {traveller}: {question}")
def ask_traveller(traveller: str, question: str, options: list[str] = []) -> str:  # noqa: B006  # never called, never changed
    """Ask the traveller something that neither profile nor policy answers."""
    raise AssertionError("a question is answered by a person")


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


def _city(name: str) -> City:
    found = places.find(name)
    if found is None:
        known = ", ".join(city.name for city in places.CITIES)
        raise ToolError(f"There is no city or airport {name!r}; there are {known}.")
    return found


def _offer(number: str, day: date, fare: str) -> tuple[Flight, Fare]:
    flight = flights.find(number, day)
    if flight is None:
        raise ToolError(f"{number} does not fly on {day}.")
    offer = flight.fare(fare)
    if offer is None:
        sold = ", ".join(each.name for each in flight.fares)
        raise ToolError(f"{number} on {day} has no fare {fare!r}; it has {sold}.")
    return flight, offer


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


def _total(hotel: Hotel, nights: int) -> str:
    return f"{Decimal(hotel.nightly) * nights:f}"


def _row(flight: Flight) -> dict[str, Any]:
    return {
        "flight": flight.number,
        "airline": flight.airline,
        "from": flight.origin,
        "to": flight.destination,
        "date": flight.day.isoformat(),
        "departs": f"{flight.departs:%H:%M}",
        "arrives": flight.arrives,
        "duration": flight.duration,
        "stops": flight.stops,
        "fares": [
            {
                "fare": fare.name,
                "cabin": fare.cabin,
                "price": fare.price,
                "refundable": fare.refundable,
                "seats": fare.seats,
            }
            for fare in flight.fares
        ],
    }
