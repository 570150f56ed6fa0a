"""Checks of one value of a file: each raises BadFile, which names its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from agents.errors import BadFile
from agents.pure.bundles.file import kind, shown

Check = Callable[[Any, str], None]

_DOLLARS = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?\Z")


def fields(value: Any, place: str, checks: Mapping[str, Check]) -> None:
    """An object with these keys, no other, each as its check says."""
    if not isinstance(value, dict):
        raise BadFile(place, f"expected an object, found {kind(value)}.")
    for name in value:
        if name not in checks:
            raise BadFile(place, f"the key {shown(name)} does not belong there.")
    for name, check in checks.items():
        if name not in value:
            raise BadFile(place, f"the key {shown(name)} is missing.")
        check(value[name], f"{place}: {name}")


def text(most: int, form: str = "") -> Check:
    """A text of up to so many characters, of this form where one is given."""
    pattern = re.compile(form + r"\Z") if form else None

    def check(value: Any, place: str) -> None:
        if not isinstance(value, str):
            raise BadFile(place, f"expected a text, found {kind(value)}.")
        if len(value) > most:
            raise BadFile(place, f"{len(value):,} characters; {most:,} at most.")
        if pattern is not None and not pattern.match(value):
            raise BadFile(place, "this text has not the form of one.")

    return check


def one_of(*choices: str) -> Check:
    def check(value: Any, place: str) -> None:
        if not isinstance(value, str) or value not in choices:
            raise BadFile(place, f"expected one of {', '.join(choices)}.")

    return check


def whole(least: int, most: int) -> Check:
    def check(value: Any, place: str) -> None:
        if type(value) is not int or not least <= value <= most:
            raise BadFile(place, f"expected a whole number from {least} to {most}.")

    return check


def a_number(value: Any, place: str) -> None:
    if type(value) not in (int, float):
        raise BadFile(place, f"expected a number, found {kind(value)}.")


def moment(value: Any, place: str) -> None:
    try:
        if datetime.fromisoformat(value).tzinfo is not None:
            return
    except (TypeError, ValueError):
        pass
    raise BadFile(place, "expected a time with its zone, as 2026-07-14T09:30:00+00:00.")


def money(value: Any, place: str) -> None:
    # As the column gives it back: the state chain covers each of its digits.
    if isinstance(value, str) and _DOLLARS.match(value):
        return
    raise BadFile(place, 'expected US dollars as a text, such as "0.0125".')


def maybe(check: Check) -> Check:
    def checked(value: Any, place: str) -> None:
        if value is not None:
            check(value, place)

    return checked


def items(most: int, of: Check | None = None) -> Check:
    def check(value: Any, place: str) -> None:
        if not isinstance(value, list):
            raise BadFile(place, f"expected a list, found {kind(value)}.")
        if len(value) > most:
            raise BadFile(place, f"{len(value):,} items; {most:,} at most.")
        for number, item in enumerate(value if of is not None else ()):
            assert of is not None  # as asked above
            of(item, f"{place} {number}")

    return check


def an_object(checks: Mapping[str, Check]) -> Check:
    return lambda value, place: fields(value, place, checks)


def anything(value: Any, place: str) -> None:
    """Checked by who reads it."""
