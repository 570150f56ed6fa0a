"""Rules over arguments: what they answer, and that they fail closed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.pure import policy
from tests.checkpoints.strategies import values

PRICE = {"path": "/price", "op": "gt", "value": "1000"}


def rule(op, value, path="/a"):
    return {"path": path, "op": op, "value": value}


@pytest.mark.parametrize(
    ("price", "required"),
    [
        ("1000", False),
        ("1000.00", False),
        ("1000.01", True),
        (1000, False),
        (1000.5, True),
        ("99", False),  # as text it would be more than "1000"
        ("1,200", True),  # from here on: cannot be answered
        ("1_200", True),
        ("NaN", True),
        ("-Infinity", True),
        ("", True),
        (None, True),
        (True, True),
        (["1"], True),
        ({"amount": "1"}, True),
        ("٩٩", True),
    ],
)
def test_a_limit_on_an_amount(price, required):
    assert policy.evaluate(PRICE, {"price": price}) is required


def test_a_missing_amount_requires_a_person():
    assert policy.evaluate(PRICE, {}) is True


@pytest.mark.parametrize("arguments", [{}, {"price": "abc"}, {"price": None}])
def test_not_does_not_turn_what_is_unknown_into_no(arguments):
    assert policy.evaluate({"not": PRICE}, arguments) is True
    assert policy.evaluate({"not": {"not": PRICE}}, arguments) is True


def test_all_and_any_decide_where_they_can():
    known = rule("eq", 1)
    assert policy.evaluate({"all": [PRICE, known]}, {"a": 2}) is False
    assert policy.evaluate({"all": [PRICE, known]}, {"a": 1}) is True  # unknown
    assert policy.evaluate({"any": [PRICE, known]}, {"a": 2}) is True  # unknown
    assert policy.evaluate({"any": []}, {}) is False
    assert policy.evaluate({"all": []}, {}) is True


@pytest.mark.parametrize(
    ("predicate", "argument", "required"),
    [
        (rule("eq", "EUR"), "EUR", True),
        (rule("eq", "EUR"), "USD", False),
        (rule("eq", 0), False, True),  # not of one type: unknown
        (rule("eq", 1), 1.0, True),
        (rule("eq", "7"), "007", True),  # unknown, and so is its opposite
        (rule("ne", "7"), "007", True),
        (rule("ne", "EUR"), "EUR", False),
        (rule("in", ["a", "b"]), "b", True),
        (rule("in", ["a", "b"]), "c", False),
        (rule("not_in", ["a", "b"]), "b", False),
        (rule("not_in", ["a", "b"]), 1, True),
        (rule("starts_with", "exec"), "executive", True),
        (rule("starts_with", "exec"), ["exec"], True),
        (rule("starts_with", "exec"), "staff", False),
        (rule("contains", "@"), "a@b", True),
        (rule("contains", "x"), ["y"], False),
        (rule("contains", "x"), ["y", "x"], True),
        (rule("matches", r"@example\.com$"), "a@example.com", True),
        (rule("matches", r"@example\.com$"), "a@example.org", False),
        (rule("matches", "a"), "b" * 10_001, True),
        (rule("gt", "2026-11-21"), "2026-11-22", True),
        (rule("gt", "2026-11-21"), "2026-11-21", False),
        (rule("gt", "2026-11-21"), "2026-11-22T09:00", True),
        (rule("lt", "2026-11-21T09:00Z"), "2026-11-21T10:00", True),
        ({"path": "/a", "op": "exists"}, None, True),
        ({"path": "/b", "op": "exists"}, None, False),
        (rule("exists", False, "/b"), None, True),
        (rule("eq", "x", "/a/0/b"), [{"b": "y"}], False),
        (rule("eq", "x", "/a/5/b"), [{"b": "y"}], True),
    ],
)
def test_each_operation(predicate, argument, required):
    assert policy.problem(predicate) is None
    assert policy.evaluate(predicate, {"a": argument}) is required


@pytest.mark.parametrize(
    "written",
    [
        None,
        {},
        [],
        {"path": "price", "op": "gt", "value": 1},
        {"path": "/price", "op": "more", "value": 1},
        {"path": "/price", "op": "gt"},
        {"path": "/price", "op": "gt", "value": "much"},
        {"path": "/price", "op": "in", "value": "abc"},
        {"path": "/price", "op": "matches", "value": "("},
        {"path": "/price", "op": "gt", "value": 1, "else": 2},
        {"all": [PRICE], "any": []},
        {"not": [PRICE]},
        {"all": [{"any": [{}]}]},
    ],
)
def test_what_is_no_rule_is_named(written):
    assert policy.problem(written)


predicates = st.recursive(
    st.fixed_dictionaries(
        {
            "path": st.sampled_from(["", "/a", "/b/0", "/a/b"]),
            "op": st.sampled_from(sorted(policy._OPS)),
            "value": values,
        }
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"all": st.lists(inner, max_size=3)}),
        st.fixed_dictionaries({"any": st.lists(inner, max_size=3)}),
        st.fixed_dictionaries({"not": inner}),
    ),
    max_leaves=4,
)


@given(predicates, st.dictionaries(st.sampled_from(["a", "b"]), values))
def test_a_rule_always_answers(predicate, arguments):
    if policy.problem(predicate) is None:
        assert policy.evaluate(predicate, arguments) in (True, False)
