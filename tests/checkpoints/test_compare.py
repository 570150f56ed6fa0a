"""The display diff: nothing that differs is missed, nothing that is the same is shown."""

from __future__ import annotations

import copy
import time
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.pure import codec
from checkpoints.pure.align import align, moved
from checkpoints.pure.compare import Change, compare
from checkpoints.pure.pointer import split
from checkpoints.pure.text import MAX_WORDS, Hunk, hunks
from tests.checkpoints.strategies import pairs, states, values


@given(pairs)
def test_there_are_no_changes_exactly_when_the_states_are_the_same(pair):
    before, after = pair
    assert (compare(before, after) == []) == codec.same(before, after)


class Gone:
    """Stands where a change was cut out, and is only like itself."""


GONE = Gone()


def cut(root: dict[str, Any], paths: dict[str, bool]) -> Any:
    """`root` without what is at these paths; False leaves a marker in its place."""
    box = copy.deepcopy({"": root})

    def order(path: str) -> list[Any]:
        return [int(part) if part.isdecimal() else -1 for part in split(path)]

    # The deepest and last first, so that paths still hold when it is their turn.
    for path in sorted(paths, key=lambda path: (len(split(path)), order(path)))[::-1]:
        node: Any = box
        *above, last = ("", *split(path))
        for part in above:
            node = node[int(part) if isinstance(node, list) else part]
        at = int(last) if isinstance(node, list) else last
        if paths[path]:
            del node[at]
        else:
            node[at] = GONE
    return box[""]


def alike(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return one is other if Gone in (type(one), type(other)) else codec.same(one, other)


@given(pairs)
def test_what_is_not_among_the_changes_is_the_same(pair):
    before, after = pair
    old_paths: dict[str, bool] = {}
    new_paths: dict[str, bool] = {}
    for change in compare(before, after):
        if change.old_path is not None:
            old_paths.setdefault(change.old_path, change.kind != "changed")
        if change.kind != "removed":
            new_paths.setdefault(change.path, change.kind != "changed")
    assert alike(cut(before, old_paths), cut(after, new_paths))


def value_at(state: Any, path: str) -> Any:
    for part in split(path):
        state = state[int(part) if isinstance(state, list) else part]
    return state


@given(pairs)
def test_every_change_shows_what_is_at_its_paths(pair):
    before, after = pair
    for change in compare(before, after):
        if change.kind == "removed":
            assert change.path == change.old_path
        else:
            assert codec.same(value_at(after, change.path), change.new)
        if change.old_path is None:
            assert change.kind == "added"
        else:
            assert codec.same(value_at(before, change.old_path), change.old)
        if change.kind == "changed":
            assert not codec.same(change.old, change.new)


BEFORE: dict[str, Any] = {
    "messages": [{"id": "1", "content": "hi"}, {"id": "2", "content": "yo"}],
    "fare": {"amount": "990.00"},
    "options": [{"key": "TP"}, {"key": "AF"}, {"key": "UA"}],
    "seats": [1, 2, 3],
    "left": 1810,
    "kept": {"as": "is"},
}


def edited(**channels: Any) -> dict[str, Any]:
    return {**BEFORE, **channels}


def labels(after: dict[str, Any]) -> dict[str, str]:
    return {group.path: group.label for group in compare(BEFORE, after).groups()}


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (
            edited(messages=[*BEFORE["messages"], {"id": "3"}]),
            {"/messages": "+1 appended"},
        ),
        (edited(messages=BEFORE["messages"][1:]), {"/messages": "1 removed"}),
        (
            edited(messages=[{"id": "0"}, BEFORE["messages"][0], {"id": "9"}]),
            {"/messages": "+2 added, 1 removed"},
        ),
        (edited(fare={"amount": "1200.00"}), {"/fare/amount": "+210.00, +21 %"}),
        (edited(fare={"amount": "990.0"}), {"/fare/amount": "text"}),
        (
            edited(fare={"amount": "990.00", "class": "P"}),
            {"/fare/class": "added"},
        ),
        (edited(fare={}), {"/fare/amount": "removed"}),
        (edited(left=1600), {"/left": "\u2212210, \u221212 %"}),
        (edited(left=1810.5), {"/left": "+0.5"}),
        (edited(left=1810.0), {"/left": "changed"}),
        (edited(left="1810"), {"/left": "changed"}),
        (edited(left=None), {"/left": "changed"}),
        (edited(kept=["as"]), {"/kept": "changed"}),
        (
            edited(options=[{"key": "UA", "stops": 1}, {"key": "TP"}, {"key": "AF"}]),
            {"/options": "1 moved", "/options/0/stops": "added"},
        ),
        (
            edited(seats=[1, 4, 3, 5]),
            {"/seats/1": "+2, +100 %", "/seats": "+1 appended"},
        ),
        (edited(seats=[2, 3]), {"/seats": "1 removed"}),
        (edited(seats=[3, 1, 2]), {"/seats": "1 moved"}),
        (edited(seats=[]), {"/seats": "3 removed"}),
    ],
)
def test_changes_are_told_as_people_would_tell_them(after, expected):
    assert labels(after) == expected


