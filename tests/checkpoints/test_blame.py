"""Blame: which steps changed what stands at a path."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.pure import codec
from checkpoints.pure.blame import blame
from checkpoints.pure.ops import append, delete, diff, fold, put, reset, set_, unset
from checkpoints.pure.pointer import pointer
from tests.checkpoints.strategies import keys, states

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
