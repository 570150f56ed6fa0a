"""The timetable and its fares.

Routes of the demo's stories are written down; every other pair of cities gets three
plausible flights a day, computed from the distance, so that any trip can be planned.
Prices are decimal strings in US dollars, taxes included.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from agents.demo.world import places
from agents.demo.world.places import City

ECONOMY, PREMIUM, BUSINESS = "economy", "premium economy", "business"
CABINS = (ECONOMY, PREMIUM, BUSINESS)
SPEED = 820.0  # kilometres an hour, gate to gate on a long flight
GROUND = 0.7  # hours of taxi, climb and descent


@dataclass(frozen=True)
class Fare:
    cabin: str
    name: str
    price: str
    refundable: bool
    seats: int


@dataclass(frozen=True)
class Flight:
    number: str
    airline: str
    origin: str  # airport
    destination: str  # airport
    day: date
    departs: time  # local to the origin
    minutes: int  # door to door, with any stop
    arrives_at: datetime  # local to the destination
    stops: int
    fares: tuple[Fare, ...]

    @property
    def arrives(self) -> str:
        """As timetables print it: `13:45`, or `16:55+1` for the next day."""
        days = (self.arrives_at.date() - self.day).days
        return f"{self.arrives_at:%H:%M}" + (f"+{days}" if days else "")

    @property
    def duration(self) -> str:
        return f"{self.minutes // 60}h{self.minutes % 60:02}"

    def fare(self, cabin: str) -> Fare | None:
        """The cheapest fare of the cabin; a fare may also be named outright."""
        wanted = cabin.casefold()
        fitting = [
            fare for fare in self.fares if wanted in (fare.cabin, fare.name.casefold())
        ]
        return min(fitting, key=lambda fare: Decimal(fare.price), default=None)


def _fares(**prices: str) -> tuple[Fare, ...]:
    """`basic`, `flex`, `premium`, `business`: the price of each that is on sale."""
    kinds = {
        "basic": (ECONOMY, "Economy Basic", False, 9),
        "flex": (ECONOMY, "Economy Flex", True, 7),
        "premium": (PREMIUM, "Premium Economy", True, 6),
        "business": (BUSINESS, "Business", True, 4),
    }
    return tuple(
        Fare(cabin, name, prices[kind], refundable, seats)
        for kind, (cabin, name, refundable, seats) in kinds.items()
        if kind in prices
    )


@dataclass(frozen=True)
class Service:
    """A flight that runs every day, with the fares of an ordinary day."""

    number: str
    airline: str
    origin: str
    destination: str
    departs: time
    minutes: int
    fares: tuple[Fare, ...]
    stops: int = 0


SERVICES = (
    # Lisbon to New York: TP 209 is the one that arrives in time for a dinner.
    Service(
        "TP 209", "TAP Air Portugal", "LIS", "EWR", time(10, 35), 490,
        _fares(basic="640.00", flex="910.00", premium="1200.00", business="2980.00"),
    ),
    Service(
        "UA 65", "United", "LIS", "EWR", time(12, 5), 495,
        _fares(basic="690.00", flex="960.00", premium="1410.00", business="3150.00"),
    ),
    Service(
        "TP 203", "TAP Air Portugal", "LIS", "EWR", time(17, 0), 490,
        _fares(basic="560.00", flex="820.00", premium="1050.00"),
    ),
    Service(
        "IB 3103", "Iberia", "LIS", "JFK", time(9, 10), 765,
        _fares(basic="480.00", premium="985.00"), stops=1,
    ),
    # San Francisco to Tokyo: everything lands the next day or the one after it.
    Service(
        "JL 57", "Japan Airlines", "SFO", "NRT", time(12, 45), 670,
        _fares(basic="870.00", business="4100.00"),
    ),
    Service(
        "UA 837", "United", "SFO", "NRT", time(11, 5), 680,
        _fares(basic="910.00", flex="1120.00", business="4350.00"),
    ),
    Service(
        "NH 107", "ANA", "SFO", "HND", time(0, 40), 695,
        _fares(basic="1040.00", premium="1660.00", business="4480.00"),
    ),
    # Lisbon to Dubai and Zurich.
    Service(
        "EK 192", "Emirates", "LIS", "DXB", time(14, 15), 470,
        _fares(basic="610.00", flex="840.00", premium="990.00", business="2740.00"),
    ),
    Service(
        "TK 1760", "Turkish Airlines", "LIS", "DXB", time(11, 40), 690,
        _fares(basic="455.00", flex="690.00"), stops=1,
    ),
    Service(
        "TP 930", "TAP Air Portugal", "LIS", "ZRH", time(7, 5), 165,
        _fares(basic="198.00", flex="312.00", business="640.00"),
    ),
    Service(
        "LX 2085", "Swiss", "LIS", "ZRH", time(18, 50), 170,
        _fares(basic="174.00", flex="298.00", business="690.00"),
    ),
)  # fmt: skip

# Days on which a service is sold differently; None: it does not run.
SPECIAL: dict[tuple[str, date], tuple[Fare, ...] | None] = {
    ("JL 57", date(2026, 12, 6)): None,
    ("UA 837", date(2026, 12, 6)): _fares(
        flex="985.00", premium="1690.00", business="4350.00"
    ),
    ("NH 107", date(2026, 12, 6)): _fares(
        basic="1090.00", premium="1590.00", business="4480.00"
    ),
    ("NH 107", date(2026, 12, 7)): None,
}
EXTRA = {
    date(2026, 12, 6): (
        Service(
            "KE 26", "Korean Air", "SFO", "NRT", time(13, 10), 940,
            _fares(basic="790.00"), stops=1,
        ),
    ),
}  # fmt: skip


def search(origin: City, destination: City, day: date) -> list[Flight]:
    """The day's flights, in order of departure."""
    services = [
        service
        for service in (*SERVICES, *EXTRA.get(day, ()))
        if places.find(service.origin) is origin
        and places.find(service.destination) is destination
    ] or _computed(origin, destination)
    flights = []
    for service in services:
        fares = SPECIAL.get((service.number, day), service.fares)
        if fares is not None:
            flights.append(_flight(service, day, fares))
    return sorted(flights, key=lambda flight: flight.departs)


