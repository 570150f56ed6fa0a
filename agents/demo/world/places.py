"""Cities and airports, with winter clocks: enough to plan a trip."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class City:
    code: str  # as a search takes it: a city's or its only airport's
    name: str
    airport: str
    utc_offset: int  # hours, in winter
    latitude: float
    longitude: float
    aliases: tuple[str, ...] = ()


CITIES = (
    City("LIS", "Lisbon", "LIS", 0, 38.8, -9.1),
    City("OPO", "Porto", "OPO", 0, 41.2, -8.7),
    City("MAD", "Madrid", "MAD", 1, 40.5, -3.6),
    City("LON", "London", "LHR", 0, 51.5, -0.5, ("LHR",)),
    City("PAR", "Paris", "CDG", 1, 49.0, 2.5, ("CDG",)),
    City("ZRH", "Zurich", "ZRH", 1, 47.5, 8.5, ("Zürich",)),
    City("FRA", "Frankfurt", "FRA", 1, 50.0, 8.6),
    City("BER", "Berlin", "BER", 1, 52.4, 13.5),
    City("OSL", "Oslo", "OSL", 1, 60.2, 11.1),
    City("NYC", "New York", "EWR", -5, 40.7, -74.2, ("EWR", "JFK", "Newark")),
    City("BOS", "Boston", "BOS", -5, 42.4, -71.0),
    City("SFO", "San Francisco", "SFO", -8, 37.6, -122.4),
    City("TYO", "Tokyo", "NRT", 9, 35.8, 140.4, ("NRT", "HND")),
    City("SIN", "Singapore", "SIN", 8, 1.4, 104.0),
    City("DXB", "Dubai", "DXB", 4, 25.3, 55.4),
)

_BY_NAME = {
    name.casefold(): city
    for city in CITIES
    for name in (city.code, city.name, city.airport, *city.aliases)
}


def find(name: str) -> City | None:
    """By city, airport or code, in any case."""
    return _BY_NAME.get(" ".join(name.split()).casefold())


def names() -> list[str]:
    """Every name a city is known by, longest first, so that `New York` beats `York`."""
    known = {
        name
        for city in CITIES
        for name in (city.code, city.name, city.airport, *city.aliases)
    }
    return sorted(known, key=lambda name: (-len(name), name))


def distance(one: City, other: City) -> float:
    """Kilometres along the great circle."""
    a, b = math.radians(one.latitude), math.radians(other.latitude)
    step = math.radians(other.longitude - one.longitude)
    cosine = math.sin(a) * math.sin(b) + math.cos(a) * math.cos(b) * math.cos(step)
    return 6371 * math.acos(max(-1.0, min(1.0, cosine)))
