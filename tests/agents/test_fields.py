"""Arguments as a form, and back: what was not touched stays, the rest has its type."""

from __future__ import annotations

from contextlib import suppress
from datetime import date
from decimal import Decimal
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from agents.approvals.fields import describe, elsewhere
from agents.approvals.typed import parse
from agents.errors import InvalidDecision
from agents.tools import tool
from tests.checkpoints.strategies import values


class Guest(BaseModel):
    name: str
    age: int | None = None


@tool(effect="write")
def book(
    flight: str,
    price: Decimal,
    day: date,
    guest: Guest,
    cabin: Literal["economy", "business"] = "economy",
    seats: int = 1,
    refundable: bool = False,
    weight: float | None = None,
    stops: list[str] = [],  # noqa: B006
    fares: list[Decimal] = [],  # noqa: B006
    extras: dict[str, Any] = {},  # noqa: B006
) -> str:
    """Book."""
    return flight


SCHEMA = book.schema
GIVEN: dict[str, Any] = {
    "flight": "TP 209",
    "price": "1200.00",
    "day": "2026-11-21",
    "guest": {"name": "Helen Marsh"},
    "seats": 2,
    "refundable": True,
    "stops": ["LIS", "MAD"],
    "extras": {"meal": "none"},
}


def shown(arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {field.path: field for field in describe(SCHEMA, arguments, **more)}


def post(**typed: str) -> dict[str, str]:
    """The form as shown, with some fields typed over: guest__name for /guest/name."""
    form = {field.name: field.value for field in describe(SCHEMA, GIVEN)}
    changes = {f"arg/{name.replace('__', '/')}": text for name, text in typed.items()}
    assert changes.keys() <= form.keys()
    return form | changes


def test_each_argument_is_a_field_of_its_kind():
    fields = shown(GIVEN)
    assert {path: field.kind for path, field in fields.items()} == {
        "/flight": "text",
        "/price": "decimal",
        "/day": "date",
        "/guest/name": "text",
        "/guest/age": "integer",
        "/cabin": "choice",
        "/seats": "integer",
        "/refundable": "boolean",
        "/weight": "number",
        "/stops": "lines",
        "/fares": "lines",
        "/extras": "json",
    }
    assert fields["/price"].value == "1200.00"
    assert fields["/stops"].value == "LIS\nMAD"
    assert fields["/cabin"].value == ""
    assert [word for word, _ in fields["/cabin"].choices] == ["economy", "business"]
    assert fields["/guest/name"].required
    assert not fields["/guest/age"].required
    assert fields["/guest/name"].id == "arg-guest-name"


def test_what_is_typed_gets_the_type_of_its_field():
    edited = parse(
        SCHEMA,
        post(
            flight="TP 211",
            price="990.50",
            guest__age="41",
            seats="3",
            refundable="false",
            weight="7.5",
            cabin="business",
            stops="LIS\r\n\r\n OPO ",
            fares="10\n20.50",
            extras='{"meal": ["a", 1]}',
        ),
        GIVEN,
    )
    assert edited == {
        "flight": "TP 211",
        "price": "990.50",
        "day": "2026-11-21",
        "guest": {"name": "Helen Marsh", "age": 41},
        "cabin": "business",
        "seats": 3,
        "refundable": False,
        "weight": 7.5,
        "stops": ["LIS", "OPO"],
        "fares": ["10", "20.50"],
        "extras": {"meal": ["a", 1]},
    }
    assert GIVEN["guest"] == {"name": "Helen Marsh"}
    book.validate(edited)


def test_an_optional_field_that_is_emptied_goes():
    edited = parse(SCHEMA, post(seats="", extras=""), GIVEN)
    assert "seats" not in edited
    assert "extras" not in edited


def test_each_field_that_cannot_be_read_says_so():
    with pytest.raises(InvalidDecision) as invalid:
        parse(
            SCHEMA,
            post(
                price="1,200.00",
                day="tomorrow",
                guest__age="old",
                seats="2.5",
                cabin="first",
                fares="10\nmany",
                extras="{",
                flight="",
            ),
            GIVEN,
        )
    assert invalid.value.fields.keys() == {
        "/price",
        "/day",
        "/guest/age",
        "/seats",
        "/cabin",
        "/fares",
        "/extras",
        "/flight",
    }
    assert "1200.00" in invalid.value.fields["/price"]


def test_a_form_that_was_refused_shows_what_was_typed_and_why():
    posted = post(price="1,200.00")
    problems = {"/price": "is a number", "/extras/meal/0": "odd", "": "too long"}
    fields = shown(GIVEN, posted=posted, problems=problems)
    assert fields["/price"].value == "1,200.00"
    assert fields["/price"].error == "is a number"
    assert fields["/extras"].error == "/meal/0: odd"
    assert elsewhere(problems, list(fields.values())) == ["too long"]


def test_a_locked_field_cannot_be_changed():
    with pytest.raises(InvalidDecision, match="cannot be changed"):
        parse(SCHEMA, post(price="1"), GIVEN, locked=["/price"])
    assert parse(SCHEMA, post(), GIVEN, locked=["/price"]) == GIVEN


names = st.sampled_from(sorted(SCHEMA["properties"]))


@given(st.dictionaries(names, values))
def test_a_form_that_nobody_touched_changes_nothing(arguments):
    form = {field.name: field.value for field in describe(SCHEMA, arguments)}
    as_browsers_send_it = {
        name: value.replace("\n", "\r\n") for name, value in form.items()
    }
    assert parse(SCHEMA, as_browsers_send_it, arguments) == arguments


@given(st.dictionaries(names, st.text(max_size=10)))
def test_whatever_is_typed_is_read_or_refused(typed):
    form = {f"arg/{name}": text for name, text in typed.items()}
    with suppress(InvalidDecision):
        parse(SCHEMA, form, GIVEN)
