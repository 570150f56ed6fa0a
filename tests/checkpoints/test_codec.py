"""What may be stored, its one form, and what typed JSON must look like."""

from __future__ import annotations

import datetime
import json
import time
from collections import OrderedDict
from decimal import Decimal
from enum import StrEnum

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from checkpoints.errors import NotJson, NotStorable
from checkpoints.pure import codec
from tests.checkpoints.strategies import near_twins, states, values


class Kind(StrEnum):
    INPUT = "input"


def nested(levels: int) -> object:
    value: object = []
    for _ in range(levels - 1):
        value = [value]
    return value


@given(states)
def test_what_is_stored_is_read_back_exactly(state):
    data = codec.canonical(state)
    assert codec.canonical(codec.parse(data)) == data


@given(states)
def test_canonical_bytes_do_not_depend_on_the_order_of_keys(state):
    turned = dict(reversed(state.items()))
    assert codec.canonical(turned) == codec.canonical(state)


@given(near_twins() | st.tuples(values, values))
def test_values_are_the_same_exactly_when_their_bytes_are(pair):
    one, other = pair
    assert codec.same(one, other) == (codec.canonical(one) == codec.canonical(other))


@given(values)
def test_canonical_bytes_are_the_standard_librarys(value):
    plainly = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    assert codec.canonical(value) == plainly.encode()


def test_canonical_bytes_are_tight_sorted_and_utf8():
    assert codec.canonical({"b": [1, 1.0, -0.0], "a": "é\0"}) == (
        '{"a":"é\\u0000","b":[1,1.0,-0.0]}'.encode()
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"messages": [{}, {}, {}, {"at": datetime.datetime(2026, 1, 1)}]},  # noqa: DTZ001
            "$.messages[3].at is a datetime; only plain JSON can be stored.",
        ),
        ({"a": (1, 2)}, "$.a is a tuple; only plain JSON can be stored."),
        ({"a": Decimal("1.2")}, "$.a is a Decimal; only plain JSON can be stored."),
        ({"a": Kind.INPUT}, "$.a is a Kind; only plain JSON can be stored."),
        ({"a": OrderedDict()}, "$.a is an OrderedDict; only plain JSON can be stored."),
        ({"a": b"x"}, "$.a is a bytes; only plain JSON can be stored."),
        ({"two words": [float("nan")]}, '$["two words"][0] is nan; JSON has no such'),
        ({"a": float("-inf")}, "$.a is -inf; JSON has no such number."),
        ({"a": 2**64}, "$.a is an integer beyond 64 bits; store it as text."),
        ({"a": -(2**63) - 1}, "$.a is an integer beyond 64 bits; store it as text."),
        ({"a": {1: 2}}, "$.a has a key that is an int; keys are text."),
        ({"a": {None: 2}}, "$.a has a key that is a NoneType; keys are text."),
        ({"a": "\ud800"}, "$.a has a lone surrogate; clean() replaces them."),
        ({"\udc00": 1}, r'$["\udc00"] has a key with a lone surrogate'),
        (nested(65), "is more than 64 levels deep"),
        (
            "x" * 16 * 1024 * 1024,
            "$ is larger than 16 MB; store large values as blobs.",
        ),
        (datetime.date(2026, 1, 1), "$ is a date; only plain JSON can be stored."),
    ],
    ids=lambda part: part[:40] if isinstance(part, str) and len(part) < 200 else "",
)
def test_what_cannot_be_stored_is_refused_with_its_place(value, message):
    with pytest.raises(NotStorable) as refusal:
        codec.check(value)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    "value", [2**64 - 1, -(2**63), nested(64), "x" * (16 * 1024**2 - 2), "\U0010ffff"]
)
def test_the_limits_themselves_are_storable(value):
    assert codec.canonical(codec.parse(codec.canonical([value][0]))) is not None


def test_a_value_that_contains_itself_is_refused():
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(NotStorable, match="64 levels"):
        codec.check(loop)


def test_a_small_value_that_would_unfold_to_a_huge_one_is_refused():
    value: dict[str, object] = {}
    for _ in range(60):
        value = {"a": value, "b": value}
    with pytest.raises(NotStorable, match="larger than 16 MB"):
        codec.check(value)


def test_cleaning_replaces_lone_surrogates_and_names_their_places():
    dirty = {"messages": [{"content": "a\ud800b"}, {"content": "fine"}], "n": "\udfff"}
    value, flagged = codec.clean(dirty)
    assert value == {
        "messages": [{"content": "a�b"}, {"content": "fine"}],
        "n": "�",
    }
    assert sorted(flagged) == ["$.messages[0].content", "$.n"]
    assert value["messages"][1] is dirty["messages"][1]
    assert dirty["n"] == "\udfff"


