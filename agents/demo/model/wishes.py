"""What a prompt or a message wants of a trip, read by plain patterns.

Later texts win over earlier ones: the message over the prompt, an answer or the reason
of a rejection over both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from decimal import Decimal

ECONOMY, PREMIUM, BUSINESS = "economy", "premium economy", "business"
AIRLINES = {
    "TAP Air Portugal": r"TAP|Air Portugal",
    "United": r"United(?! States| Kingdom| Nations)",
    "Iberia": r"Iberia",
    "Japan Airlines": r"Japan Airlines|JAL",
    "ANA": r"ANA|All Nippon",
    "Korean Air": r"Korean(?: Air)?",
    "Emirates": r"Emirates",
    "Turkish Airlines": r"Turkish(?: Airlines)?",
    "Swiss": r"Swiss",
    "Merlin Air": r"Merlin(?: Air)?",
}
LANGUAGES = {
    "German": r"\b(?:German|Deutsch)\b",
    "Portuguese": r"\b(?:Portuguese|português)\b",
    "French": r"\b(?:French|français)\b",
    "Spanish": r"\b(?:Spanish|español)\b",
}
NOT = r"(?:no|not|never|avoid|without|don't|do not|except|rather than|instead of)"
NO_CABIN = NOT + r"\s+(?:fly(?:ing)?\s+|book(?:ing)?\s+|in\s+|use\s+)?"
CABINS = {
    PREMIUM: r"premium(?:[ -]economy)?",
    BUSINESS: r"business(?:[ -]class| cabin| fares?| only| seats?)"
    r"|(?<=in )business|(?<=fly )business|(?<=prefer )business|(?<=to )business",
    ECONOMY: r"(?<!premium )(?<!premium-)economy",
}
MONEY = r"(?:USD|US\$|\$)?\s*(\d[\d,]*(?:\.\d+)?)"
LIMIT = re.compile(
    r"(?:no more than|at most|under|below|max(?:imum)?(?: of| is)?:?|up to|exceed(?:s|ing)?"
    r"|(?:budget|limit|cap)(?: is| of|:)?|cheaper than|less than|not over"
    r"|spend(?:ing)? (?:more than|over))\s*" + MONEY,
    re.IGNORECASE,
)
CAREFUL = re.compile(
    r"arrival (?:date|day|time)|(?:date|day|time) of arrival|time ?zone|date ?line"
    r"|local (?:time|date)|\+ ?1|next[ -]day|day before|lands?\b|arriv(?:e|es|ing|al)\b"
    r"|double-?check|verify|careful|calendar|overnight|in time\b|too late"
    r"|check (?:the |all |every |each )*(?:dates?|times?|days?)",
    re.IGNORECASE,
)
ASK = re.compile(
    r"(?:ask|consult|check with|confirm with)\s+(?:the |your |his |her )?"
    r"(?:travell?er|passenger|executive|him|her|them|me|us|someone|a person)"
    r"|(?:ask|confirm)(?: first)? before|ask first|get (?:a |their )?confirmation",
    re.IGNORECASE,
)
PROPOSE = re.compile(
    r"(?:do not|don't|never) (?:hold|book|buy|reserve)(?: or \w+)?"
    r"(?: anything| any \w+| yet| until\b|\.|$)"
    r"|(?:only|just) (?:propose|suggest|recommend|list|shortlist)"
    r"|(?:propose|suggest|recommend|shortlist) only",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Wishes:
    """None: nothing was said about it."""

    cabin: str | None = None
    no_cabins: frozenset[str] | None = None
    if_allowed: bool | None = None  # the cabin, where the policy allows it
    refundable: bool | None = None
    nonstop: bool | None = None
    nonstop_only: bool | None = None
    cheapest: bool | None = None
    fastest: bool | None = None
    early: bool | None = None
    limit: Decimal | None = None
    prefer: frozenset[str] | None = None
    avoid: frozenset[str] | None = None
    seat: str | None = None
    careful: bool | None = None  # reads the arrival's date, and not only its time
    ask_first: bool | None = None
    propose_only: bool | None = None
    brief: bool | None = None
    thorough: bool | None = None
    language: str | None = None
    hotel: bool | None = None
    email: bool | None = None

    def then(self, later: Wishes) -> Wishes:
        said = {
            field.name: value
            for field in fields(later)
            if (value := getattr(later, field.name)) is not None
        }
        return replace(self, **said)


def read(*texts: str) -> Wishes:
    wishes = Wishes()
    for text in texts:
        wishes = wishes.then(_read(text))
    return wishes


def _read(text: str) -> Wishes:
    def says(pattern: str) -> bool:
        return bool(re.search(pattern, text, re.IGNORECASE))

    def flag(yes: str, no: str | None = None) -> bool | None:
        if no and says(no):
            return False
        return True if says(yes) else None

    limits = [Decimal(found.replace(",", "")) for found in LIMIT.findall(text)]
    unwanted = {
        cabin for cabin, word in CABINS.items() if says(NO_CABIN + f"(?:{word})")
    }
    wanted = [
        cabin
        for cabin, word in CABINS.items()
        if cabin not in unwanted and says(rf"\b(?:{word})\b")
    ]
    avoid, prefer = _airlines(text)
    language = [name for name, word in LANGUAGES.items() if says(word)]
    return Wishes(
        cabin=wanted[0] if wanted else None,
        no_cabins=frozenset(unwanted) or None,
        if_allowed=True if wanted and says(r"if (?:the |our )?policy|allow") else None,
        refundable=_refundable(text),
        nonstop=flag(
            r"\bnon-?stop|\bdirect flight",
            r"(?:stop|connection|layover)s? (?:is|are) (?:fine|ok|okay|allowed)"
            r"|even with (?:a|one) (?:stop|connection)|\bone stop\b",
        ),
        nonstop_only=flag(
            r"non-?stop only|only (?:book |fly |take )?non-?stop|must be non-?stop"
            r"|(?:never|no|avoid) (?:a )?(?:connection|layover|stopover|stops?\b)"
        ),
        cheapest=flag(r"cheapest|lowest|save money|minimi[sz]e (?:the )?cost"),
        fastest=flag(r"fastest|shortest|quickest"),
        early=flag(r"\bearl(?:y|ier|iest)\b|day before", r"\blatest\b"),
        limit=min(limits) if limits else None,
        prefer=prefer or None,
        avoid=avoid or None,
        seat=_seat(text),
        careful=True if CAREFUL.search(text) else None,
        ask_first=True if ASK.search(text) else None,
        propose_only=flag(
            PROPOSE.pattern, r"\b(?:go ahead|please book|you may (?:book|hold))\b"
        ),
        brief=flag(
            r"\b(?:brief(?:ly)?|concise|terse|succinct|short)\b|in one sentence|(?:few|fewer) words"
        ),
        thorough=flag(r"in detail|step by step|explain|reasoning|alternatives|compare"),
        language=language[0] if language else None,
        hotel=flag(
            r"\bhotel|\bnights?\b|\bstay",
            r"(?:no|without a?|skip the|needs no) ?hotel|hotel is (?:booked|arranged)",
        ),
        email=flag(
            r"\be-?mail|itinerary",
            r"(?:no|don't send|do not send)(?: any| an?)? e-?mails?",
        ),
    )


def _refundable(text: str) -> bool | None:
    if re.search(r"non-?refundable", text, re.IGNORECASE):
        fine = r"non-?refundable\w*(?: \w+)? (?:is|are) (?:fine|ok|okay|allowed)"
        return not re.search(fine, text, re.IGNORECASE)
    if re.search(r"refundable|\bflex(?:ible)?\b|cancell?able", text, re.IGNORECASE):
        return True
    return None


def _seat(text: str) -> str | None:
    seats = re.findall(r"\b(window|aisle)\b", text, re.IGNORECASE)
    # A question that offers both has said nothing.
    return seats[0].lower() if len({seat.lower() for seat in seats}) == 1 else None


def _airlines(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Those to avoid, and those to prefer."""
    avoid, prefer = set(), set()
    for name, word in AIRLINES.items():
        if re.search(rf"(?i:\b{NOT})\W+(?:\w+\W+){{0,2}}(?:{word})\b", text):
            avoid.add(name)
        elif re.search(rf"\b(?:{word})\b", text):
            prefer.add(name)
    return frozenset(avoid), frozenset(prefer)