def test_what_stayed_is_counted_and_messages_by_themselves():
    after = edited(messages=[*BEFORE["messages"], {"id": "3"}], left=1)
    found = compare(BEFORE, after)
    assert found.unchanged_messages == 2
    assert found.unchanged == 4  # fare, options, seats, kept
    seats = compare({"seats": [1, 2, 3, 4]}, {"seats": [1, 2, 5, 4]})
    assert (seats.unchanged, seats.unchanged_messages) == (3, 0)
    assert compare(BEFORE, copy.deepcopy(BEFORE)).unchanged == 1


def test_a_share_of_nothing_is_left_out():
    (change,) = compare({"n": 0}, {"n": 5})
    assert (change.delta, change.percent, change.label) == (Decimal(5), None, "+5")


def test_an_item_keeps_its_identity_when_it_moves_and_changes():
    moves = compare(
        {"l": [{"id": 1, "n": 1}, {"id": 2}]}, {"l": [{"id": 2}, {"id": 1, "n": 2}]}
    )
    assert {change.kind for change in moves} == {"moved", "changed"}


def test_an_id_given_twice_is_no_id():
    before = {"l": [{"id": 1, "n": 1}, {"id": 1, "n": 2}]}
    (change,) = compare(before, {"l": [{"id": 1, "n": 1}, {"id": 1, "n": 3}]})
    assert change.path == "/l/1/n"


def test_the_words_that_changed_are_marked():
    (hunk,) = hunks(
        "Book TP 209 in economy and keep $1,810 for the hotel.",
        "Book TP 209 in premium economy and keep $1,600 for the hotel.",
    )
    minus, plus = hunk.lines
    assert [p.text for p in minus.parts if p.kind == "del"] == ["1,810"]
    assert [p.text for p in plus.parts if p.kind == "ins"] == ["premium ", "1,600"]


def test_two_texts_with_little_in_common_are_shown_line_by_line():
    (hunk,) = hunks("all that was here before", "nothing like it whatsoever, sir")
    assert [(line.sign, len(line.parts)) for line in hunk.lines] == [("-", 1), ("+", 1)]


def test_hunks_keep_some_context_and_know_their_lines():
    old = [f"line {n}" for n in range(1, 41)]
    new = ["zero", "and more", *old[:9], "another", *old[10:30], *old[31:]]
    found = hunks("\n".join(old), "\n".join(new))
    assert [(hunk.old_line, hunk.new_line) for hunk in found] == [
        (1, 1),
        (8, 10),
        (29, 31),
    ]
    assert ["".join(line.sign for line in hunk.lines) for hunk in found] == [
        "++  ",
        "  -+  ",
        "  -  ",
    ]


def test_changes_next_to_each_other_share_a_hunk():
    old = [f"line {n}" for n in range(1, 11)]
    new = ["1", *old[1:5], "6", *old[6:]]
    assert len(hunks("\n".join(old), "\n".join(new))) == 1
    new = ["1", *old[1:6], "7", *old[7:]]
    assert len(hunks("\n".join(old), "\n".join(new))) == 2


paragraphs = st.lists(
    st.lists(st.sampled_from(["a", "b ", "  ", "c.", "日本", "é"]), max_size=6).map(
        "".join
    ),
    max_size=8,
).map("\n".join)


@given(paragraphs, paragraphs)
def test_hunks_give_back_both_texts(old, new):
    def side(hunk: Hunk, sign: str) -> str:
        return "\n".join(line.text for line in hunk.lines if line.sign in (" ", sign))

    (hunk,) = hunks(old, new, context=None)
    assert (side(hunk, "-"), side(hunk, "+")) == (old, new)
    for line in hunk.lines:
        kinds = {"-": {"same", "del"}, "+": {"same", "ins"}, " ": {"same"}}[line.sign]
        assert {part.kind for part in line.parts} <= kinds
    assert bool(hunks(old, new)) == (old != new)