def test_cleaning_reaches_every_depth_that_can_be_stored():
    for wrap in (lambda inner: [inner], lambda inner: {"a": inner}):
        value: object = "\ud800"
        for _ in range(64):
            value = wrap(value)
        cleaned, flagged = codec.clean(value)
        codec.check(cleaned)
        assert len(flagged) == 1


def test_cleaning_joins_halves_that_belong_together():
    assert codec.clean("\ud83d\ude00") == ("😀", ["$"])


def test_cleaning_leaves_what_it_does_not_know_for_the_check():
    loop: list[object] = [{"\ud800": object()}]
    loop.append(loop)
    assert codec.clean(loop) == (loop, [])


@given(
    st.recursive(
        st.text(st.characters(categories=["Cs", "Ll"]), max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.just("a"), inner)
        ),
    )
)
def test_cleaned_values_can_be_stored_and_flags_say_when_something_changed(value):
    cleaned, flagged = codec.clean(value)
    codec.check(cleaned)
    assert bool(flagged) == (cleaned != value)
    assert codec.clean(cleaned) == (cleaned, [])


@given(values, st.sampled_from([None, 2]))
@example({"a": {"a": 1}, "b": ["a", "a"]}, None)
@example({"b": {"a": 1}, "a": [{"a": n} for n in range(70)]}, None)
@example([2**64 - 1, -(2**63), 1e308, -0.0], None)
def test_typed_json_is_read_as_it_was_written(value, indent):
    for ascii_only in (True, False):
        text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
        assert codec.same(codec.load_strict(text), value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1,\n "a": 2}', 'Line 2, column 2: the key "a" is given twice.'),
        (r'{"a": 1, "\u0061": 2}', 'Line 1, column 10: the key "a" is given twice.'),
        ('[{"a": {"a": 1}, "b": 1, "a": 2}]', "Line 1, column 26: the key"),
        ("[1,\n\n  NaN]", "Line 3, column 3: NaN is not a number in JSON."),
        ("\nNaN", "Line 2, column 1: NaN is not a number in JSON."),
        ("-Infinity", "Line 1, column 1: -Infinity is not a number in JSON."),
        ("[1e999]", "Line 1, column 2: a number too large for a float"),
        ("[18446744073709551616]", "Line 1, column 2: an integer beyond 64 bits"),
        ("9" * 5000, "Line 1, column 1: an integer beyond 64 bits"),
        ("[" * 65 + "]" * 65, "Line 1, column 65: more than 64 levels deep."),
        ("[" * 100_000, "Line 1, column 65: more than 64 levels deep."),
        (r'{"\ud800": 1}', "Line 1, column 2: a lone surrogate in a key."),
        ('{"a": 1,}', "Line 1, column 9: expecting property name"),
        ('{"a" 1}', "Line 1, column 6: expecting ':' delimiter"),
        ('{"a": "x', "Line 1, column 7: unterminated string"),
        ("{'a': 1}", "Line 1, column 2: expecting property name"),
        ('["a\nb"]', "Line 1, column 4: invalid control character"),
        ("", "Line 1, column 1: expecting value."),
        ("1 2", "Line 1, column 3: extra data."),
    ],
    ids=lambda part: part[:30],
)
def test_typed_json_is_refused_with_line_and_column(text, message):
    with pytest.raises(NotJson) as refusal:
        codec.load_strict(text)
    assert message in str(refusal.value)


def test_a_brace_or_a_key_within_a_text_is_only_text():
    text = r'{"a": "{\"a\": NaN, [[", "b": "\\", "c": "\\\""}'
    assert codec.load_strict(text) == {"a": '{"a": NaN, [[', "b": "\\", "c": '\\"'}


@pytest.mark.parametrize(
    "text",
    [
        '"' + '\\"' * 200_000,
        '"' * 199_999,
        "{" * 200_000,
        "[" + "1," * 200_000,
        "\\" * 9999,
    ],
    ids=lambda text: text[:3],
)
def test_long_nonsense_is_refused_at_once(text):
    started = time.process_time()
    with pytest.raises(NotJson):
        codec.load_strict(text)
    assert time.process_time() - started < 2  # seconds; quadratic would take hours


@given(st.text(alphabet='{}[]:,"\\ua1eN- \n', max_size=30))
def test_whatever_is_typed_is_read_or_refused(text):
    try:
        value = codec.load_strict(text)
    except NotJson:
        return
    codec.check(codec.clean(value)[0])
