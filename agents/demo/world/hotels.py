"""Hotels by city; a city without any of its own gets two plausible ones."""

from __future__ import annotations

from dataclasses import dataclass

from agents.demo.world.places import City


@dataclass(frozen=True)
class Hotel:
    name: str
    area: str
    stars: int
    nightly: str  # US dollars, taxes included
    refundable: bool = True


HOTELS = {
    "NYC": (
        Hotel("The Alder Midtown", "Midtown", 4, "285.00"),
        Hotel("Bryant House", "Midtown", 5, "410.00"),
        Hotel("Hudson Yard Rooms", "Chelsea", 3, "198.00", refundable=False),
    ),
    "TYO": (
        Hotel("Marunouchi Terrace", "Marunouchi", 4, "240.00"),
        Hotel("Hotel Kanda Garden", "Kanda", 4, "195.00"),
        Hotel("Ginza Atelier", "Ginza", 5, "430.00"),
    ),
    "DXB": (
        Hotel("Creekside Court", "Deira", 4, "165.00"),
        Hotel("Marina Vista", "Marina", 5, "290.00"),
    ),
    "ZRH": (
        Hotel("Limmat Quai Hotel", "Old Town", 4, "260.00"),
        Hotel("Seefeld Rooms", "Seefeld", 3, "175.00"),
    ),
}


def search(city: City, area: str = "") -> list[Hotel]:
    """The city's hotels, those in the area first."""
    known = HOTELS.get(city.code) or (
        Hotel(f"{city.name} Central", "Centre", 4, "210.00"),
        Hotel(f"{city.name} Station Rooms", "Station", 3, "140.00"),
    )
    wanted = area.casefold().strip()
    return sorted(known, key=lambda hotel: hotel.area.casefold() != wanted)


def find(name: str) -> tuple[str, Hotel] | None:
    """City code and hotel, for one of the named hotels."""
    for code, hotels in HOTELS.items():
        for hotel in hotels:
            if hotel.name.casefold() == name.casefold().strip():
                return code, hotel
    return None
