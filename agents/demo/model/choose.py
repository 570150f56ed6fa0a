"""Which flight to take: options from search results, ranked by what was wished for.

The persona has one honest weakness, which the demo's failed trip turns on: it reads
`16:55+1` as 16:55, unless something in its prompt makes it look at dates of arrival.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from agents.demo.model.brief import Brief
from agents.demo.model.transcript import Exchange, Talk
from agents.demo.model.wishes import BUSINESS, PREMIUM, Wishes
from agents.demo.world import places

MINI, PRO = "scripted-1-mini", "scripted-1-pro"  # one is frugal, one careful
STOP = Decimal(300)  # dollars that a nonstop may cost more: policy 3.1
PREFERRED = Decimal(250)  # dollars that a preferred airline may cost more
LONG = {PREMIUM: 7 * 60, BUSINESS: 10 * 60}  # minutes from which the cabin is allowed


@dataclass(frozen=True)
class Option:
    """A flight on a day, in one of its fares."""

    flight: str
    airline: str
    origin: str
    destination: str
    day: date
    departs: time
    arrives: time
    days: int  # the `+1` of the timetable
    minutes: int
    stops: int
    fare: str
    cabin: str
    price: Decimal
    refundable: bool

    @property
    def key(self) -> tuple[str, str, str]:
        return self.flight, self.day.isoformat(), self.fare

    def lands(self, *, careful: bool) -> datetime:
        """When it lands, on the clock of the place; by date only when careful."""
        days = self.days if careful else int(self.arrives < self.departs)
        return datetime.combine(self.day + timedelta(days=days), self.arrives)


@dataclass(frozen=True)
class Choice:
    """The ranking, or why there is none."""

    ranked: tuple[Option, ...]
    nearest: Option | None = None  # the cheapest of all, when nothing fits
    missed: str = ""  # which wish ruled the last ones out


def options(talk: Talk, brief: Brief) -> list[Option]:
    """From the searches for this trip; a later one for a day replaces an earlier."""
    found: dict[tuple[str, str, str], Option] = {}
    days = {day.isoformat() for day in brief.dates()}
    for search in talk.of("search_flights"):
        asked = search.arguments
        route = (_code(asked.get("origin")), _code(asked.get("destination")))
        if route != (brief.origin, brief.destination) or asked.get("date") not in days:
            continue
        for option in _options(search):
            found[option.key] = option
    return list(found.values())


def rank(
    found: Iterable[Option],
    wishes: Wishes,
    brief: Brief,
    talk: Talk,
    excluded: frozenset[tuple[str, str, str]],
) -> Choice:
    everything = list(found)
    left = [option for option in everything if option.key not in excluded]
    missed = "" if left or not everything else "what was refused before"
    for fits, what in _filters(wishes, brief, talk):
        kept = [option for option in left if fits(option)]
        if left and not kept:
            missed = what
        left = kept
    ranked = sorted(left, key=lambda option: _weight(option, wishes, talk))
    nearest = min(everything, key=lambda option: option.price, default=None)
    return Choice(tuple(ranked), nearest, missed)


def careful(wishes: Wishes, talk: Talk) -> bool:
    return bool(wishes.careful) or talk.model == PRO


def _filters(wishes: Wishes, brief: Brief, talk: Talk) -> list[tuple[Any, str]]:
    looks = careful(wishes, talk)
    filters: list[tuple[Any, str]] = []
    if brief.due:
        due = brief.due
        filters.append(
            (
                lambda option: option.lands(careful=looks) <= due,
                f"arrival by {due:%H:%M on} {day(due)}",
            )
        )
    if wishes.cabin:
        filters.append((lambda option: _cabin_fits(option, wishes), wishes.cabin))
    if wishes.no_cabins:
        unwanted = wishes.no_cabins
        filters.append((lambda option: option.cabin not in unwanted, "another cabin"))
    if wishes.refundable:
        filters.append((lambda option: option.refundable, "a refundable fare"))
    if wishes.nonstop_only:
        filters.append((lambda option: option.stops == 0, "a nonstop"))
    if wishes.avoid:
        avoided = wishes.avoid
        filters.append(
            (lambda option: option.airline not in avoided, "another airline")
        )
    if wishes.limit is not None:
        limit = wishes.limit
        filters.append((lambda option: option.price <= limit, f"under {money(limit)}"))
    return filters


def _cabin_fits(option: Option, wishes: Wishes) -> bool:
    if wishes.if_allowed and wishes.cabin in LONG:
        allowed = option.minutes >= LONG[wishes.cabin]
        return (option.cabin == wishes.cabin) if allowed else option.cabin == "economy"
    return option.cabin == wishes.cabin


def _weight(option: Option, wishes: Wishes, talk: Talk) -> tuple[Any, ...]:
    """Less is better."""
    cost = option.price
    frugal = wishes.cheapest or talk.model == MINI
    if option.stops and wishes.nonstop is not False and not frugal:
        cost += STOP * option.stops
    if wishes.prefer and option.airline in wishes.prefer:
        cost -= PREFERRED
    if talk.temperature:
        cost *= _whim(option, talk)
    if wishes.fastest:
        return option.minutes, cost, option.key
    if wishes.early:
        return option.day, cost, option.key
    return cost, option.key


def _whim(option: Option, talk: Talk) -> Decimal:
    """Up to a tenth dearer or cheaper per degree, as the sampling has it."""
    named = f"{talk.mood}/{option.key}"
    roll = hashlib.sha256(named.encode()).digest()[0] / 255 - 0.5
    return Decimal(1 + 0.2 * talk.temperature * roll)


def _code(name: object) -> str | None:
    city = places.find(str(name))
    return city.code if city else None


def _options(search: Exchange) -> list[Option]:
    found = []
    for flight in (search.data or {}).get("flights") or []:
        try:
            clock, _, days = str(flight["arrives"]).partition("+")
            hours, _, minutes = str(flight["duration"]).partition("h")
            for fare in flight["fares"]:
                found.append(
                    Option(
                        flight=flight["flight"],
                        airline=flight["airline"],
                        origin=flight["from"],
                        destination=flight["to"],
                        day=date.fromisoformat(flight["date"]),
                        departs=time.fromisoformat(flight["departs"]),
                        arrives=time.fromisoformat(clock),
                        days=int(days or 0),
                        minutes=int(hours) * 60 + int(minutes or 0),
                        stops=int(flight["stops"]),
                        fare=fare["fare"],
                        cabin=fare["cabin"],
                        price=Decimal(fare["price"]),
                        refundable=bool(fare["refundable"]),
                    )
                )
        except (KeyError, TypeError, ValueError, InvalidOperation):
            continue  # a result that someone edited into another shape
    return found


def money(amount: Decimal | str) -> str:
    """`$1,200`, or with cents where there are any."""
    value = Decimal(amount)
    return f"${value:,.0f}" if value == value.to_integral_value() else f"${value:,.2f}"


def day(moment: date) -> str:
    """`Mon 30 Nov`, in English whatever the locale."""
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    months = [
        "Jan",
        "Feb",
        "Mar",
        "Apr",
        "May",
        "Jun",
        "Jul",
        "Aug",
        "Sep",
        "Oct",
        "Nov",
        "Dec",
    ]
    return f"{days[moment.weekday()]} {moment.day} {months[moment.month - 1]}"
