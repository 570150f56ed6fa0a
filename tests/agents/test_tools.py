"""Tools from functions: what the model sees, what is checked, what runs."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from agents.errors import ArgumentsDoNotFit, BadDeclaration, UnknownAgent, UnknownTool
from agents.pure.calls import Call
from agents.tools import (
    Agent,
    IdempotencyKey,
    Rule,
    ToolContext,
    ToolError,
    ask,
    never,
    tool,
)
from agents.tools.registry import Registry
from tests.checkpoints.strategies import values


class Leg(BaseModel):
    origin: str
    price: Decimal


@tool(
    effect="external",
    idempotent=True,
    risk="high",
    title="Book {flight} for {passenger}, {price}",
    approve=Rule("dear", when={"path": "/price", "op": "gt", "value": "1000"}),
)
def book(
    flight: str,
    passenger: str,
    price: Annotated[Decimal, Field(description="All in.")],
    cabin: Literal["economy", "business"] = "economy",
    day: date | None = None,
    legs: list[Leg] = [],  # noqa: B006  # pydantic copies it
    *,
    key: IdempotencyKey,
    ctx: ToolContext,
) -> dict[str, Any]:
    """Book a seat."""
    ctx.put("facts", "booked", flight)
    return {"flight": flight, "price": price, "day": day, "key": key}


def call(arguments: dict[str, Any] | None, problem: str = "") -> Call:
    return Call(uuid4(), uuid4(), 0, "x", "book", arguments, problem)


GOOD = {"flight": "TP 209", "passenger": "Helen Marsh", "price": "1200.00"}


def test_the_model_sees_a_schema_with_a_reason_and_without_what_is_ours():
    function = book.offered["function"]
    assert function["description"] == "Book a seat."
    properties = function["parameters"]["properties"]
    assert list(properties) == [
        "flight",
        "passenger",
        "price",
        "cabin",
        "day",
        "legs",
        "reason",
    ]
    assert properties["price"] == {
        "type": "string",
        "format": "decimal",
        "description": "All in.",
    }
    assert "reason" not in function["parameters"]["required"]


def test_the_reason_is_kept_apart_and_never_required():
    fitted = book.fit(call({**GOOD, "reason": "cheapest"}))
    assert fitted.reason == "cheapest"
    assert fitted.arguments == GOOD
    assert book.fit(call(GOOD)).reason == ""
    assert book.fit(call({**GOOD, "reason": ["odd"]})).reason == ""


def test_a_parameter_called_reason_is_the_tools_own():
    @tool(effect="write")
    def close(reason: str) -> str:
        return reason

    assert not close.takes_reason
    fitted = close.fit(call({"reason": "done"}))
    assert fitted.arguments == {"reason": "done"}
    assert fitted.reason == ""


def test_numbers_for_exact_amounts_become_text_with_the_same_digits():
    arguments = {**GOOD, "price": 1240.5, "legs": [{"origin": "LIS", "price": 7}]}
    fitted = book.fit(call(arguments))
    assert fitted.arguments["price"] == "1240.5"
    assert fitted.arguments["legs"] == [{"origin": "LIS", "price": "7"}]
    assert fitted.values["price"] == Decimal("1240.5")


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"price": "much"}, "/price"),
        ({"price": True}, "/price"),
        ({"price": "NaN"}, "/price"),
        ({"flight": 209}, "/flight"),
        ({"cabin": "first"}, "/cabin"),
        ({"day": "tomorrow"}, "/day"),
        ({"legs": [{"origin": "LIS"}]}, "/legs/0/price"),
        ({"card": "4111"}, "/card"),
        ({"flight": "\ud800"}, ""),
    ],
)
def test_arguments_that_do_not_fit_are_named_and_not_quoted(change, path):
    with pytest.raises(ArgumentsDoNotFit) as refused:
        book.fit(call({**GOOD, **change}))
    assert list(refused.value.fields) == [path]
    assert "4111" not in str(refused.value)


def test_arguments_that_were_no_json_do_not_fit():
    with pytest.raises(ArgumentsDoNotFit, match="Line 1, column 2"):
        book.fit(call(None, "Line 1, column 2: …"))


def test_it_runs_with_typed_values_its_key_and_working_memory():
    context = ToolContext({"facts": {"a": 1}})
    result = book.execute({**GOOD, "day": "2026-11-21"}, key="k1", context=context)
    assert result == (
        '{"day":"2026-11-21","flight":"TP 209","key":"k1","price":"1200.00"}'
    )
    assert context.ops == (["put", "/facts", "booked", "TP 209"],)
    assert context.get("facts") == {"a": 1, "booked": "TP 209"}


def test_a_tool_cannot_change_the_transcript():
    with pytest.raises(ToolError):
        ToolContext({"messages": []}).append("messages", {})
    with pytest.raises(ToolError):
        ToolContext({}).set("vars", object())


def test_what_a_call_cost_is_bounded_however_often_it_says_so():
    context = ToolContext({})
    context.spent(60_000)
    with pytest.raises(ToolError, match="0 to 100,000"):
        context.spent(60_000)
    context.spent(40_000)
    assert context.cost == 100_000


def test_who_must_be_asked():
    def f() -> None: ...

    assert book.requires({"price": "1200"})
    assert not book.requires({"price": "900"})
    assert tool(f).requires({})  # undeclared: external, asks
    assert tool(effect="write")(f).requires({})
    assert not tool(effect="read")(f).requires({})
    assert not tool(effect="external", approve=never)(f).requires({})
    question = ask(title="Window or aisle?")(f)
    assert question.requires({})
    assert question.rule is not None
    assert question.rule.allowed == ("respond", "reject")
    assert not question.has_effects


def test_a_title_shows_arguments_and_never_fails():
    assert book.title(GOOD) == "Book TP 209 for Helen Marsh, 1,200.00"
    assert book.title({}) == "Book … for …, …"
    assert book.title(None) == "book(…)"
    assert "\n" not in book.title({**GOOD, "flight": "a\n\n b" * 100})


@given(st.dictionaries(st.sampled_from(["flight", "passenger", "price"]), values))
def test_any_arguments_have_a_title(arguments):
    assert len(book.title(arguments)) <= 140


def test_the_version_changes_with_the_code():
    def f(a: int) -> int:
        return a

    first = tool(f)

    def f(a: int) -> int:  # type: ignore[no-redef]
        return a + 1

    assert first.version != tool(f).version
    assert tool(version="3")(f).version == "3"


@pytest.mark.parametrize(
    "declare",
    [
        lambda: tool(lambda a: a),
        lambda: tool(name="book")(lambda a: a),
        lambda: tool(title="Pay {amount}", name="pay")(lambda: None),
        lambda: Rule("odd", when={"path": "price"}),
        lambda: tool(effect="none", approve=Rule("r", allowed=("respond",)))(len),
        lambda: Agent("Trip Planner", model="m", system="s"),
        lambda: Agent("a", model="m", system="s", tools=[book, book]),
    ],
)
def test_a_wrong_declaration_stops_the_start(declare):
    with pytest.raises(BadDeclaration):
        declare()


def test_the_registry_names_what_it_knows():
    registry = Registry()
    agent = registry.register(Agent("desk", model="m", system="s", tools=[book]))
    assert registry.agent("desk") is agent
    assert registry.tool("desk", "book") is book
    with pytest.raises(UnknownAgent, match="'disk'; there are: desk"):
        registry.agent("disk")
    with pytest.raises(UnknownTool, match="'refund'; there are: book"):
        registry.tool(agent, "refund")
    with pytest.raises(BadDeclaration):
        registry.register(Agent("desk", model="m", system="other"))
