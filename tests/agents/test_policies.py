"""What a policy says of a call: the first rule that matches, and that it fails closed."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.pure import policies, policy_text
from agents.pure.policies import Outcome, Proposal, Rule, Window, decide, rules_of
from agents.pure.terms import Step, Terms
from tests.checkpoints.strategies import values

USUAL = Terms(grace=5)
LARGE = {"path": "/amount", "op": "gt", "value": 1000}


def call(amount: Any = 10, *, asks: bool = True, **more: Any) -> Proposal:
    arguments = {"order": "A-1", **({} if amount is None else {"amount": amount})}
    given_ = {"tool": "refund_order", "risk": "high", "arguments": arguments, **more}
    return Proposal(asks=asks, rule="refund has effects", usual=USUAL, **given_)


def rule(id: str, outcome: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "name": f"Rule {id}", "outcome": outcome, **more}


def said(
    stored: list[dict[str, Any]],
    proposal: Proposal,
    before: Decimal | None = Decimal(0),
) -> Outcome:
    assert policies.problems(stored) == []
    return decide(rules_of(stored), proposal, lambda window: before)


def test_the_first_rule_that_matches_decides():
    stored = [
        rule("small", "auto_approve", when={"not": LARGE}),
        rule("all", "require", tools="refund_*"),
    ]
    assert said(stored, call(10)).kind == "auto_approve"
    assert said(stored, call(1001)).kind == "require"
    assert said(stored[::-1], call(10)).kind == "require"


@pytest.mark.parametrize(
    ("more", "matches"),
    [
        ({"tools": "refund_*"}, True),
        ({"tools": "refund_?rder"}, True),
        ({"tools": "refund"}, False),
        ({"tools": "*"}, True),
        ({"tools": "Refund_*"}, False),
        ({"risks": ["high", "critical"]}, True),
        ({"risks": ["low"]}, False),
        ({"tools": "refund_*", "risks": ["low"]}, False),
    ],
)
def test_a_rule_speaks_about_tools_and_risks(more, matches):
    found = said([rule("no", "auto_reject", **more)], call())
    assert (found.kind == "auto_reject") is matches


def test_without_a_rule_the_tools_own_counts():
    found = said([], call())
    assert (found.kind, found.rule, found.name) == (
        "require",
        None,
        "refund has effects",
    )
    assert found.terms == USUAL
    assert said([], call(asks=False)).kind == "auto_approve"


UNKNOWN = [None, "NaN", "1,200", True, [1], {"a": 1}, float("nan"), float("inf")]


@pytest.mark.parametrize("amount", UNKNOWN)
@pytest.mark.parametrize("outcome", policy_text.OUTCOMES)
def test_what_cannot_be_answered_is_for_a_person(amount, outcome):
    terms = {"escalation": [{"after": 60}]}
    found = said([rule("x", outcome, when=LARGE, terms=terms)], call(amount))
    assert found.asks
    assert "cannot be answered" in found.why
    # Nor does a later rule let it go, or one that says the opposite.
    opposite = rule("y", "auto_approve", when={"not": LARGE})
    let_go = rule("z", "auto_approve")
    assert said(
        [rule("x", outcome, when=LARGE, terms=terms), opposite, let_go], call(amount)
    ).asks


@pytest.mark.parametrize("amount", UNKNOWN)
def test_an_odd_argument_is_no_way_around_the_terms_of_the_rule_that_asks(amount):
    found = said(
        [
            rule("small", "auto_approve", when={"not": LARGE}),
            rule("rest", "require", terms={"approvers": 2}, risk="critical"),
        ],
        call(amount),
    )
    assert (found.kind, found.terms.approvers, found.risk) == ("require", 2, "critical")


def test_terms_that_a_rule_leaves_out_are_as_usual():
    def terms(**given_: Any) -> Terms:
        return said([rule("r", "require", terms=given_)], call()).terms

    assert terms() == USUAL
    assert terms(grace=0).grace == 0
    assert terms(approvers=2).exclude == ("starter", "author", "editor")
    assert terms(approvers=2, exclude=[]).exclude == ()
    assert terms(approvers=1).exclude == ()


def test_what_is_escalated_says_so_to_whoever_asks():
    steps = [{"after": 60, "priority": 2}, {"after": 90}]
    found = said([rule("r", "escalate", terms={"escalation": steps})], call())
    assert found.demand.escalated
    assert found.demand.terms.escalation == (Step(60, priority=2), Step(90))
    assert found.demand.rule_id == "r"


SUM = {"sum": "/amount", "over_hours": 24, "op": "gt", "value": 5000}
COUNT = {"count": True, "over_hours": 1, "op": "gte", "value": 3}


@pytest.mark.parametrize(
    ("when", "before", "amount", "asks"),
    [
        (SUM, "4000", 1000, False),
        (SUM, "4000", "1000.01", True),
        (SUM, "0.1", 4999.9, False),  # 5000, as decimals
        (SUM, "0", "1e400", True),
        (SUM, "0", -1000, True),  # it would make room
        (SUM, "0", None, True),
        (SUM, None, 1, True),  # nobody knows what was before
        (COUNT, "1", "free", False),
        (COUNT, "2", "free", True),
        (COUNT, None, "free", True),
        ({"all": [SUM, {"path": "/order", "op": "eq", "value": "B"}]}, "9999", 1, 0),
        ({"not": SUM}, "0", "NaN", True),
    ],
)
def test_a_rule_counts_and_sums_what_was_before_and_this_call(
    when, before, amount, asks
):
    stored = [rule("r", "require", when=when), rule("else", "auto_approve")]
    found = said(stored, call(amount), None if before is None else Decimal(before))
    assert found.asks is bool(asks)


def test_a_window_is_told_from_others_by_rule_and_path_not_by_its_length():
    (one,) = rules_of([rule("r", "require", when={"any": [SUM, COUNT]})])
    first, second = one.windows
    assert (first.path, first.hours) == ("/amount", 24)
    assert (second.path, second.hours) == (None, 1)
    assert first.of != second.of
    longer = Window(None, "r", "*", (), "/amount", 48)
    assert longer.of == first.of


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("", "no object"),
        ("", {"other": 1}),
        ("id", {"id": ""}),
        ("id", {"id": "a b"}),
        ("name", {"name": "  "}),
        ("outcome", {"outcome": "allow"}),
        ("tools", {"tools": "refund; drop"}),
        ("risks", {"risks": ["grave"]}),
        ("risk", {"risk": "grave"}),
        ("when", {"when": {"path": "/a"}}),
        ("when", {"when": {"sum": "/a", "over_hours": 0, "op": "gt", "value": 1}}),
        ("when", {"when": {"sum": "a", "over_hours": 1, "op": "gt", "value": 1}}),
        ("when", {"when": {"count": 1, "over_hours": 1, "op": "gt", "value": 1}}),
        ("when", {"when": {"count": True, "over_hours": 1, "op": "eq", "value": 1}}),
        ("message", {"message": "m" * 501}),
        ("terms", {"terms": []}),
        ("terms", {"terms": {"quorum": 2}}),
        ("terms.approvers", {"terms": {"approvers": 0}}),
        ("terms.approvers", {"terms": {"approvers": True}}),
        ("terms.groups", {"terms": {"groups": ["finance"]}}),
        ("terms.exclude", {"terms": {"exclude": ["anyone"]}}),
        ("terms.deadline", {"terms": {"deadline": -1}}),
        ("terms.then", {"terms": {"then": "approve"}}),
        ("terms.grace", {"terms": {"grace": 61}}),
        ("terms.typed", {"terms": {"typed": 1}}),
        ("terms.escalation", {"terms": {"escalation": [{"after": 5}, {"after": 5}]}}),
        ("terms.escalation", {"terms": {"then": "escalate"}}),
        ("terms.escalation", {"outcome": "escalate"}),
    ],
)
def test_what_is_wrong_is_said_of_its_field_and_such_a_rule_asks(field, wrong):
    bad = {**rule("r2", "auto_approve"), **wrong} if isinstance(wrong, dict) else wrong
    stored = [rule("r1", "auto_reject", tools="other"), bad]
    (problem,) = policies.problems(stored)
    assert (problem.index, problem.field) == (1, field)
    assert problem.text
    found = decide(rules_of(stored), call(asks=False), lambda window: Decimal(0))
    assert found.kind == "require"
    assert "cannot be read" in found.why


def test_ids_are_given_once():
    (problem,) = policies.problems([rule("r", "require"), rule("r", "require")])
    assert (problem.index, problem.field) == (1, "id")


def test_a_rule_within_a_rule_without_end_is_refused_and_asks():
    deep: dict[str, Any] = LARGE
    for _ in range(5000):
        deep = {"not": deep}
    assert policies.problems([rule("r", "auto_approve", when=deep)])
    one = Rule("r", "deep", "auto_approve", when=deep)
    assert decide([one], call(), lambda window: None).asks


# Laws

predicates = st.recursive(
    st.builds(
        lambda path, op, value: {"path": path, "op": op, "value": value},
        st.sampled_from(["/amount", "/order", "", "/a/0", "a"]) | st.text(max_size=4),
        st.sampled_from(
            ["eq", "gt", "lte", "in", "not_in", "matches", "contains", "exists"]
        ),
        values,
    )
    | st.just(SUM)
    | st.just(COUNT)
    | values,
    lambda inner: (
        st.builds(lambda rules: {"all": rules}, st.lists(inner, max_size=3))
        | st.builds(lambda rules: {"any": rules}, st.lists(inner, max_size=3))
        | st.builds(lambda rule: {"not": rule}, inner)
    ),
    max_leaves=8,
)
written: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["a", "b", "c"]),
        "name": st.just("A rule"),
        "outcome": st.sampled_from(policy_text.OUTCOMES),
    },
    optional={
        "tools": st.sampled_from(["*", "refund_*", "other"]),
        "risks": st.lists(st.sampled_from(policy_text.RISKS), max_size=2),
        "when": st.none() | predicates,
        "message": st.text(max_size=5),
        "risk": st.sampled_from([None, "low", "critical"]),
        "terms": st.fixed_dictionaries(
            {"typed": st.booleans()},
            optional={
                "approvers": st.integers(1, 3),
                "exclude": st.just([]) | st.just(["editor"]),
                "grace": st.integers(0, 60),
                "escalation": st.just([{"after": 1, "priority": 2}]),
                "then": st.sampled_from(["reject", "hold"]),
            },
        ),
    },
)
proposals = st.builds(
    lambda arguments, asks: Proposal("refund_order", "high", arguments, asks),
    st.dictionaries(st.sampled_from(["amount", "order", "a"]), values, max_size=3),
    st.booleans(),
)
totals = st.none() | st.decimals(0, 10_000, allow_nan=False, places=2)


@given(st.lists(written | values, max_size=4) | values, proposals, totals)
def test_whatever_is_stored_it_decides_and_never_raises(stored, proposal, before):
    problems = policies.problems(stored)
    rules = rules_of(stored)
    found = decide(rules, proposal, lambda window: before)
    assert found.kind in policy_text.OUTCOMES
    if problems and found.kind == "auto_approve" and found.rule is not None:
        # Only a rule before the first bad one lets anything go.
        bad = min(max(problem.index, 0) for problem in problems)
        assert rules.index(found.rule) < bad


@given(st.lists(written, max_size=4), proposals, totals)
def test_rules_before_the_one_that_decides_do_not_hold(stored, proposal, before):
    if policies.problems(stored):
        return
    rules = rules_of(stored)
    found = decide(rules, proposal, lambda window: before)
    if found.rule is None or "cannot" in found.why:
        return
    at = rules.index(found.rule)
    for earlier in rules[:at]:
        alone = decide([earlier], proposal, lambda window: before)
        assert alone.rule is None
    assert decide(rules[at:], proposal, lambda window: before) == found


@given(st.lists(written, max_size=3), proposals, totals)
def test_who_knows_less_is_asked_more(stored, proposal, before):
    """A total that nobody knows lets nothing go that a known one would not."""
    rules = rules_of(stored)
    unknown = decide(rules, proposal, lambda window: None)
    if unknown.kind == "auto_approve":
        assert decide(rules, proposal, lambda window: before).kind == "auto_approve"


@given(st.lists(written, max_size=3))
def test_rules_are_what_they_were_when_they_are_read_again(stored):
    if policies.problems(stored):
        return
    rules = rules_of(stored)
    again = json.loads(json.dumps([each.as_json() for each in rules]))
    assert policies.problems(again) == []
    assert rules_of(again) == rules


A = {"path": "/a", "op": "eq", "value": 1}
COUNT = {"count": True, "over_hours": 1, "op": "gt", "value": 1}


@pytest.mark.parametrize(
    ("fits", "too_many"),
    [
        ([{"all": [A] * 200}], [{"all": [A] * 201}]),
        ([{"not": {"any": [A, {"all": [A] * 199}]}}], [{"not": {"any": [A] * 201}}]),
        (
            [{**A, "op": "in", "value": [1] * 1_000}],
            [{**A, "op": "in", "value": [1] * 1_001}],
        ),
        ([{"all": [COUNT] * 25}] * 2, [{"all": [COUNT] * 25}, {"any": [COUNT] * 26}]),
    ],
    ids=["conditions", "nested", "values", "counts of a policy"],
)
def test_what_would_take_too_long_is_refused(fits, too_many):
    """Each call is judged by all of it; each count is a lock of the database's."""

    def wrong(*whens):
        written = [
            {"id": f"r{n}", "name": "x", "outcome": "auto_approve", "when": when}
            for n, when in enumerate(whens)
        ]
        return [(one.index, one.field) for one in policies.problems(written)]

    assert wrong(*fits) == []
    assert wrong(*too_many) == [(len(too_many) - 1, "when")]
