"""Rules over arguments: what they answer, and that they fail closed."""

from __future__ import annotations

import time

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
        {"path": "/price", "op": "matches", "value": 7},
        {"path": "/price", "op": "matches", "value": "(?=a)b"},
        {"path": "/price", "op": "matches", "value": r"(a)\1"},
        {"path": "/price", "op": "matches", "value": "\ud800"},
        {"path": "/price", "op": "matches", "value": "a" * 501},
        {"path": "/price", "op": "gt", "value": 1, "else": 2},
        {"all": [PRICE], "any": []},
        {"not": [PRICE]},
        {"all": [{"any": [{}]}]},
    ],
)
def test_what_is_no_rule_is_named(written):
    assert policy.problem(written)


CATASTROPHES = [
    ("(a+)+$", "a" * 9_999 + "b"),
    ("(a|a)*$", "a" * 9_999 + "b"),
    ("(.*a){12}$", "a" * 9_999 + "b"),
    ("a*a*a*a*a*a*b", "a" * 10_000),
    (r"^(\w+\s?)*$", "word " * 1_999 + "!"),
    (r"\w{1,190}\d", "\u00e9" * 10_000),
    ("((([ab]{1,10}){1,10}){1,9}c)", "ab" * 5_000),
    (r"(?:[^x]{1,90}|y){1,2}x", "ab\u00e9" * 3_333),
]


@pytest.mark.parametrize(("pattern", "text"), CATASTROPHES, ids=lambda each: each[:16])
def test_no_pattern_hangs_whoever_asks(pattern, text):
    tried = rule("matches", pattern)
    assert policy.problem(tried) is None
    begun = time.process_time()
    assert policy.answer(tried, {"a": text}) in (True, False)
    # Going back would take longer than anybody lives; the slowest take half a second.
    assert time.process_time() - begun < 10


@pytest.mark.parametrize(
    "pattern",
    [
        "((([ab]{1,50}){1,50}){1,20}c)",
        "(x|[^x]{1,90}){1,90}y",
        r"(\w{100}){100}",
        "(a{0,1000}){0,1000}",
        r"([[]a]{1,99}\]){1,99}",
        "(?x) (a {99} ) {99}",
        "a{2000,}",
    ],
)
def test_what_repeats_too_much_is_refused_and_fails_closed(pattern):
    tried = rule("matches", pattern)
    assert policy.problem(tried)
    assert policy.answer(tried, {"a": "a"}) is None
    assert policy.evaluate({"not": tried}, {"a": "a"}) is True  # a person is asked


@pytest.mark.parametrize(
    "pattern",
    [
        "^[A-Z]{2}[0-9]{2}[A-Z0-9]{1,30}$",
        r"^(\d{1,3}\.){3}\d{1,3}$",
        "(?i)^(gold|silver) card$",
        r"^[^@\s]{1,64}@example\.(com|org)$",
        r"^\+?[0-9 ()-]{7,20}$",
    ],
)
def test_what_people_write_is_taken(pattern):
    assert policy.problem(rule("matches", pattern)) is None


def test_half_a_pair_is_matched_by_nothing():
    assert policy.answer(rule("matches", "a"), {"a": "a\ud800"}) is None


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


@pytest.mark.parametrize("place", ["9" * 5_000, "\u0660", "00", "-1", "2"])
def test_a_place_that_a_list_does_not_have_is_unknown(place):
    predicate = rule("eq", 1, path=f"/a/{place}")
    assert policy.answer(predicate, {"a": [1, 1]}) is None
    assert policy.answer(rule("eq", 1, path="/a/0"), {"a": [1, 1]}) is True
