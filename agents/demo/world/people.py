"""The executives of Northwind, all invented, and what their calendars say."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Event:
    what: str
    city: str  # a city's code
    begins: str  # local to the city

    @property
    def at(self) -> datetime:
        return datetime.fromisoformat(self.begins)


@dataclass(frozen=True)
class Traveller:
    profile: str
    name: str
    title: str
    email: str
    home: str  # a city's code
    seat: str | None
    calendar: tuple[Event, ...] = ()


TRAVELLERS = (
    Traveller(
        "trv_0192",
        "Helen Marsh",
        "CFO",
        "helen.marsh@northwind.example",
        "LIS",
        "aisle",
        (Event("Board dinner", "NYC", "2026-11-30 18:00"),),
    ),
    Traveller(
        "trv_0147",
        "Daniel Osei",
        "COO",
        "daniel.osei@northwind.example",
        "SFO",
        "aisle",
        (Event("Signing with Kanda Holdings", "TYO", "2026-12-08 09:00"),),
    ),
    Traveller(
        "trv_0203",
        "Ingrid Solberg",
        "General Counsel",
        "ingrid.solberg@northwind.example",
        "LIS",
        "window",
        (Event("Arbitration hearing", "DXB", "2026-12-03 10:00"),),
    ),
    Traveller(
        "trv_0188",
        "Tomás Vega",
        "VP Sales",
        "tomas.vega@northwind.example",
        "LIS",
        None,
        (Event("Distributor day", "ZRH", "2026-12-01 14:00"),),
    ),
    Traveller(
        "trv_0211",
        "Lena Koch",
        "Head of Design",
        "lena.koch@northwind.example",
        "BER",
        "window",
    ),
    Traveller(
        "trv_0166",
        "Jonas Feld",
        "Head of Finance",
        "jonas.feld@northwind.example",
        "LIS",
        "aisle",
    ),
)


def find(name: str) -> Traveller | None:
    """By full name, first or last name, profile or e-mail address, in any case."""
    wanted = " ".join(name.split()).casefold()
    for traveller in TRAVELLERS:
        known = {traveller.name, traveller.profile, traveller.email}
        known |= set(traveller.name.split())
        if wanted in {each.casefold() for each in known}:
            return traveller
    return None
