"""The travel desk: what a careful agent would do next, given everything said so far.

There is no memory and no script. Each reply is worked out from the transcript: what is
known, what was tried, what came back, what people and the prompt wish for. So an
edited prompt, another parameter or another tool result leads elsewhere by itself.

    profile, policy → flights → hotels → quotes → (ask) → hold → room → book → tell
"""

from __future__ import annotations

import json
import re
from typing import Any

from agents.demo.model import brief as briefs
from agents.demo.model import wire, words
from agents.demo.model.choose import Choice, day, money
from agents.demo.model.known import Known
from agents.demo.model.transcript import Talk
from agents.demo.model.words import Voice
from agents.demo.world import places

NEEDED = {"search_flights", "book_flight"}  # tools by which a travel desk is known
SEARCHES = frozenset({"search_flights", "search_hotels"})
CANCEL = re.compile(r"\b(refund|cancel|call (?:it|the trip) off)\b", re.IGNORECASE)
THANKS = re.compile(r"\bthank", re.IGNORECASE)
DEAR_CITIES = ("NYC", "LON", "TYO")  # policy 4.2


def answer(talk: Talk) -> wire.Message:
    return Desk(talk).next()


class Desk:
    """One reply's worth of thought. Each step returns a message, or None: go on."""

    def __init__(self, talk: Talk) -> None:
        self.known = Known(talk)
        self.talk = self.known.talk
        self.wishes = self.known.wishes
        self.brief = self.known.brief
        self.voice = Voice(self.talk, self.wishes)

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
        booked = self.known.data("book_flight") or {}
        return wire.say(self.voice.done(self.known.summary(), booked))

    # Before there is a choice

    def _missing(self) -> wire.Message | None:
        """Ask for what no tool can find out."""
        known, city = self.known, self.known.city
        if self.brief.destination is None:
            where = ", ".join(place.name for place in places.CITIES)
            return wire.say(
                "Who travels, from where to where, and on which day?"
                if self.wishes.brief
                else "Happy to plan a trip. Who travels, from where to where, and on"
                f" which day? I know the way to {where}."
            )
        if self.brief.traveller and not known.tried_profile():
            return None  # the profile may say the rest
        if not self.brief.dates():
            return wire.say(f"On which day should the trip to {city} be?")
        if self.brief.origin is None:
            return wire.say(f"From where does the trip to {city} start?")
        return None

    def _opening(self) -> wire.Message | None:
        calls = []
        if self.brief.traveller and not self.known.tried_profile():
            calls += self._call("get_traveller", name=self.brief.traveller)
        if not self.talk.of("lookup_policy"):
            calls += self._call("lookup_policy", topic="flights")
        return _use(calls, self.voice.aside(words.OPENING))

    def _retry(self) -> wire.Message | None:
        """A search that just failed is tried once more; then it is reported."""
        if not self.talk.exchanges or self.talk.last_role != "tool":
            return None
        last = self.talk.exchanges[-1]
        if last.ok or last.rejected or last.name not in SEARCHES:
            return None
        failures = self.talk.failures(last.name)
        if sum(each.arguments == last.arguments for each in failures) < 2:
            return _use(self._call(last.name, **last.arguments), None)
        return wire.say(f"I can't go on: {last.text[:200]} What should I do instead?")

    def _flights(self) -> wire.Message | None:
        if self.known.is_settled():
            return None
        origin, destination = self.brief.origin, self.brief.destination
        for number, date in enumerate(self.brief.dates()):
            route = {"origin": origin, "destination": destination, "date": str(date)}
            if not self.talk.done("search_flights", **route):
                aside = words.COMPARE if number else words.SEARCH
                return _use(
                    self._call("search_flights", **route),
                    self.voice.aside(aside, day=day(date)),
                )
        return None

    def _hotels(self) -> wire.Message | None:
        if not self.known.wants_room or self.known.is_settled():
            return None
        place = {"city": self.brief.destination, "check_in": str(self.brief.check_in)}
        if not self.talk.done("search_hotels", **place):
            return _use(
                self._call(
                    "search_hotels",
                    **place,
                    nights=self.brief.stay,
                    area=self.brief.area or None,
                ),
                self.voice.aside(words.HOTELS, city=self.known.city),
            )
        if len(self.talk.of("lookup_policy")) < 2:
            calls = self._call("lookup_policy", topic="hotels")
            return _use(calls, self.voice.aside(words.HOTEL_POLICY))
        return None

    # The choice

    def _choose(self) -> wire.Message | None:
        """Quote, ask where asking is wished for, and hold the best option."""
        if self.talk.done("book_flight"):
            return None
        if ended := self.known.end():
            return wire.say(ended)
        choice = self.known.choice()
        if not choice.ranked:
            return wire.say(words.nothing_fits(choice, self.brief))
        if self.known.held(choice.ranked[0]):
            return None
        return (
            self._quotes(choice)
            or self._propose(choice)
            or self._question(choice)
            or self._hold(choice)
        )

    def _quotes(self, choice: Choice) -> wire.Message | None:
        best = choice.ranked[0]
        if self.known.quoted(best):
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
        return _use(calls, self.voice.aside(words.QUOTE))

    def _propose(self, choice: Choice) -> wire.Message | None:
        if not self.wishes.propose_only:
            return None
        lead = "My shortlist" if len(choice.ranked) > 1 else "My one candidate"
        text = words.shortlist(choice, looks=self.known.looks)
        return wire.say(f"{lead}: {text} Tell me to go ahead and I'll hold the first.")

    def _question(self, choice: Choice) -> wire.Message | None:
        if not self.talk.offers("ask_traveller") or self.talk.of("ask_traveller"):
            return None
        best, profile = choice.ranked[0], self.known.profile()
        if self.wishes.ask_first:
            question = (
                f"May I hold {best.flight} on {day(best.day)}, {best.fare},"
                f" {money(best.price)}?"
            )
            options = ["Yes, go ahead", "No, look further"]
            reason = f"You asked to be asked first. {self._why(choice)}"
        elif profile and not profile.get("seat") and not self.wishes.seat:
            question = f"Window or aisle for the {best.minutes // 60}-hour flight?"
            options = ["Window", "Aisle"]
            reason = (
                "The profile has no seat preference, and seats on"
                f" {best.flight} are given out when it is booked."
            )
        else:
            return None
        calls = self._call(
            "ask_traveller",
            traveller=self.known.passenger,
            question=question,
            options=options,
            reason=reason,
        )
        return _use(calls, None)

    def _hold(self, choice: Choice) -> wire.Message | None:
        best = choice.ranked[0]
        why = self._why(choice)
        calls = self._call(
            "hold_fare",
            flight=best.flight,
            date=str(best.day),
            passenger=self.known.passenger,
            fare=best.fare,
            price=words.amount(best.price),
            reason=why,
        )
        said = self.voice.hold(best, why)
        if self.wishes.thorough:
            said += f" I compared: {words.shortlist(choice, looks=self.known.looks)}"
        return _use(calls, said)

    def _why(self, choice: Choice) -> str:
        return self.voice.why(choice, self.brief, looks=self.known.looks)

    # After it

    def _room(self) -> wire.Message | None:
        """The first room that policy 4.2 permits, in the area that was asked for."""
        found = self.talk.done("search_hotels", city=self.brief.destination)
        if not found or not self.known.wants_room or self.talk.of("hold_hotel"):
            return None
        rooms = (found.data or {}).get("hotels") or []
        cap = 300 if self.brief.destination in DEAR_CITIES else 220
        area = self.brief.area.casefold()
        near = [room for room in rooms if str(room.get("area", "")).casefold() == area]
        for room in near or rooms:
            if float(room.get("nightly") or 0) > cap or not room.get("refundable"):
                continue
            why = (
                f"{money(room['nightly'])} a night is within policy 4.2 and the rate can"
                " be cancelled."
            )
            return _use(
                self._call(
                    "hold_hotel",
                    hotel=room["hotel"],
                    guest=self.known.passenger,
                    check_in=found.arguments["check_in"],
                    nights=found.arguments.get("nights", 1),
                    reason=why,
                ),
                self.voice.aside(words.ROOM, hotel=room["hotel"], why=why),
            )
        return None

    def _book(self) -> wire.Message | None:
        if self.talk.done("book_flight"):
            return None
        choice = self.known.choice()
        best = choice.ranked[0]
        held = self.known.held(best)
        why = self._why(choice)
        calls = self._call(
            "book_flight",
            flight=best.flight,
            date=str(best.day),
            passenger=self.known.passenger,
            fare=best.fare,
            price=words.amount(best.price),
            seat=self.wishes.seat or (self.known.profile() or {}).get("seat"),
            hold=(held.data or {}).get("hold") if held else None,
            reason=f"{best.flight}: {why[0].lower()}{why[1:]}",
        )
        it = f"{best.flight} for {self.known.passenger}"
        return _use(calls, self.voice.aside(words.BOOK, it=it))

    def _tell(self) -> wire.Message | None:
        """The itinerary, to the traveller and to whom else people named."""
        if self.wishes.email is False:
            return None
        own = (self.known.profile() or {}).get("email")
        told = {each.arguments.get("to") for each in self.talk.of("send_email")}
        for address in dict.fromkeys([*([own] if own else []), *self.brief.copies]):
            if address in told:
                continue
            first = self.known.passenger.split()[0]
            return _use(
                self._call(
                    "send_email",
                    to=address,
                    subject=f"Your trip to {self.known.city}",
                    body=f"Dear {first},\n\n{self.known.summary('You fly')}\n\n"
                    "Northwind Travel Desk",
                    reason="Policy 6.3: travellers get one short message with the"
                    " itinerary."
                    if address == own
                    else f"The message asks for it: {self.talk.said[-1][:120]}",
                ),
                self.voice.aside(words.TELL, address=address),
            )
        return None

    def _after_booking(self) -> wire.Message | None:
        """People say something more once the ticket is bought."""
        booked = self.known.data("book_flight")
        if not booked or not self.talk.said:
            return None
        last = self.talk.said[-1]
        if refunds := self.talk.of("refund_ticket"):
            if refunds[-1].ok:
                return wire.say("The ticket is cancelled and refunded. Anything else?")
            return wire.say(f"The refund did not go through: {refunds[-1].text[:200]}")
        if CANCEL.search(last):
            how = (
                "in full" if booked.get("refundable") else "as far as its fare permits"
            )
            calls = self._call(
                "refund_ticket",
                booking=booked.get("booking", ""),
                passenger=booked.get("passenger") or self.known.passenger,
                amount=booked.get("price", "0"),
                reason=f"You asked for it: “{last[:120]}” The fare comes back {how}"
                " (policy 5.1).",
            )
            return _use(
                calls, f"I'll ask for the refund of {booked.get('booking', 'it')}."
            )
        if self.talk.last_role != "user" or len(self.talk.said) < 2:
            return None
        if briefs.ADDRESS.search(last):
            return None  # someone else is to be told
        if THANKS.search(last):
            return wire.say("You're welcome. Have a good trip.")
        return wire.say(
            f"The trip stands: {self.known.summary()} To change it I would refund this"
            " ticket and book anew; tell me if I should."
        )

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


def _use(calls: list[wire.Message], text: str | None) -> wire.Message | None:
    return wire.use(calls, text) if calls else None
