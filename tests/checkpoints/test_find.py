"""Search: which step brought a key or a value, and where it stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.pure.changes import ABSENT, look
from checkpoints.pure.find import find, holds
from checkpoints.pure.ops import append, delete, diff, put, reset, set_, unset
from checkpoints.pure.pointer import pointer, split
from tests.checkpoints.strategies import states

RECORDS = [
    (0, [reset({"messages": [{"text": "Fly to Tokyo"}], "facts": {}})]),
    (1, [append("/messages", {"text": "JL 57 lands on Tue"})]),
    (2, [put("/facts", "flight", "JL 57"), put("/facts", "fare", 1200)]),
    (3, [put("/facts", "flight", "JL 57, seat 3A")]),
    (4, [delete("/facts", "flight")]),
    (5, [put("/facts", "flight", "jl 57"), append("/notes", "JL 57")]),
    (6, [unset("/messages/0")]),
    (7, [set_("/facts/fare", {"JL 57": True})]),
]


def found(text, **more):
    return [(hit.step, hit.path, hit.in_key) for hit in find(RECORDS, text, **more)]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("tokyo", [(0, "/messages/0/text", False)]),
        ("1200", [(2, "/facts/fare", False)]),
        ("fare", [(2, "/facts/fare", True)]),
        ("seat", [(3, "/facts/flight", False)]),
        (
            "JL 57",
            [
                (1, "/messages/1/text", False),
                (2, "/facts/flight", False),
                (5, "/facts/flight", False),
                (5, "/notes/0", False),
                (6, "/messages/0/text", False),
                (7, "/facts/fare/JL 57", True),
            ],
        ),
        ("notes", [(5, "/notes", True)]),
        ("true", [(7, "/facts/fare/JL 57", False)]),
        ("zebra", []),
    ],
)
def test_what_came_to_hold_a_text_is_named_by_step(text, places):
    assert found(text) == places


def test_within_a_path_only_that_is_searched():
    assert found("JL 57", path="/facts/flight") == [
        (2, "/facts/flight", False),
        (5, "/facts/flight", False),
    ]
    assert found("JL 57", path="/never") == []


def test_of_a_blob_its_first_words_are_looked_at():
    ref = {
        "$blob": "00000000-0000-4000-8000-000000000000",
        "size": 70000,
        "media_type": "text/plain",
        "digest": "Dear Ms Marsh",
    }
    hits = list(find([(0, [reset({"letter": ref})])], "marsh"))
    assert [(hit.path, hit.value) for hit in hits] == [("/letter", ref)]
    assert not list(find([(0, [reset({"letter": ref})])], "media_type"))


def leaves(value, *parts):
    if isinstance(value, dict):
        for key, child in value.items():
            yield from leaves(child, *parts, key)
    elif isinstance(value, list):
        for n, child in enumerate(value):
            yield from leaves(child, *parts, str(n))
    else:
        yield parts


@given(st.lists(states, min_size=1, max_size=4), st.sampled_from(["a", "0", "e", "1"]))
def test_a_value_is_found_exactly_where_it_came_to_hold_the_text(history, text):
    records, expected = [], set()
    for step, after in enumerate(history):
        before = history[step - 1] if step else {}
        records.append((step, diff(before, after)))
        for parts in leaves(after):
            was = look(before, parts)
            was = ABSENT if isinstance(was, dict | list) else was
            if holds(look(after, parts), text) and not holds(was, text):
                expected.add((step, pointer(*parts)))
    # A key that has it is named for that, and its plain value not once more.
    hits = list(find(records, text))
    keys = {(hit.step, hit.path) for hit in hits if hit.in_key}
    named = {(hit.step, hit.path) for hit in hits if not hit.in_key}
    assert named <= expected
    assert expected - named <= keys
    for step, path in keys:
        assert text in split(path)[-1].casefold()
        before = history[step - 1] if step else {}
        assert look(before, split(path)) is ABSENT
