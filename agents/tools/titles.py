"""Titles of calls: a template filled with arguments, for people to recognise.

Only `{name}` is replaced. Python's own formatting would let a template reach into
objects, and raises where an argument is missing; a title never fails.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from agents.pure.labels import first_words

VALUE_CHARACTERS = 60
TITLE_CHARACTERS = 140
MISSING = "…"

_AMOUNT = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,9})?")
_SLOT = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


def fill(template: str, arguments: Mapping[str, Any]) -> str:
    """The title of a call with these arguments, on one line."""
    return first_words(
        _SLOT.sub(lambda slot: value(arguments.get(slot[1])), template),
        TITLE_CHARACTERS,
    )


def plain(name: str, arguments: Mapping[str, Any] | None) -> str:
    """`name(first, second)`: the title of a call whose tool declares none."""
    shown = ", ".join(map(value, (arguments or {}).values()))
    if arguments is None:
        shown = MISSING
    return first_words(f"{name or 'unnamed tool'}({shown})", TITLE_CHARACTERS)


def grouped(amount: Any) -> Any:
    """An exact number as people read it: "1,200.00". Anything else stays as it is."""
    if isinstance(amount, str) and _AMOUNT.fullmatch(amount):
        return f"{Decimal(amount):,}"
    return amount


def slots(template: str) -> list[str]:
    """The names of the arguments that a template uses."""
    return _SLOT.findall(template)


def value(argument: Any) -> str:
    """One argument, short."""
    match argument:
        case None | "":
            return MISSING
        case bool():
            return "yes" if argument else "no"
        case list():
            return first_words(", ".join(map(value, argument)), VALUE_CHARACTERS)
        case dict():
            return first_words(
                ", ".join(map(value, argument.values())), VALUE_CHARACTERS
            )
    return first_words(str(argument), VALUE_CHARACTERS)
