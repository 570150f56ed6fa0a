"""The trip that people asked for, read from what they said."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta

from agents.demo.world import people, places

TODAY = date(2026, 11, 23)  # the persona's; a Monday
MONTHS = [
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
]
DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec)[a-z]*\.?"
DATE = re.compile(
    r"(?P<iso>\d{4}-\d{2}-\d{2})"
    rf"|(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<month>{MONTH})(?: (?P<year>20\d\d))?"
    rf"|(?P<month2>{MONTH}) (?P<day2>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (?P<year2>20\d\d))?"
    r"|\b(?P<weekday>mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\b"
    rf"(?!,? (?:the )?(?:\d|{MONTH}))"  # of `Mon 30 Nov` the date counts
    r"|\b(?P<near>today|tomorrow)\b",
    re.IGNORECASE,
)
TIME = re.compile(
    r"\b(?P<hour>\d{1,2}):(?P<minute>\d{2})\b|\b(?P<hour12>\d{1,2}) ?(?P<half>[ap]m)\b"
    r"|\b(?P<noon>noon)\b",
    re.IGNORECASE,
)
END = re.compile(r"\b(until|till|through|return|back|home|check-?out)\b", re.IGNORECASE)
DUE = re.compile(
    r"\b(by|before|arriv\w+|lands?|landing|signs?|signing|meet\w*|hearing|starts?|dinner"
    r"|be (?:in|there|at)|speaks?|conference|appointment|presents?)\b",
    re.IGNORECASE,
)
NAME = re.compile(r"\b([A-ZÀ-Ý][a-zà-ÿ'\u2019-]+ [A-ZÀ-Ý][a-zà-ÿ'\u2019-]+)\b")
ADDRESS = re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b")


@dataclass(frozen=True)
class Brief:
    traveller: str | None = None
    origin: str | None = None  # city codes
    destination: str | None = None
    depart: date | None = None
    due: datetime | None = None  # be there by then, on the clock of the destination
    until: date | None = None
    nights: int | None = None
    area: str = ""
    copies: tuple[str, ...] = ()  # addresses that people named

    def dates(self) -> list[date]:
        """Days to look at, the best first."""
        if self.depart:
            return [self.depart]
        if self.due:
            same_day = self.due.time() >= time(15, 0)
            first = self.due.date() - timedelta(days=0 if same_day else 1)
            return [first, first - timedelta(days=1)]
        return []

    @property
    def check_in(self) -> date | None:
        dates = self.dates()
        return dates[0] if dates else None

    @property
    def stay(self) -> int:
        """Nights, at least one."""
        if self.nights:
            return self.nights
        if self.until and self.check_in:
            return max(1, (self.until - self.check_in).days)
        return 2 if self.due and not self.depart else 1


def read(said: Sequence[str]) -> Brief:
    """Later messages change what earlier ones said."""
    brief = Brief()
    for text in said:
        brief = _add(brief, text)
    return brief


def starts_trip(text: str) -> bool:
    """Whether a message names a destination of its own."""
    return _cities(text)[1] is not None


def _add(brief: Brief, text: str) -> Brief:
    origin, destination = _cities(text)
    brief = replace(
        brief,
        traveller=_traveller(text) or brief.traveller,
        origin=origin or brief.origin,
        destination=destination or brief.destination,
        area=_area(text) or brief.area,
        copies=tuple(dict.fromkeys((*brief.copies, *ADDRESS.findall(text)))),
    )
    if nights := re.search(r"\b(\d+|one|two|three|four|five) nights?\b", text, re.I):
        words = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
        number = nights[1].lower()
        brief = replace(brief, nights=words.get(number) or int(number))
    return _dated(brief, text)


def with_orders(brief: Brief, prompt: str) -> Brief:
    """The dates and times that the system prompt orders win over all others."""
    return _dated(brief, prompt)


def _dated(brief: Brief, text: str) -> Brief:
    anchor = brief.depart or (brief.due.date() if brief.due else TODAY)
    for clause in re.split(r"[.;!?](?!\d)|,(?! \d)| and | then |\n", text):
        moment = _time(clause)
        if found := _find_date(clause):
            ends, due = END.search(clause), moment or DUE.search(clause)
            if found["weekday"] and brief.due and not ends and not due:
                # `leave on Sunday`: the last one before they must be there.
                back = (brief.due.weekday() - _weekday(found)) % 7
                anchor = brief.due.date() - timedelta(days=back)
            else:
                anchor = _date(found, anchor)
            if ends:
                brief = replace(brief, until=anchor)
            elif due:
                at = moment or time(23, 59)
                brief = replace(brief, due=datetime.combine(anchor, at))
            else:
                brief = replace(brief, depart=anchor)
        elif moment and DUE.search(clause):
            brief = replace(brief, due=datetime.combine(anchor, moment))
    return brief


def _find_date(clause: str) -> re.Match[str] | None:
    """The first date; `sun`, `sat` and `wed` in small letters are other words."""
    for found in DATE.finditer(clause):
        word = found["weekday"]
        if not word or word[0].isupper() or found[0].lower().endswith("day"):
            return found
    return None


def _weekday(found: re.Match[str]) -> int:
    return DAYS.index(found["weekday"][:3].lower())


def _traveller(text: str) -> str | None:
    for traveller in people.TRAVELLERS:
        if traveller.name.casefold() in text.casefold():
            return traveller.name
    for traveller in people.TRAVELLERS:
        for part in traveller.name.split():
            if re.search(rf"\b{part}\b", text):
                return traveller.name
    for name in NAME.findall(text):
        known = places.find(name) or any(places.find(part) for part in name.split())
        calendar = any(
            part.lower().startswith((*MONTHS, *DAYS)) for part in name.split()
        )
        if not known and not calendar:
            return str(name)
    return None


def _cities(text: str) -> tuple[str | None, str | None]:
    """Origin and destination, as far as they are said."""
    origin = destination = None
    for name in places.names():
        exact = name.isupper()
        pattern = rf"(?P<before>\bfrom |\bleaving |\bto |\bin |\binto |\bat |\bfor |→ ?|-> ?|\u2013 ?)?\b{re.escape(name)}\b(?P<after> ?(?:→|->|\u2013| to ))?"
        for found in re.finditer(pattern, text, 0 if exact else re.IGNORECASE):
            city = places.find(name)
            assert city  # names() lists known names
            before = (found["before"] or "").strip().lower()
            if before in ("from", "leaving") or (found["after"] and not before):
                origin = origin or city.code
            elif city.code != origin:
                destination = destination or city.code
    return origin, destination if destination != origin else None


def _area(text: str) -> str:
    found = re.search(
        r"\b(?:[Hh]otel|stay|room|nights?)\b[^.;]*?\b(?:in|near|around|at) "
        r"((?:the )?[A-Z][\w\u2019']+(?: [A-Z][\w\u2019']+)?)",
        text,
    )
    if not found or places.find(found[1]):
        return ""
    return found[1].removeprefix("the ")


def _date(found: re.Match[str], anchor: date) -> date:
    if found["iso"]:
        try:
            return date.fromisoformat(found["iso"])
        except ValueError:
            return anchor
    if found["near"]:
        return TODAY + timedelta(days=found["near"].lower() == "tomorrow")
    if found["weekday"]:
        return anchor + timedelta(days=(_weekday(found) - anchor.weekday()) % 7)
    month = MONTHS.index((found["month"] or found["month2"])[:3].lower()) + 1
    day = int(found["day"] or found["day2"])
    year = int(found["year"] or found["year2"] or (2026 if month > 8 else 2027))
    try:
        return date(year, month, day)
    except ValueError:
        return anchor


def _time(clause: str) -> time | None:
    found = TIME.search(clause)
    if not found:
        return None
    if found["noon"]:
        return time(12, 0)
    if found["half"]:
        hour = int(found["hour12"]) % 12 + (12 if found["half"].lower() == "pm" else 0)
        return time(hour, 0)
    hour, minute = int(found["hour"]), int(found["minute"])
    return time(hour, minute) if hour < 24 and minute < 60 else None