def find(number: str, day: date) -> Flight | None:
    """One flight by its number; computed ones carry their route in it."""
    wanted = " ".join(number.upper().split())
    for service in (*SERVICES, *EXTRA.get(day, ())):
        if service.number == wanted:
            fares = SPECIAL.get((wanted, day), service.fares)
            return None if fares is None else _flight(service, day, fares)
    for origin in places.CITIES:
        for destination in places.CITIES:
            if origin is destination:
                continue
            for service in _computed(origin, destination):
                if service.number == wanted:
                    return _flight(service, day, service.fares)
    return None


def charged(flight: Flight, fares: Mapping[str, Mapping[str, Any]]) -> Flight:
    """The flight with the fares that the airline charges for it now, by name."""
    if not fares:
        return flight
    now = tuple(replace(fare, **fares.get(fare.name, {})) for fare in flight.fares)
    return replace(flight, fares=now)


def is_price(text: str) -> bool:
    return re.fullmatch(r"[1-9][0-9]{0,4}\.[0-9]{2}", text) is not None


def _flight(service: Service, day: date, fares: tuple[Fare, ...]) -> Flight:
    origin, destination = places.find(service.origin), places.find(service.destination)
    if origin is None or destination is None:
        raise ValueError(f"{service.number} names an airport that no city has")
    shift = timedelta(
        minutes=service.minutes, hours=destination.utc_offset - origin.utc_offset
    )
    return Flight(
        service.number,
        service.airline,
        service.origin,
        service.destination,
        day,
        service.departs,
        service.minutes,
        datetime.combine(day, service.departs) + shift,
        service.stops,
        fares,
    )


def _computed(origin: City, destination: City) -> list[Service]:
    """Three a day: an early nonstop, a cheap one with a stop, a late nonstop."""
    far = places.distance(origin, destination)
    minutes = round((far / SPEED + GROUND) * 12) * 5
    route = f"{origin.airport}/{destination.airport}"
    seed = int(hashlib.sha256(route.encode()).hexdigest()[:6], 16)
    base = 90 + far * 0.085 + seed % 40
    pair = places.CITIES.index(origin) * len(places.CITIES)
    number = 1000 + 3 * (pair + places.CITIES.index(destination))
    line = []
    for offset, (hour, stops, factor) in enumerate(
        ((7, 0, 1.15), (11, 1, 0.8), (16, 0, 1.0))
    ):
        price = base * factor
        kinds = {"basic": price, "flex": price * 1.45, "business": price * 4}
        if minutes > 6 * 60:
            kinds["premium"] = price * 1.8
        line.append(
            Service(
                f"ML {number + offset}",
                "Merlin Air",
                origin.airport,
                destination.airport,
                time(hour, seed % 12 * 5),
                minutes + stops * 150,
                _fares(**{kind: f"{value:.0f}.00" for kind, value in kinds.items()}),
                stops,
            )
        )
    return line
