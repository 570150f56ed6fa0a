"""What a tool may declare for those who approve its calls, and what a guard may answer."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from agents.approvals.guards import judge
from agents.demo.travel import book_flight
from agents.errors import BadDeclaration, NotAGuard
from agents.models import Approval
from agents.pure.tolerance import differences, within
from agents.tools import (
    Changed,
    Found,
    Invalid,
    Preview,
    Seen,
    ToolContext,
    Unchanged,
    tool,
)
from agents.tools.guards import LARGEST
from agents.tools.previews import MOST_ROWS, MOST_TEXT

GUARD = Approval.Guard


def buy(item: str, price: Decimal, amount: int = 1) -> str:
    """Buy something."""
    return f"{amount} {item} for {price}"


def found(price: Decimal, *, seen: Seen, ctx: ToolContext) -> Found:
    return Unchanged({"price": str(price), "seen": seen, "memory": ctx.get("vars")})


def shown(item: str) -> Preview:
    return Preview.table(["item"], [[item]])


# Declarations


def test_a_guard_takes_what_the_tool_takes_by_name_and_what_it_saw():
    declared = tool(guard=found, tolerance={"/price": "2%"}, preview=shown)(buy)
    arguments = {"item": "tea", "price": "2.50"}
    values = {"price": "2.50", "seen": None, "memory": None}
    assert declared.look(arguments, None, ToolContext({})) == Unchanged(values)
    again = declared.look(arguments, {"price": "2.50"}, ToolContext({}))
    assert again == Unchanged({**values, "seen": {"price": "2.50"}})
    assert declared.show(arguments, ToolContext({}))["rows"] == [["tea"]]


def blind(price: Decimal) -> Found:
    return Unchanged({})


def curious(price: Decimal, colour: str, *, seen: Seen) -> Found:
    return Unchanged({})


def greedy(*, seen: Seen, **rest: Any) -> Found:
    return Unchanged({})


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"guard": blind}, "must take `seen`"),
        ({"guard": curious}, "'colour', which is no argument"),
        ({"guard": greedy}, "'rest', which is no argument"),
        ({"preview": found}, "not its preview"),
        ({"preview": curious}, "'colour', which is no argument"),
        ({"tolerance": {"/price": "2%"}}, "for what a guard finds"),
        ({"guard": found, "tolerance": {"price": "2%"}}, "JSON Pointer"),
        ({"guard": found, "tolerance": {"": "2%"}}, "for one value"),
        ({"guard": found, "tolerance": {"/price": "a little"}}, "neither a part"),
        ({"guard": found, "tolerance": {"/price": "-1"}}, "neither a part"),
        ({"guard": found, "tolerance": {"/price": "NaN"}}, "neither a part"),
        ({"guard": found, "tolerance": {"/price": True}}, "neither a part"),
        ({"guard_age": timedelta(minutes=1)}, "is no age"),
        ({"guard": found, "guard_age": timedelta(0)}, "is no age"),
        ({"reversible": ""}, "for how long"),
        ({"effect": "read", "reversible": "always"}, "nothing is undone"),
    ],
)
def test_a_declaration_that_means_nothing_stops_the_start(more, says):
    with pytest.raises(BadDeclaration, match=says):
        tool(**more)(buy)


def test_what_is_declared_makes_another_version_of_the_agent():
    plain = tool(buy)
    specs = [
        tool(**more)(buy).spec()
        for more in (
            {},
            {"guard": found},
            {"guard": found, "tolerance": {"/price": "2%"}},
            {"guard": found, "tolerance": {"/price": "3%"}},
            {"guard": found, "guard_age": timedelta(minutes=1)},
            {"preview": shown},
            {"reversible": "for a day"},
            {"reversible": False},
        )
    ]
    assert specs[0] == plain.spec()
    assert all(one not in specs[:n] for n, one in enumerate(specs))
    assert {tool(guard=found)(buy).version, plain.version} == {plain.version}


# Tolerance


def allowed(was: Any, now: Any, **tolerance: Any) -> bool:
    paths = {f"/{name}": amount for name, amount in tolerance.items()}
    return within(differences(was, now), paths)


@pytest.mark.parametrize(
    ("was", "now", "tolerance", "passes"),
    [
        ("1200.00", "1224.00", "2%", True),
        ("1200.00", "1224.01", "2%", False),
        ("1200.00", "1176.00", "2%", True),
        ("1200.00", "1175.99", "2%", False),
        (1200, "1200.00", "0", True),
        ("100.00", "125.00", "25.00", True),
        ("100.00", "125.01", Decimal("25.00"), False),
        (4, 6, 2, True),
        (4, 7, 2, False),
        ("0.00", "0.01", "50%", False),
        ("window", "aisle", "50%", False),
        ("12", None, "50%", False),
        (None, "12", "50%", False),
        ("NaN", "12", "50%", False),
        (True, False, "500%", False),
    ],
)
def test_a_number_may_differ_by_so_much(was, now, tolerance, passes):
    assert allowed({"v": was}, {"v": now}, v=tolerance) is passes


def test_every_difference_needs_a_tolerance_of_its_own():
    leg = {"at": "10:35", "gate": ["A", 1]}
    was = {"price": "100", "leg": leg}
    now = {"price": "101", "leg": {**leg, "at": "10:40"}}
    assert [each.path for each in differences(was, now)] == ["/price", "/leg/at"]
    assert not allowed(was, now, price="5%")
    assert allowed(was, {**was, "price": "101"}, price="5%")
    gates = {**was, "leg": {**leg, "gate": ["B", 1]}}
    assert [each.path for each in differences(was, gates)] == ["/leg/gate"]


leaves = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["1", "a"])
values = st.dictionaries(
    st.sampled_from(["a", "b/c"]),
    leaves | st.lists(leaves, max_size=2) | st.dictionaries(st.just("d"), leaves),
)


@given(values)
def test_what_is_the_same_has_no_differences(value):
    assert differences(value, value) == []
    assert within([], {})


# What an answer means


def judged(answer: Found | None, seen: Seen = None, **more: Any) -> Any:
    declared = tool(guard=found, tolerance={"/price": "2%"})(buy)
    arguments = {"item": "tea", "price": "2.50", "amount": 1}
    return judge(declared, arguments, seen, answer, **more)


def test_arguments_that_the_guard_puts_in_place_must_fit_the_tool():
    moved = Changed({"price": "2.50"}, {"price": "3.00"}, "dearer", {"price": 3})
    look = judged(moved)
    assert (look.guard, look.arguments["price"]) == (GUARD.CHANGED, "3")
    odd = Changed({"price": "2.50"}, {"price": "3.00"}, "dearer", {"colour": "red"})
    assert judged(odd).guard == GUARD.FAILED
    assert not judged(odd).holds


def test_what_changed_stays_on_record_while_the_guard_finds_nothing_new():
    first = judged(Changed({"price": "2.50"}, {"price": "3.00"}, "dearer"))
    same = judged(Unchanged({"price": "3.00"}), first.seen, before=first.found)
    assert (same.guard, same.found) == (GUARD.CHANGED, first.found)
    gone = judged(Invalid("sold out"), first.seen, before=first.found)
    assert (gone.guard, gone.found["now"]) == (GUARD.INVALID, {"price": "3.00"})
    back = judged(Unchanged({"price": "3.00"}), first.seen, before=gone.found)
    assert (back.guard, back.found) == (GUARD.CHANGED, first.found)
    unknown = judged(None, first.seen, before=first.found)
    assert (unknown.guard, unknown.found) == (GUARD.FAILED, first.found)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {"price": 1},
        Unchanged(["price"]),  # type: ignore[arg-type]  # what it must not do
        Unchanged({"price": object()}),
        Unchanged({"price": "x" * LARGEST}),
        Invalid(12),  # type: ignore[arg-type]  # what it must not do
        Changed({}, {}, None),  # type: ignore[arg-type]  # what it must not do
    ],
)
def test_a_guard_that_answers_nonsense_is_told_so(answer):
    def odd(*, seen: Seen) -> Found:
        return answer

    declared = tool(guard=odd)(buy)
    arguments = {"item": "tea", "price": "2.50"}
    with pytest.raises(NotAGuard):
        declared.look(arguments, None, ToolContext({}))


# Previews


def kept(made: Any) -> dict[str, Any]:
    declared = tool(preview=lambda: made)(buy)
    return declared.show({"item": "tea", "price": "2.50"}, ToolContext({}))


def test_a_file_is_shown_by_what_changes_in_it():
    before = "\n".join(f"line {n}" for n in range(100))
    shown = kept(Preview.diff("a.txt", before, before.replace("line 50", "new")))
    assert ["-", "line 50"] in shown["lines"]
    assert ["+", "new"] in shown["lines"]
    assert len(shown["lines"]) == 9
    assert kept(Preview.diff("a.txt", "same", "same"))["lines"] == []


def test_what_is_too_long_is_cut_and_says_so():
    long = kept(Preview.email(to="a@b.example", subject="s", body="x" * 70_000))
    assert (len(long["body"]), long["cut"]) == (MOST_TEXT, 20_000)
    many = kept(Preview.table(["n"], [[n] for n in range(80)]))
    assert (len(many["rows"]), many["cut"]) == (MOST_ROWS, 30)
    some = kept(Preview.rows(1204, "customers", columns=["id"], sample=[[1], [2]]))
    assert (some["count"], some["rows"], some["cut"]) == (1204, [["1"], ["2"]], 1202)


@pytest.mark.parametrize("made", [None, "text", {"kind": "email"}])
def test_a_preview_is_made_by_our_functions(made):
    with pytest.raises(NotAGuard):
        kept(made)


# The travel desk

TRIP = {
    "flight": "TP 209",
    "date": "2026-11-30",
    "passenger": "Helen Marsh",
    "fare": "Premium Economy",
    "price": "1200.00",
}


@pytest.fixture
def airline(llm, settings):
    settings.HOLDPOINT_DEMO_LEDGER = llm.ledger_url
    return llm


def look(seen: Seen = None, **more: Any) -> Found:
    return book_flight.look({**TRIP, **more}, seen, ToolContext({}))


def test_the_desk_sees_a_fare_that_rises_and_one_that_comes_back(airline):
    before = look()
    assert isinstance(before, Unchanged)
    assert before.values["price"] == "1200.00"
    call_command("demo_fare", "1500.00")
    now = look(before.values)
    assert isinstance(now, Changed)
    assert (now.old["price"], now.new["price"]) == ("1200.00", "1500.00")
    assert now.arguments == {"price": "1500.00"}
    call_command("demo_fare", reset=True)
    assert look(before.values) == before


def test_a_flight_that_is_not_sold_any_more_is_invalid(airline):
    assert isinstance(look(flight="XX 1"), Invalid)
    airline.charge({"TP 209": {"Premium Economy": {"price": "1200.00", "seats": 0}}})
    assert look() == Invalid("Premium Economy on TP 209 is sold out.")


def test_a_fare_is_a_price(airline):
    for wrong in ("", "-1.00", "1500", "a lot"):
        with pytest.raises(CommandError, match="no price"):
            call_command("demo_fare", wrong)


def test_without_an_airline_no_fare_moves(settings):
    settings.HOLDPOINT_DEMO_LEDGER = None
    with pytest.raises(CommandError, match="not reached"):
        call_command("demo_fare")
