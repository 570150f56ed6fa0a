"""Northwind's travel policy, as `lookup_policy` reads it out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    number: str
    topic: str
    text: str


SECTIONS = (
    Section(
        "3.1",
        "flights",
        "Economy is the rule. Premium economy is allowed on flights over 7 hours,"
        " business on flights over 10 hours with the consent of Finance. Prefer nonstop"
        " flights when they cost at most $300 more. Refundable fares are recommended"
        " when plans may change. Anything over $1,000 needs an approval.",
    ),
    Section(
        "3.4",
        "arrival",
        "Arrive before the day's first appointment; after a flight of 8 hours or more,"
        " arrive the day before it. Dates are those of the place of arrival.",
    ),
    Section(
        "4.2",
        "hotels",
        "Up to $300 a night in New York, London and Tokyo, up to $220 elsewhere."
        " Choose rates that can be cancelled until the day before.",
    ),
    Section(
        "5.1",
        "refunds",
        "Refund what is not used. Refundable fares go back to the corporate card in"
        " full; of other fares only the taxes come back.",
    ),
    Section(
        "6.3",
        "messages",
        "Travellers get one short message with the itinerary. Nothing about a trip is"
        " sent to anyone outside Northwind without an approval.",
    ),
)


def find(topic: str) -> Section | None:
    """The section on a topic; what is asked may be a phrase with its word in it."""
    wanted = topic.casefold()
    for section in SECTIONS:
        if section.topic in wanted or section.topic.rstrip("s") in wanted:
            return section
    for word, topic_ in {
        "cabin": "flights",
        "fare": "flights",
        "premium": "flights",
        "business": "flights",
        "night": "hotels",
        "cancel": "refunds",
        "mail": "messages",
    }.items():
        if word in wanted:
            return next(each for each in SECTIONS if each.topic == topic_)
    return None


def topics() -> list[str]:
    return [section.topic for section in SECTIONS]
