"""What the list's address says: the tab, the filters, and what of them makes no sense.

A filter that cannot be read is left out and told of, by its name; the others hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.http import QueryDict
from django.utils.dateparse import parse_date

from agents.pages import text
from agents.pure.searched import is_name

VIEWS = ("all", "waiting", "running", "failed", "done", "forked", "starred", "archived")
PERIODS = {"day": "Last 24 hours", "week": "Last 7 days", "month": "Last 30 days"}
AGES = {
    "day": timedelta(days=1),
    "week": timedelta(days=7),
    "month": timedelta(days=30),
}
FORKS = {"yes": "With forks", "no": "Without forks"}
PROGRAM = "~program"  # no person's name: those have no tilde
LONGEST = 250  # characters of a filter: the name of a field, and its value
LAST_WHOLE = 2**31 - 1  # of a step and of a version's number, in PostgreSQL
MOST_TOKENS = Decimal(10**15)
MOST_COST = Decimal(10**9)  # dollars
MOST_SECONDS = Decimal(10**9)
_SCALE = {"": 1, "k": 1_000, "m": 1_000_000}
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600}


def _as_it_is(typed: str) -> str:
    return typed


def _whole(typed: str) -> int:
    typed = typed.removeprefix("v")
    if not (typed.isascii() and typed.isdecimal()) or len(typed) > 10:
        raise ValueError
    return min(int(typed), LAST_WHOLE)


def _dollars(typed: str) -> Decimal:
    amount, _ = _measured(typed.removeprefix("$").replace(",", ""), "")
    return min(amount, MOST_COST)


def _tokens(typed: str) -> int:
    number, unit = _measured(typed.replace(",", "").lower(), "km")
    return int(min(number * _SCALE[unit], MOST_TOKENS))


def _seconds(typed: str) -> timedelta:
    number, unit = _measured(typed.replace(" ", "").lower(), "smh")
    return timedelta(seconds=float(min(number * _UNITS[unit], MOST_SECONDS)))


def _measured(typed: str, units: str) -> tuple[Decimal, str]:
    """A number, and the letter behind it where there is one of these."""
    unit = typed[-1:] if typed[-1:] in tuple(units) else ""
    number = typed.removesuffix(unit)
    if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,6})?", number):
        raise ValueError
    return Decimal(number), unit


def _field(typed: str) -> tuple[str, str]:
    name, _, value = (part.strip() for part in typed.partition("="))
    if not value or not is_name(name):
        raise ValueError
    return name, value


def _day(typed: str) -> date:
    day = parse_date(typed)  # raises ValueError for 30 February
    if day is None or not 2000 <= day.year < 3000:
        raise ValueError
    return day


def _one_of(known: Mapping[str, str]) -> Callable[[str], str]:
    def one(typed: str) -> str:
        if typed not in known:
            raise ValueError
        return typed

    return one


@dataclass(frozen=True)
class Kind:
    """One filter: its label in the form, how it is read, and how a chip says it."""

    label: str
    parse: Callable[[str], Any]  # raises ValueError
    said: Callable[[Any], str]
    expected: str = ""


KINDS: dict[str, Kind] = {
    "agent": Kind("Agent", _as_it_is, "agent {}".format),
    "version": Kind(
        "Agent's version", _whole, "version {}".format, "a whole number, such as 3"
    ),
    "step": Kind(
        "Failed at step",
        _whole,
        "failed at step {}".format,
        "a whole number, such as 5",
    ),
    "tool": Kind("Tool called", _as_it_is, "called {}".format),
    "error": Kind("Error class", _as_it_is, "failed with {}".format),
    "cost": Kind(
        "Cost over",
        _dollars,
        lambda amount: f"over {text.money(amount)}",
        "US dollars, such as 0.10",
    ),
    "tokens": Kind(
        "Tokens over",
        _tokens,
        lambda tokens: f"over {text.exact(tokens)} tokens",
        "a number, such as 38000 or 38k",
    ),
    "time": Kind(
        "Time at work over",
        _seconds,
        lambda length: f"over {text.duration(length)} at work",
        "seconds, or 5m, or 1.5h",
    ),
    "by": Kind(
        "Started by",
        _as_it_is,
        lambda who: f"started by {'a program' if who == PROGRAM else who}",
    ),
    "label": Kind("Label", _as_it_is, "labelled {}".format),
    "field": Kind(
        "Declared field",
        _field,
        "{0[0]} = {0[1]}".format,
        "a declared field and its value, such as order=4711",
    ),
    "forks": Kind(
        "Forks", _one_of(FORKS), lambda word: FORKS[word].lower(), "yes or no"
    ),
    "since": Kind(
        "Last step",
        _one_of(PERIODS),
        lambda period: f"moved in the {PERIODS[period].lower()}",
        ", ".join(PERIODS),
    ),
    "from": Kind("Begun from", _day, "begun from {}".format, "a day, as 2026-11-30"),
    "to": Kind("Begun until", _day, "begun until {}".format, "a day, as 2026-11-30"),
}
NAMES = (*KINDS, "q")


@dataclass(frozen=True)
class Filters:
    """The tab, and what it is narrowed to.

    `typed` is what the address has for each filter; `values` what of it could be read;
    `wrong` says, by the filter's name, why the rest could not.
    """

    view: str = "all"
    typed: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    wrong: Mapping[str, str] = field(default_factory=dict)
    text: str = ""  # that titles and states are searched for

    @classmethod
    def of(cls, query: QueryDict) -> Filters:
        typed = {name: _clean(query.get(name, "")) for name in NAMES}
        values, wrong = {}, {}
        for name, kind in KINDS.items():
            if not typed[name]:
                continue
            try:
                values[name] = kind.parse(typed[name])
            except ValueError:
                wrong[name] = (
                    f"{kind.label}: found “{typed[name]}”, expected {kind.expected}."
                )
        begun = [values[name] for name in ("from", "to") if name in values]
        if begun != sorted(begun):
            del values["to"]
            wrong["to"] = (
                f"Begun until: found {begun[1]}, which is before {begun[0]}; expected"
                " the same day or a later one."
            )
        view = _clean(query.get("status", "")) or "all"
        if view not in VIEWS:
            wrong["status"] = (
                f"Status: found “{view}”, expected one of {', '.join(VIEWS)}."
            )
            view = "all"
        return cls(view, typed, values, wrong, typed["q"])

    @property
    def chosen(self) -> dict[str, str]:
        """As the address has them, without the tab, the page, and what is wrong."""
        found = {name: self.typed[name] for name in KINDS if name in self.values}
        return found | ({"q": self.text} if self.text else {})

    def address(self, **changes: str) -> str:
        """The list's address with this tab and these filters, and others in their place."""
        query = QueryDict(mutable=True)
        for name, value in ({"status": self.view} | self.chosen | changes).items():
            if value and (name, value) != ("status", "all"):
                query[name] = value
        return f"?{query.urlencode()}"

    @property
    def cleared(self) -> str:
        """The address of this tab without filters."""
        return Filters(self.view).address()

    @property
    def chips(self) -> list[tuple[str, str]]:
        """Each filter in words, and the address without it."""
        return [(self._said(name), self.address(**{name: ""})) for name in self.chosen]

    @property
    def said(self) -> list[str]:
        """What is filtered by, in words."""
        tab = [] if self.view == "all" else [self.view]
        return tab + [self._said(name) for name in self.chosen]

    def _said(self, name: str) -> str:
        return f"“{self.text}”" if name == "q" else KINDS[name].said(self.values[name])

    @property
    def wrong_fields(self) -> bool:
        """Whether a field of the form has to be put right; tab and search are none."""
        return bool(set(self.wrong) - {"status", "q"})

    @property
    def begun(self) -> tuple[datetime | None, datetime | None]:
        """Midnights in UTC between which a thread began; the second is not included."""
        first, last = self.values.get("from"), self.values.get("to")
        return (
            _midnight(first) if first else None,
            _midnight(last + timedelta(days=1)) if last else None,
        )


def _clean(typed: str) -> str:
    """PostgreSQL takes no NUL."""
    return typed.replace("\0", "").strip()[:LONGEST]


def _midnight(day: date) -> datetime:
    return datetime.combine(day, datetime.min.time(), UTC)
