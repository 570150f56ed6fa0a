"""What the desk knows of the trip at hand, as far as the transcript tells."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Any

from agents.demo.model import brief as briefs
from agents.demo.model import choose
from agents.demo.model import wishes as wanted
from agents.demo.model.brief import Brief
from agents.demo.model.choose import Choice, Option, money
from agents.demo.model.transcript import Exchange, Talk
from agents.demo.model.wishes import Wishes
from agents.demo.world import places

TRIES = 3  # refused or failed holds and bookings before the desk gives up
NO = re.compile(r"\W*(no|nope|don't|do not)\b", re.IGNORECASE)
YES = re.compile(
    r"\W*(yes|yep|sure|ok(ay)?|fine|take (it|that)|go ahead)\b", re.IGNORECASE
)
HALT = re.compile(
    r"\b(stop here|leave it|never ?mind|called off|no longer needed|give up)\b",
    re.IGNORECASE,
)
DOUBT = re.compile(r"is not known|outcome unknown", re.IGNORECASE)


class Known:
    """The newest trip of a talk: its brief, its wishes, and what was done about it."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk = _newest_trip(talk)
        self.refused = [each for each in talk.exchanges if each.rejected]
        self.wishes = self._wishes()
        self.brief = self._brief()
        self.looks = choose.careful(self.wishes, talk)

    def _wishes(self) -> Wishes:
        """Of the prompt, of people, of their answers, of their reasons to refuse."""
        answers = [
            each.text
            for each in self.talk.of("ask_traveller")
            if each.text and not each.rejected
        ]
        wishes = wanted.read(
            self.talk.system,
            *self.talk.said,
            *answers,
            *(each.text for each in self.refused),
        )
        if len(self.talk.said) > 1 and YES.match(self.talk.said[-1]):
            # To “shall I take it, or relax a condition?”, and to “may I hold it?”
            wishes = replace(
                wishes,
                cabin=None,
                refundable=None,
                nonstop_only=None,
                limit=None,
                avoid=None,
                propose_only=None,
            )
        if any(wanted.CAREFUL.search(each.text) for each in self.setbacks()):
            wishes = replace(wishes, careful=True)
        asked_in_vain = wishes.ask_first and self.was_refused("ask_traveller")
        if asked_in_vain or any(NO.match(text) for text in answers):
            wishes = replace(wishes, propose_only=True)
        return wishes

    def _brief(self) -> Brief:
        """Home and calendar stand in for what nobody said."""
        brief = briefs.read(self.talk.said)
        profile = self.profile() or {}
        if brief.origin is None and profile.get("home") != brief.destination:
            brief = replace(brief, origin=profile.get("home"))
        if not brief.dates():
            for event in profile.get("calendar") or ():
                if event.get("city") == brief.destination:
                    due = datetime.fromisoformat(event["at"])
                    brief = replace(brief, due=due)
        return briefs.with_orders(brief, self.talk.system)

    # People and places

    def profile(self) -> dict[str, Any] | None:
        return self.data("get_traveller")

    def tried_profile(self) -> bool:
        return bool(self.talk.of("get_traveller")) or not self.talk.offers(
            "get_traveller"
        )

    @property
    def passenger(self) -> str:
        profile = self.profile() or {}
        return profile.get("name") or self.brief.traveller or "the traveller"

    @property
    def city(self) -> str:
        city = places.find(self.brief.destination or "")
        return city.name if city else str(self.brief.destination)

    @property
    def wants_room(self) -> bool:
        stays = self.brief.nights or self.brief.until
        return self.wishes.hotel is not False and bool(self.wishes.hotel or stays)

    # The choice, and what came of it

    def choice(self) -> Choice:
        excluded = frozenset(
            (
                str(each.arguments.get("flight")),
                str(each.arguments.get("date")),
                str(each.arguments.get("fare")),
            )
            for each in (*self.setbacks(), *self.refused)
            if each.name in ("hold_fare", "book_flight")
        )
        found = choose.options(self.talk, self.brief)
        return choose.rank(found, self.wishes, self.brief, self.talk, excluded)

    def setbacks(self) -> list[Exchange]:
        """Holds and bookings that the other side, not a person, turned down."""
        return [
            each
            for name in ("hold_fare", "book_flight")
            for each in self.talk.failures(name)
            if not each.rejected
        ]

    def was_refused(self, name: str) -> bool:
        return any(each.name == name for each in self.refused)

    def data(self, name: str) -> dict[str, Any] | None:
        """The newest result of a tool that worked."""
        found = self.talk.done(name)
        return found.data if found else None

    def held(self, option: Option) -> Exchange | None:
        return self.talk.done(
            "hold_fare", flight=option.flight, date=str(option.day), fare=option.fare
        )

    def is_settled(self) -> bool:
        return bool(self.talk.done("hold_fare") or self.talk.done("book_flight"))

    def quoted(self, option: Option) -> bool:
        return not self.talk.offers("quote_fare") or any(
            each.arguments.get("flight") == option.flight
            and each.arguments.get("date") == str(option.day)
            and each.arguments.get("fare") == option.fare
            for each in self.talk.of("quote_fare")
        )

    def end(self) -> str | None:
        """Why the desk stops trying, if it should."""
        trouble = [*self.setbacks(), *self.refused]
        if not trouble:
            return None
        last = trouble[-1].text[:240]
        if DOUBT.search(last):
            return (
                "I can't tell whether that went through, so I won't try it again."
                " Please check with the airline first, then tell me how to go on."
            )
        if len(trouble) >= TRIES or any(
            HALT.search(each.text) for each in self.refused
        ):
            return f"Understood, I stop here. {last}"
        return None

    def summary(self, who: str = "") -> str:
        booked = self.data("book_flight") or {}
        route = f", {booked['route']}" if booked.get("route") else ""
        seat = f", {booked['seat']} seat" if booked.get("seat") else ""
        text = (
            f"{who or self.passenger + ' flies'} {booked.get('flight', '')} on"
            f" {booked.get('date', '')}{route}, {booked.get('fare', '')}{seat}, for"
            f" {money(booked.get('price') or '0')}, booking {booked.get('booking', '')}."
        )
        if room := self.data("hold_hotel"):
            nights = room.get("nights")
            text += (
                f" {room.get('hotel')} is held for {nights}"
                f" {'night' if nights == 1 else 'nights'} from {room.get('check_in')}."
            )
        return text


def _newest_trip(talk: Talk) -> Talk:
    """What belongs to the newest trip: one asked for after an earlier one was booked."""
    for number in range(len(talk.said) - 1, 0, -1):
        before = talk.exchanges[: talk.marks[number]]
        booked = any(each.name == "book_flight" and each.ok for each in before)
        if booked and briefs.starts_trip(talk.said[number]):
            return replace(
                talk,
                said=talk.said[number:],
                marks=tuple(mark - len(before) for mark in talk.marks[number:]),
                exchanges=talk.exchanges[len(before) :],
            )
    return talk