@given(pairs)
def test_the_other_way_round_the_same_is_told_with_sides_changed(pair):
    before, after = pair
    turned = {"added": "removed", "removed": "added"}

    def told(changes: list[Change], *, turn: bool = False) -> list[tuple[Any, ...]]:
        found = []
        for change in changes:
            kind = turned.get(change.kind, change.kind) if turn else change.kind
            places = (
                None if change.kind == "added" else change.old_path,
                None if change.kind == "removed" else change.path,
            )
            values = codec.text(change.old), codec.text(change.new)
            if turn:
                places, values = places[::-1], values[::-1]
            delta = change.delta and (-change.delta if turn else change.delta)
            found.append((kind, places, values, delta, change.list_path is None))
        return sorted(found, key=repr)

    there, back = compare(before, after), compare(after, before)
    assert told(there) == told(back, turn=True)
    assert there.unchanged == back.unchanged
    assert there.unchanged_messages == back.unchanged_messages


@given(states, st.lists(values, min_size=1, max_size=4), st.booleans())
def test_items_appended_are_all_that_is_told(state, more, named):
    items = [{"id": n, "v": v} for n, v in enumerate(more)] if named else more
    for old in ([], items[:1], items):
        before = {**state, "list": old}
        new = items[len(old) :] if named else items
        found = compare(before, {**state, "list": [*old, *new]})
        assert [change.kind for change in found] == ["added"] * len(new)
        assert [change.path for change in found] == [
            f"/list/{len(old) + n}" for n in range(len(new))
        ]
        assert all(change.appended for change in found)


letters = st.lists(st.sampled_from("abcdefgh"), max_size=20)


@given(letters, letters)
def test_aligned_items_are_equal_and_rise_on_both_sides(old, new):
    pairs = align(old, new)
    assert all(old[i] == new[j] for i, j in pairs)
    assert all(a < c and b < d for (a, b), (c, d) in pairwise(pairs))
    assert sorted((j, i) for i, j in align(new, old)) == sorted(pairs)
    shifts = moved(old, new, pairs)
    assert all(old[i] == new[j] for i, j in shifts)
    assert len({i for i, _ in pairs + shifts}) == len(pairs + shifts)
    assert len({j for _, j in pairs + shifts}) == len(pairs + shifts)


@given(st.permutations(range(30)))
def test_of_unique_items_as_many_as_possible_stay(order):
    # The longest rising subsequence, by the textbook's quadratic way.
    longest: list[int] = []
    for n, item in enumerate(order):
        longest.append(
            1 + max((longest[m] for m in range(n) if order[m] < item), default=0)
        )
    assert len(align(list(range(30)), order)) == max(longest)


@given(letters)
def test_an_insertion_anywhere_keeps_all_the_rest(items):
    for at in range(len(items) + 1):
        assert len(align(items, [*items[:at], "new", *items[at:]])) == len(items)


@pytest.mark.slow
def test_comparing_two_large_states_is_quick():
    def state(edit: str) -> dict[str, Any]:
        words = [f"word{n % 977}" for n in range(150)]
        return {
            "messages": [
                {
                    "id": str(n),
                    "content": " ".join(words) + (edit if n % 5 == 0 else ""),
                }
                for n in range(500)
            ],
            "table": [
                {"n": n, "x": [n, edit if n % 7 == 0 else ""]} for n in range(3000)
            ],
            "long": " ".join(words * 100) + edit,
        }

    before, after = state("."), state(" and more.")
    assert len(codec.canonical(before)) > 700_000
    started = time.process_time()
    found = compare(before, after)
    spent = time.process_time() - started
    assert len(found) == 100 + 429 + 1
    assert spent < 1  # seconds; 0.15 on a quiet machine


def test_more_words_than_the_cap_are_compared_by_line():
    old = "\n".join(f"word {n}" for n in range(MAX_WORDS))
    (change,) = compare({"t": old}, {"t": old.replace("word", "WORD")})
    assert isinstance(change, Change)
    assert all(len(line.parts) == 1 for line in change.hunks[0].lines)


@given(values, values)
def test_any_value_may_take_the_place_of_any_other(old, new):
    changes = compare({"x": old}, {"x": new})
    for group in changes.groups():
        assert group.label
