"""Answers agree where they decide the same, however they put it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agents.pure.agreement import decision, groups


def calls(*made: tuple[str, str], said: str = "") -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": said,
        "tool_calls": [
            {"id": f"c{n}", "function": {"name": name, "arguments": arguments}}
            for n, (name, arguments) in enumerate(made)
        ],
    }


def says(text: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def test_calls_are_the_same_whatever_the_order_of_their_arguments_and_the_words_beside():
    a = calls(("book", '{"a": 1, "b": [2]}'), said="I will.")
    assert decision(a) == decision(calls(("book", '{ "b":[2],"a":1}')))


def test_another_tool_argument_number_or_order_of_calls_is_another_decision():
    one, two = ("book", '{"a": 1}'), ("look", '{"a": 1}')
    several = [
        calls(one),
        calls(two),
        calls(("book", '{"a": 2}')),
        calls(("book", '{"a": true}')),
        calls(("book", '{"a": "1"}')),
        calls(one, one),
        calls(one, two),
        calls(two, one),
        says("book"),
        says(""),
    ]
    assert len({decision(each) for each in several}) == len(several)


def test_why_a_call_is_made_is_no_part_of_it_where_the_tool_does_not_take_it():
    a = calls(("book", '{"a": 1, "reason": "cheap"}'))
    b = calls(("book", '{"a": 1, "reason": "near"}'))
    assert decision(a) != decision(b)
    assert decision(a, reason="reason", reasoned={"look"}) != decision(
        b, reason="reason", reasoned={"look"}
    )
    assert decision(a, reason="reason", reasoned={"book"}) == decision(
        b, reason="reason", reasoned={"book"}
    )


def test_arguments_that_are_no_json_are_compared_as_they_were_written():
    assert decision(calls(("book", "{a"))) == decision(calls(("book", "{a")))
    assert decision(calls(("book", "{a"))) != decision(calls(("book", "{b")))


def test_answers_without_calls_are_compared_by_their_text():
    assert decision(says(" Done.\n")) == decision(says("Done."))
    assert decision(says("Done.")) != decision(says("done."))
    assert decision(says(None)) == decision(says(""))
    assert decision(says([{"type": "text", "text": "a"}])) != decision(says("a"))


arguments = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3))


@given(st.lists(st.tuples(st.sampled_from("ab"), arguments), max_size=12))
def test_each_answer_is_in_one_group_with_all_that_decide_the_same(made):
    decided = [decision(calls((name, json.dumps(value)))) for name, value in made]
    found = groups(decided)
    assert sorted(place for group in found for place in group.places) == list(
        range(len(decided))
    )
    for group in found:
        assert {decided[place] for place in group.places} == {group.decision}
    assert len({group.decision for group in found}) == len(found)
    assert [g.count for g in found] == sorted((g.count for g in found), reverse=True)
