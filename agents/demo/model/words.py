"""How the persona says things: what is said is decided elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from agents.demo.model.brief import Brief
from agents.demo.model.choose import LONG, MINI, Choice, Option, day, money
from agents.demo.model.transcript import Talk
from agents.demo.model.wishes import Wishes
from agents.demo.world import places

DONE = {
    "English": ("{summary}", "All set. {summary}", "Done. {summary}"),
    "German": ("Erledigt: {flight} am {date} für {price}, Buchung {booking}.",),
    "Portuguese": ("Tratado: {flight} em {date} por {price}, reserva {booking}.",),
    "French": ("C'est fait : {flight} le {date} pour {price}, dossier {booking}.",),
    "Spanish": ("Listo: {flight} el {date} por {price}, reserva {booking}.",),
}
HOLD = {
    "English": (
        "I'll hold {flight} on {day}. {why}",
        "{flight} on {day} it is; I'll hold that fare. {why}",
        "My choice is {flight} on {day}. {why} Holding the fare now.",
        "Holding {flight} on {day}. {why}",
        "{flight} on {day} fits best, so I'll hold it. {why}",
    ),
    "German": ("Ich halte {flight} am {date} für {price} fest.",),
    "Portuguese": ("Vou guardar {flight} em {date} por {price}.",),
    "French": ("Je pose une option sur {flight} le {date} pour {price}.",),
    "Spanish": ("Voy a retener {flight} el {date} por {price}.",),
}
WHY = (
    "It is the {lead} {kind}{which}",
    "No {kind}{which} is {more}",
    "Of every {kind}{which}, it is the {lead}",
)
MORE = {"cheapest": "cheaper", "fastest": "faster", "earliest": "earlier"}
SEARCH = (
    "Let me see what flies on {day}.",
    "Looking at flights on {day}.",
    "First the flights on {day}.",
    "Checking {day}.",
)
COMPARE = (
    "I'll compare with {day} before deciding.",
    "{day} may be cheaper; checking that as well.",
    "The day before, {day}, for comparison.",
)
QUOTE = (
    "Two fares are worth a quote.",
    "I'll quote the best fares before choosing.",
    "Quoting the shortlist.",
    "Fares move, so I'll quote before I hold anything.",
)
OPENING = (
    "I'll start with the profile and the policy.",
    "Profile and policy first.",
    "Let me read the traveller's profile and our policy.",
    "First, who travels and what the policy says.",
)
HOTELS = ("Now a room in {city}.", "And the hotels in {city}.")
HOTEL_POLICY = ("What may a night cost?", "The policy on hotels, to be sure.")
ROOM = ("A room at {hotel}: {why}", "{hotel} for the nights: {why}")
TELL = ("Sending {address} the itinerary.", "The itinerary goes to {address}.")
BOOK = (
    "The fare is held; booking {it}.",
    "Now the ticket: {it}.",
    "Booking {it} before the hold lapses.",
)


@dataclass(frozen=True)
class Voice:
    """Chooses among equal wordings by the talk's mood, the same way each time."""

    talk: Talk
    wishes: Wishes

    def pick(self, wordings: Sequence[str], **parts: str) -> str:
        named = f"{self.talk.mood}/{wordings[0]}".encode()
        number = int(hashlib.sha256(named).hexdigest()[:8], 16)
        return wordings[number % len(wordings)].format(**parts)

    def aside(self, wordings: Sequence[str], **parts: str) -> str | None:
        """A remark beside a call; someone asked to be brief makes none."""
        if self.wishes.brief or self.talk.model == MINI:
            return None
        return self.pick(wordings, **parts)

    def hold(self, option: Option, why: str) -> str:
        return self.pick(
            self._in_language(HOLD),
            flight=option.flight,
            day=day(option.day),
            date=option.day.isoformat(),
            price=money(option.price),
            why="" if self.wishes.brief else why,
        ).rstrip()

    def done(self, summary: str, booked: Mapping[str, Any]) -> str:
        return self.pick(
            self._in_language(DONE),
            summary=summary,
            flight=str(booked.get("flight", "")),
            date=str(booked.get("date", "")),
            price=money(booked.get("price") or "0"),
            booking=str(booked.get("booking", "")),
        )

    def why(self, choice: Choice, brief: Brief, *, looks: bool) -> str:
        """Why the first of the ranking: as good or as bad as the reading was."""
        best, wishes = choice.ranked[0], self.wishes
        kind = "nonstop" if not best.stops else "connection"
        if wishes.refundable:
            kind = f"refundable {kind}"
        lead = (
            "fastest" if wishes.fastest else "earliest" if wishes.early else "cheapest"
        )
        which = ""
        if brief.due:
            which = f" that lands before {brief.due:%H:%M} on {day(brief.due)}"
        if wishes.limit is not None:
            which += f" under {money(wishes.limit)}"
        said = self.pick(WHY, lead=lead, kind=kind, which=which, more=MORE[lead])
        parts = [said]
        if brief.due:
            lands = best.lands(careful=looks)
            parts.append(f"It lands {day(lands)} at {lands:%H:%M}")
        if wishes.prefer and best.airline in wishes.prefer:
            parts.append(f"{best.airline} is preferred")
        if best.cabin in LONG:
            hours = LONG[best.cabin] // 60
            cabin = best.cabin.capitalize()
            parts.append(
                f"{cabin} is allowed above {hours} hours (travel policy 3.1)"
                if best.minutes >= LONG[best.cabin]
                else f"{cabin} was asked for, though the flight is under {hours} hours"
            )
        rivals = (each for each in choice.ranked if each.flight != best.flight)
        if (other := next(rivals, None)) and other.price > best.price:
            less = money(other.price - best.price)
            parts.append(f"It costs {less} less than the next option, {other.flight}")
        return ". ".join(parts) + "."

    def _in_language(self, texts: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
        return texts[self.wishes.language or "English"]


def shortlist(choice: Choice, *, looks: bool) -> str:
    lines = []
    for option in choice.ranked[:3]:
        lands = option.lands(careful=looks)
        stops = "nonstop" if not option.stops else f"{option.stops} stop"
        back = "refundable" if option.refundable else "not refundable"
        lines.append(
            f"{option.flight} on {day(option.day)}, lands {day(lands)} {lands:%H:%M},"
            f" {stops}, {option.fare}, {money(option.price)}, {back}"
        )
    return "; ".join(lines) + "."


def nothing_fits(choice: Choice, brief: Brief) -> str:
    city = places.find(brief.destination or "")
    to = city.name if city else "the destination"
    if choice.nearest is None:
        return f"I found no flights to {to} on the days I looked at. Which other day?"
    best = choice.nearest
    said = f" ({choice.missed})" if choice.missed else ""
    return (
        f"Nothing to {to} fits everything you asked for{said}, so I have booked"
        f" nothing. The cheapest I saw is {best.flight} on {day(best.day)},"
        f" {best.fare}, at {money(best.price)}. Shall I take it, or relax a condition?"
    )


def amount(price: Decimal) -> str:
    """As tools take it: `1200.00`."""
    return f"{price:.2f}"
