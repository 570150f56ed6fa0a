"""Blame: which steps changed what stands at a path."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.pure import codec
from checkpoints.pure.blame import LastChanged, blame, blames, values
from checkpoints.pure.changes import ABSENT, look
from checkpoints.pure.ops import (
    Op,
    append,
    delete,
    diff,
    fold,
    put,
    reset,
    set_,
    unset,
)
from checkpoints.pure.pointer import pointer, split
from tests.checkpoints.strategies import keys, near_twins, states

RECORDS = [
    (0, [reset({"messages": ["hello"], "facts": {}, "goal": "trip"})]),
    (1, [append("/messages", {"text": "hi"})]),
    (2, [put("/facts", "a/b", 1), set_("/goal", "trip")]),
    (3, [set_("/messages/1/text", "ho"), put("/facts", "c", 0)]),
    (4, [put("/facts", "c", False)]),
    (5, [delete("/facts", "a/b"), put("/facts", "a/b", 1)]),
    (6, [unset("/messages/0")]),
]


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("", [0, 1, 2, 3, 4, 6]),
        ("/messages", [0, 1, 3, 6]),
        ("/messages/1", [1, 3, 6]),
        ("/messages/0", [0, 6]),
        ("/messages/1/text", [1, 3, 6]),
        ("/messages/-", []),
        ("/facts/a~1b", [2]),
        ("/facts/c", [3, 4]),
        ("/goal", [0]),
        ("/goal/deeper", []),
        ("/never", []),
    ],
)
def test_the_steps_that_changed_a_path_are_named(path, steps):
    assert blame(RECORDS, path) == steps


@given(st.lists(states, min_size=1, max_size=5), keys)
def test_a_step_is_named_exactly_when_the_value_became_another(history, key):
    state: codec.State = {}
    records, expected = [], []
    for step, after in enumerate(history):
        records.append((step, diff(state, after)))
        was, became = state.get(key, records), after.get(key, records)
        same = was is became if records in (was, became) else codec.same(was, became)
        if not same:
            expected.append(step)
        state = fold(state, records[-1][1])
    assert blame(records, pointer(key)) == expected


# Every path at once, against folding every step and looking

# What an agent's steps are made of; states that follow one another in no way are above.
appended = st.tuples(
    st.sampled_from(["/messages", "/log"]), st.sampled_from([0, 0.0, ""])
)
written_to = st.tuples(
    st.sampled_from(["a", "b", "~/"]), st.sampled_from([0, False, [1], {"k": 1}])
)
steps = st.lists(
    st.lists(
        st.builds(lambda pair: append(*pair), appended)
        | st.builds(lambda pair: put("/facts", *pair), written_to)
        | st.builds(lambda pair: put("", *pair), written_to)
        | st.builds(lambda n: ("shorten", n), st.integers(0, 3)),
        max_size=4,
    ),
    max_size=12,
)


def paths_of(value, *parts):
    yield parts
    if isinstance(value, dict):
        for key, child in value.items():
            yield from paths_of(child, *parts, key)
    elif isinstance(value, list):
        for n, child in enumerate(value):
            yield from paths_of(child, *parts, str(n))


def folded(drawn):
    """Records of these steps, and the state after each: `shorten` takes an item out."""
    state: codec.State = {}
    records, history = [], []
    for step, ops in enumerate(drawn):
        made: list[Op] = []
        for op in ops:
            if op[0] == "shorten":
                there = fold(state, made).get("messages", [])
                if op[1] >= len(there):
                    continue
                op = unset(f"/messages/{op[1]}")
            made.append(op)
        state = fold(state, made)
        records.append((step, made))
        history.append(state)
    return records, history


def differs(was, became):
    if ABSENT in (was, became):
        return was is not became
    return not codec.same(was, became)


def check_every_path(records, history):
    """Blame, the last change and the values of every path that there ever was."""
    every = {parts for state in history for parts in paths_of(state)}
    last = LastChanged(records)
    paths = [pointer(*parts) for parts in sorted(every)]
    for path, found in zip(paths, blames(records, paths), strict=True):
        seen = [look({}, split(path)), *(look(state, split(path)) for state in history)]
        expected = [step for step, pair in enumerate(pairwise(seen)) if differs(*pair)]
        assert found == blame(records, path) == expected
        assert [
            (s, codec.text(v))
            for s, v in values(records, path, found)
            if v is not ABSENT
        ] == [
            (step, codec.text(seen[step + 1]))
            for step in expected
            if seen[step + 1] is not ABSENT
        ]
        if expected and seen[-1] is not ABSENT:
            assert last.at(path)[0] == expected[-1]


@given(steps)
def test_every_path_is_blamed_as_folding_every_step_would(drawn):
    check_every_path(*folded(drawn))


@given(st.lists(states, min_size=1, max_size=5))
def test_every_path_is_blamed_whatever_the_states_were(history):
    check_every_path(
        [
            (step, diff(history[step - 1] if step else {}, after))
            for step, after in enumerate(history)
        ],
        history,
    )


@given(near_twins())
def test_a_value_that_is_merely_equal_is_another(pair):
    check_every_path(
        [(0, [reset(pair[0])]), (1, diff(*pair)), (2, [reset(pair[0])])],
        [*pair, pair[0]],
    )


def test_what_was_written_with_all_above_it_is_told_from_what_was_written_apart():
    last = LastChanged(RECORDS)
    assert last.at("/goal") == (0, True)
    assert last.at("/facts/c") == (4, True)
    assert last.at("/messages/0") == (6, True)
    assert last.at("/messages/0/text") == (6, False)
    assert LastChanged(RECORDS[:2]).at("/messages/1/text") == (1, False)


def test_a_change_among_ten_thousand_messages_is_found():
    records = [(0, [reset({"messages": [], "vars": {}})])]
    for step in range(1, 10_001):
        records.append((step, [append("/messages", {"n": step})]))
    records[5000][1].append(put("/vars", "fare", "1200.00"))
    assert blame(records, "/vars/fare") == [5000]
    assert blame(records, "/messages/9999") == [10_000]
    assert blame(records, "/messages") == list(range(10_001))
    assert LastChanged(records).at("/messages/41")[0] == 42
