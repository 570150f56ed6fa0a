"""The travel desk's tools that only look, and its question.

They look into the invented world (`agents/demo/world`). What a person may want to
follow through the steps also goes into working memory.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

from agents.demo import airline
from agents.demo.world import flights, hotels, people, places, rules
from agents.demo.world.flights import Fare, Flight
from agents.demo.world.hotels import Hotel
from agents.demo.world.places import City
from agents.tools import ToolContext, ToolError, ask, tool


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
    charges = airline.fares()
    found = [
        flights.charged(flight, charges.get(flight.number, {}))
        for flight in flights.search(start, end, date)
    ]
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
    found, offer = offer_of(flight, date, fare)
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
                "total": stay_price(hotel, nights),
                "refundable": hotel.refundable,
            }
            for hotel in hotels.search(place, area)
        ],
    }


@ask(title="Ask {traveller}: {question}")
def ask_traveller(traveller: str, question: str, options: list[str] = []) -> str:  # noqa: B006  # never called, never changed
    """Ask the traveller something that neither profile nor policy answers."""
    raise AssertionError("a question is answered by a person")


def _city(name: str) -> City:
    found = places.find(name)
    if found is None:
        known = ", ".join(city.name for city in places.CITIES)
        raise ToolError(f"There is no city or airport {name!r}; there are {known}.")
    return found


def offer_of(number: str, day: date, fare: str) -> tuple[Flight, Fare]:
    """A fare as it is sold now. Raises ToolError when it is not."""
    flight = flights.find(number, day)
    if flight is None:
        raise ToolError(f"{number} does not fly on {day}.")
    flight = flights.charged(flight, airline.fares().get(flight.number, {}))
    offer = flight.fare(fare)
    if offer is None:
        sold = ", ".join(each.name for each in flight.fares)
        raise ToolError(f"{number} on {day} has no fare {fare!r}; it has {sold}.")
    return flight, offer


def stay_price(hotel: Hotel, nights: int) -> str:
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
