"""The travel desk: what a careful agent would do next, given everything said so far.

There is no memory and no script. Each reply is worked out from the transcript: what is
known, what was tried, what came back, what people and the prompt wish for. So an
edited prompt, another parameter or another tool result leads elsewhere by itself.

    profile, policy → flights → hotels → quotes → (ask) → hold → room → book → tell
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from agents.demo.model import brief as briefs
from agents.demo.model import choose, wire, words
from agents.demo.model import wishes as wanted
from agents.demo.model.brief import Brief
from agents.demo.model.choose import Choice, Option, day, money
from agents.demo.model.transcript import Exchange, Talk
from agents.demo.model.words import Voice
from agents.demo.world import places

NEEDED = {"search_flights", "book_flight"}  # tools by which a travel desk is known
TRIES = 3  # refused or failed holds and bookings before the desk gives up


def answer(talk: Talk) -> wire.Message:
    return Desk(talk).next()


class Desk:
    """One reply's worth of thought. Each `_step` returns a message, or None: go on."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk = _latest_trip(talk)
        self.refused = [each for each in talk.exchanges if each.rejected]
        self.answers = [
            each for each in talk.of("ask_traveller") if each.text and not each.rejected
        ]
        self.wishes = wanted.read(
            talk.system,
            *talk.said,
            *(each.text for each in self.answers),
            *(each.text for each in self.refused),
        )
        if any(wanted.CAREFUL.search(each.text) for each in self._setbacks()):
            self.wishes = replace(self.wishes, careful=True)
        if any(_NO.match(each.text) for each in self.answers) or (
            self.wishes.ask_first and self._refused("ask_traveller")
        ):
            self.wishes = replace(self.wishes, propose_only=True)
        self.brief = self._with_profile(briefs.read(talk.said))
        self.looks = choose.careful(self.wishes, talk)
        self.voice = Voice(talk, self.wishes)

    def next(self) -> wire.Message:
        steps = (
            self._after_booking,
            self._missing,
            self._opening,
            self._retry,
            self._flights,
            self._hotels,
            self._choose,
            self._room,
            self._book,
            self._tell,
        )
        for step in steps:
            if reply := step():
                return reply
        booked = self.talk.done("book_flight")
        return wire.say(
            self.voice.done(self._summary(), (booked.data if booked else None) or {})
        )

    # Before there is a choice

    def _missing(self) -> wire.Message | None:
        """Ask for what no tool can find out."""
        if self.brief.destination is None:
            if not self.talk.said or self.talk.exchanges:
                return wire.say("Where to next, for whom, and on which day?")
            opening = "Happy to plan a trip." if not self.wishes.brief else ""
            return wire.say(
                f"{opening} Who travels, from where to where, and on which day?".strip()
            )
        known = self.brief.traveller is None or self._profile() or self._tried_profile()
        if known and not self.brief.dates():
            city = self._city()
            return wire.say(f"On which day should the trip to {city} be?")
        if known and self.brief.origin is None:
            return wire.say(f"From where does the trip to {self._city()} start?")
        return None

    def _opening(self) -> wire.Message | None:
        calls = []
        if self.brief.traveller and not self._profile() and not self._tried_profile():
            calls += self._call("get_traveller", name=self.brief.traveller)
        if not self.talk.of("lookup_policy"):
            calls += self._call("lookup_policy", topic="flights")
        return self._use(calls, self.voice.aside(words.OPENING))

    def _retry(self) -> wire.Message | None:
        """A search that just failed is tried once more; then it is reported."""
        if not self.talk.exchanges or self.talk.last_role != "tool":
            return None
        last = self.talk.exchanges[-1]
        if last.ok or last.rejected or last.name not in _READS:
            return None
        same = [
            each
            for each in self.talk.failures(last.name)
            if each.arguments == last.arguments
        ]
        if len(same) < 2:
            return self._use(self._call(last.name, **last.arguments), None)
        return wire.say(f"I can't go on: {last.text[:200]} What should I do instead?")

    def _flights(self) -> wire.Message | None:
        origin, destination = self.brief.origin, self.brief.destination
        for number, date in enumerate(self.brief.dates()):
            route = {"origin": origin, "destination": destination, "date": str(date)}
            if self._held_or_booked() or self.talk.done("search_flights", **route):
                continue
            aside = words.COMPARE if number else words.SEARCH
            return self._use(
                self._call("search_flights", **route),
                self.voice.aside(aside, day=day(date)),
            )
        return None

    def _hotels(self) -> wire.Message | None:
        if not self._wants_room() or self._held_or_booked():
            return None
        place = {"city": self.brief.destination, "check_in": str(self.brief.check_in)}
        if not self.talk.done("search_hotels", **place):
            more: dict[str, Any] = {"nights": self.brief.stay}
            if self.brief.area:
                more["area"] = self.brief.area
            return self._use(
                self._call("search_hotels", **place, **more),
                self.voice.aside((f"Now a room in {self._city()}.", "And the hotels.")),
            )
        if not self.talk.of("lookup_policy")[1:]:
            return self._use(self._call("lookup_policy", topic="hotels"), None)
        return None

    # The choice

    def _choose(self) -> wire.Message | None:
        """Quote, ask where asking is wished for, and hold the best option."""
        if self.talk.done("book_flight"):
            return None
        if ended := self._giving_up():
            return wire.say(ended)
        choice = self._choice()
        if not choice.ranked:
            return wire.say(words.nothing_fits(choice, self.brief))
        best = choice.ranked[0]
        if self._is_held(best):
            return None
        return (
            self._quotes(choice)
            or self._propose(choice)
            or self._question(choice)
            or self._hold(choice)
        )

    def _quotes(self, choice: Choice) -> wire.Message | None:
        best = choice.ranked[0]
        if self._quoted(best):
            return None
        wished = [best]
        if not self.talk.of("quote_fare"):
            rivals = [each for each in choice.ranked if each.flight != best.flight]
            other_day = [each for each in rivals if each.day != best.day]
            wished += (other_day or rivals)[:1]
        calls = [
            call
            for each in wished
            for call in self._call(
                "quote_fare", flight=each.flight, date=str(each.day), fare=each.fare
            )
        ]
        return self._use(calls, self.voice.aside(words.QUOTE))

    def _propose(self, choice: Choice) -> wire.Message | None:
        if not self.wishes.propose_only:
            return None
        lead = "My shortlist" if len(choice.ranked) > 1 else "My one candidate"
        text = words.shortlist(choice, looks=self.looks)
        return wire.say(f"{lead}: {text} Tell me to go ahead and I'll hold the first.")

    def _question(self, choice: Choice) -> wire.Message | None:
        if not self.talk.offers("ask_traveller") or self.talk.of("ask_traveller"):
            return None
        best = choice.ranked[0]
        if self.wishes.ask_first:
            why = self._why(choice)
            question = f"May I hold {best.flight} on {day(best.day)}, {best.fare}, {money(best.price)}?"
            return self._use(
                self._call(
                    "ask_traveller",
                    traveller=self._passenger(),
                    question=question,
                    options=["Yes, go ahead", "No, look further"],
                    reason=f"You asked to be asked first. {why}",
                ),
                None,
            )
        profile = self._profile()
        if profile and not profile.get("seat") and not self.wishes.seat:
            length = f"{best.minutes // 60}-hour" if best.minutes >= 60 else "short"
            return self._use(
                self._call(
                    "ask_traveller",
                    traveller=self._passenger(),
                    question=f"Window or aisle for the {length} flight?",
                    options=["Window", "Aisle"],
                    reason="The profile has no seat preference, and seats on"
                    f" {best.flight} are given out when it is booked.",
                ),
                None,
            )
        return None

    def _hold(self, choice: Choice) -> wire.Message | None:
        best = choice.ranked[0]
        if not self.talk.offers("hold_fare"):
            return None
        why = self._why(choice)
        calls = self._call(
            "hold_fare",
            flight=best.flight,
            date=str(best.day),
            passenger=self._passenger(),
            fare=best.fare,
            price=words.amount(best.price),
            reason=why,
        )
        said = self.voice.hold(best, why)
        if self.wishes.thorough:
            said += f" I compared: {words.shortlist(choice, looks=self.looks)}"
        return self._use(calls, said)

    # After it

    def _room(self) -> wire.Message | None:
        found = self.talk.done("search_hotels", city=self.brief.destination)
        if not self._wants_room() or not found or not self.talk.offers("hold_hotel"):
            return None
        if self.talk.of("hold_hotel"):
            return None
        rooms = (found.data or {}).get("hotels") or []
        cap = 300 if self.brief.destination in ("NYC", "LON", "TYO") else 220
        area = self.brief.area.casefold()
        near = [room for room in rooms if str(room.get("area", "")).casefold() == area]
        fitting = [
            room
            for room in near or rooms
            if float(room.get("nightly") or 0) <= cap and room.get("refundable", True)
        ]
        if not fitting:
            return None
        room = fitting[0]
        why = (
            f"{money(room['nightly'])} a night is within policy 4.2 and the rate can be"
            " cancelled."
        )
        return self._use(
            self._call(
                "hold_hotel",
                hotel=room["hotel"],
                guest=self._passenger(),
                check_in=found.arguments["check_in"],
                nights=found.arguments.get("nights", 1),
                reason=why,
            ),
            self.voice.aside((f"A room at {room['hotel']}: {why}",)),
        )

    def _book(self) -> wire.Message | None:
        if self.talk.done("book_flight"):
            return None
        choice = self._choice()
        best = choice.ranked[0]
        hold = self._is_held(best)
        why = self._why(choice)
        arguments: dict[str, Any] = {
            "flight": best.flight,
            "date": str(best.day),
            "passenger": self._passenger(),
            "fare": best.fare,
            "price": words.amount(best.price),
            "reason": f"{best.flight}: {why[0].lower()}{why[1:]}",
        }
        if seat := self.wishes.seat or (self._profile() or {}).get("seat"):
            arguments["seat"] = seat
        if hold and hold.data:
            arguments["hold"] = hold.data.get("hold", "")
        it = f"{best.flight} for {self._passenger()}"
        return self._use(
            self._call("book_flight", **arguments), self.voice.aside(words.BOOK, it=it)
        )

    def _tell(self) -> wire.Message | None:
        booked = self.talk.done("book_flight")
        if self.wishes.email is False or not booked:
            return None
        profile = self._profile() or {}
        wished = [profile["email"]] if profile.get("email") else []
        wished += [each for each in self.brief.copies if each not in wished]
        told = [each.arguments.get("to") for each in self.talk.of("send_email")]
        for address in wished:
            if address in told:
                continue
            return self._use(
                self._call(
                    "send_email",
                    to=address,
                    subject=f"Your trip to {self._city()}",
                    body=f"Dear {self._passenger().split()[0]},\n\n{self._summary(who='You fly')}"
                    "\n\nNorthwind Travel Desk",
                    reason="Policy 6.3: travellers get one short message with the"
                    " itinerary.",
                ),
                self.voice.aside((f"Sending {address} the itinerary.",)),
            )
        return None

    def _after_booking(self) -> wire.Message | None:
        """People say something more once the ticket is bought."""
        booked = self.talk.done("book_flight")
        if not booked or not booked.data or not self.talk.said:
            return None
        last = self.talk.said[-1]
        refunds = self.talk.of("refund_ticket")
        asked = _CANCEL.search(last)
        if asked and not refunds and self.talk.offers("refund_ticket"):
            data = booked.data
            how = "in full" if data.get("refundable") else "as far as its fare permits"
            return self._use(
                self._call(
                    "refund_ticket",
                    booking=data.get("booking", ""),
                    passenger=data.get("passenger") or self._passenger(),
                    amount=data.get("price", "0"),
                    reason=f"You asked for it: “{last[:120]}” The fare comes back {how}"
                    " (policy 5.1).",
                ),
                f"I'll ask for the refund of {data.get('booking', 'the ticket')}.",
            )
        if refunds:
            if refunds[-1].ok:
                return wire.say("The ticket is cancelled and refunded. Anything else?")
            return wire.say(f"The refund did not go through: {refunds[-1].text[:200]}")
        if self.talk.last_role == "user" and len(self.talk.said) > 1:
            if briefs.ADDRESS.search(last):
                return None  # someone else is to be told
            if _THANKS.search(last):
                return wire.say("You're welcome. Have a good trip.")
            return wire.say(
                f"The trip stands: {self._summary()} To change it I would refund this"
                " ticket and book anew; tell me if I should."
            )
        return None

    # What is known

    def _profile(self) -> dict[str, Any] | None:
        found = self.talk.done("get_traveller")
        return found.data if found else None

    def _tried_profile(self) -> bool:
        tried = self.talk.of("get_traveller")
        return bool(tried) or not self.talk.offers("get_traveller")

    def _with_profile(self, brief: Brief) -> Brief:
        """Home and calendar stand in for what nobody said."""
        profile = self._profile() or {}
        if brief.origin is None and profile.get("home") != brief.destination:
            brief = replace(brief, origin=profile.get("home"))
        if not brief.dates():
            for event in profile.get("calendar") or ():
                if event.get("city") == brief.destination:
                    due = datetime.fromisoformat(event["at"])
                    brief = replace(brief, due=due)
        return brief

    def _passenger(self) -> str:
        profile = self._profile() or {}
        return profile.get("name") or self.brief.traveller or "the traveller"

    def _city(self) -> str:
        city = places.find(self.brief.destination or "")
        return city.name if city else str(self.brief.destination)

    def _wants_room(self) -> bool:
        stays = self.brief.nights or self.brief.until
        wished = self.wishes.hotel
        return wished is not False and bool(wished or stays)

    def _why(self, choice: Choice) -> str:
        return self.voice.why(choice, self.brief, looks=self.looks)

    def _choice(self) -> Choice:
        failed = [*self._setbacks(), *self.refused]
        excluded = frozenset(
            (
                str(each.arguments.get("flight")),
                str(each.arguments.get("date")),
                str(each.arguments.get("fare")),
            )
            for each in failed
            if each.name in ("hold_fare", "book_flight")
        )
        return choose.rank(
            choose.options(self.talk, self.brief),
            self.wishes,
            self.brief,
            self.talk,
            excluded,
        )

    def _setbacks(self) -> list[Exchange]:
        """Holds and bookings that the other side, not a person, turned down."""
        return [
            each
            for name in ("hold_fare", "book_flight")
            for each in self.talk.failures(name)
            if not each.rejected
        ]

    def _refused(self, name: str) -> bool:
        return any(each.name == name for each in self.refused)

    def _is_held(self, option: Option) -> Exchange | None:
        return self.talk.done(
            "hold_fare",
            flight=option.flight,
            date=str(option.day),
            fare=option.fare,
        )

    def _held_or_booked(self) -> bool:
        return bool(self.talk.done("hold_fare") or self.talk.done("book_flight"))

    def _quoted(self, option: Option) -> bool:
        return not self.talk.offers("quote_fare") or any(
            each.arguments.get("flight") == option.flight
            and each.arguments.get("date") == str(option.day)
            and each.arguments.get("fare") == option.fare
            for each in self.talk.of("quote_fare")
        )

    def _giving_up(self) -> str | None:
        """Why the desk stops trying, if it should."""
        trouble = [*self._setbacks(), *self.refused]
        if not trouble:
            return None
        last = trouble[-1].text[:240]
        if _DOUBT.search(last):
            return (
                "I can't tell whether that went through, so I won't try it again."
                " Please check with the airline first, then tell me how to go on."
            )
        if len(trouble) >= TRIES or any(
            _HALT.search(each.text) for each in self.refused
        ):
            return f"Understood, I stop here. {last}"
        return None

    def _summary(self, who: str = "") -> str:
        booked = self.talk.done("book_flight")
        data = (booked.data if booked else None) or {}
        route = data.get("route", "")
        parts = [
            f"{who or self._passenger() + ' flies'} {data.get('flight', '')}"
            f" on {data.get('date', '')}{f', {route}' if route else ''},"
            f" {data.get('fare', '')}"
            f"{', ' + data['seat'] + ' seat' if data.get('seat') else ''}, for"
            f" {money(data.get('price') or '0')}, booking {data.get('booking', '')}."
        ]
        room = self.talk.done("hold_hotel")
        if room and room.data:
            parts.append(
                f"{room.data.get('hotel')} is held for {room.data.get('nights')} nights"
                f" from {room.data.get('check_in')}."
            )
        return " ".join(parts)

    # Calls

    def _call(self, name: str, /, **arguments: Any) -> list[wire.Message]:
        """The call, with `reason` only where the tool asks for one; [] if not offered."""
        tool = self.talk.tools.get(name)
        if tool is None:
            return []
        properties = (tool.get("parameters") or {}).get("properties") or {}
        kept = {key: value for key, value in arguments.items() if value is not None}
        if "reason" not in properties:
            kept.pop("reason", None)
        return [wire.call(name, json.dumps(kept, ensure_ascii=False))]

    def _use(
        self, calls: Iterable[wire.Message], text: str | None
    ) -> wire.Message | None:
        made = list(calls)
        return wire.use(made, text) if made else None


_READS = frozenset({"search_flights", "search_hotels"})
_NO = re.compile(r"\W*(no|nope|don't|do not)\b", re.IGNORECASE)
_CANCEL = re.compile(r"\b(refund|cancel|call (?:it|the trip) off)\b", re.IGNORECASE)
_HALT = re.compile(
    r"\b(stop here|leave it|never ?mind|called off|no longer needed|give up)\b",
    re.IGNORECASE,
)
_DOUBT = re.compile(r"is not known|outcome unknown", re.IGNORECASE)
_THANKS = re.compile(r"\bthank", re.IGNORECASE)


def _latest_trip(talk: Talk) -> Talk:
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
