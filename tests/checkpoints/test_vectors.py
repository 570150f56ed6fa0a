"""Vectors: what is one, how it is kept, and what comes first by words and meaning."""

from __future__ import annotations

from math import inf, isclose, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.pure.vectors import (
    MOST_NUMBERS,
    NEAREST,
    NotAVector,
    blend,
    nearness,
    packed,
    unit,
    unpacked,
)

numbers = st.lists(
    st.floats(-1e6, 1e6).filter(lambda x: x == 0 or abs(x) > 1e-6),
    min_size=1,
    max_size=9,
)
lists = numbers.filter(any)
scores = st.dictionaries(st.integers(0, 30), st.floats(0, 9), max_size=20)


@given(lists)
def test_a_vector_has_length_1_and_is_read_as_it_was_kept(given):
    vector = unit(given)
    assert isclose(nearness(vector, vector), 1, rel_tol=1e-5)
    assert unpacked(packed(vector)) == vector


@given(lists, st.floats(0.5, 100))
def test_how_long_it_was_does_not_matter(given, times):
    longer = unit([number * times for number in given])
    assert isclose(nearness(unit(given), longer), 1, rel_tol=1e-5)


@pytest.mark.parametrize(
    "odd",
    [[], [0.0, 0], [nan], [inf, 1], [1e308, 1e308], ["1"], [None], [True], [1.0] * (MOST_NUMBERS + 1), [10**400]],
)  # fmt: skip
def test_what_has_no_direction_is_no_vector(odd):
    with pytest.raises(NotAVector):
        unit(odd)


@pytest.mark.parametrize("odd", ["AAA", "AAAA", "é", "AA AA"])
def test_what_was_not_kept_so_is_no_vector(odd):
    with pytest.raises(NotAVector):
        unpacked(odd)


def test_what_is_near_comes_before_what_merely_shares_a_word():
    assert blend({0: 3.0, 1: 2.9}, {0: 0.1, 1: 0.2, 2: 0.8}, most=3) == [2, 1, 0]


def test_what_is_near_and_has_the_words_comes_first():
    assert blend({1: 2.0}, {0: 0.7, 1: 0.69, 2: 0.0}, most=2) == [1, 0]


def test_what_has_no_vector_yet_counts_by_its_words():
    assert blend({5: 2.0}, {0: 0.4, 1: 0.1}, most=2) == [5, 0]
    assert blend({1: 2.0, 5: 0.2}, {0: 0.4, 1: 0.1}, most=3) == [0, 1, 5]


def test_so_many_come_by_their_meaning_alone_and_nothing_that_points_away():
    near = {place: 1 - place / 100 for place in range(40)}
    assert blend({}, near, most=50) == list(range(NEAREST))
    assert blend({}, {0: -0.2, 1: 0.0, 2: 0.1}, most=50) == [2]


@given(scores, scores, st.integers(1, 40))
def test_what_is_found_is_there_once_and_nothing_with_the_words_is_lost(
    by_words, by_meaning, most
):
    found = blend(by_words, by_meaning, most=most)
    assert len(found) == len(set(found)) <= most
    assert set(found) <= {*by_words, *by_meaning}
    assert set(by_words) <= set(blend(by_words, by_meaning, most=99))


@given(scores)
def test_without_vectors_it_is_the_order_by_words(by_words):
    expected = sorted(by_words, key=lambda place: (-by_words[place], place))
    assert blend(by_words, {}, most=99) == expected
