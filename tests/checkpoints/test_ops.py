"""Operations: what each does, what does not fit, and the laws of fold and diff."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.errors import BadOperation
from checkpoints.pure import codec
from checkpoints.pure.ops import (
    append,
    delete,
    diff,
    fold,
    put,
    reset,
    set_,
    unset,
)
from checkpoints.pure.pointer import pointer, split, within
from tests.checkpoints.strategies import keys, pairs, states, values

STATE = {"messages": [{"id": "m1"}], "facts": {"a/b": 1}, "goal": "trip"}


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (append("/messages", 2), {**STATE, "messages": [{"id": "m1"}, 2]}),
        (append("/todos", "x"), {**STATE, "todos": ["x"]}),
        (put("/facts", "c~d", 2), {**STATE, "facts": {"a/b": 1, "c~d": 2}}),
        (put("/facts", "a/b", 2), {**STATE, "facts": {"a/b": 2}}),
        (put("/vars", "0", 2), {**STATE, "vars": {"0": 2}}),
        (put("", "vars", {}), {**STATE, "vars": {}}),
        (delete("/facts", "a/b"), {**STATE, "facts": {}}),
        (set_("/goal", "home"), {**STATE, "goal": "home"}),
        (set_("/facts/a~1b", None), {**STATE, "facts": {"a/b": None}}),
        (set_("/messages/0/id", "m2"), {**STATE, "messages": [{"id": "m2"}]}),
        (unset("/messages/0"), {**STATE, "messages": []}),
        (unset("/goal"), {"messages": [{"id": "m1"}], "facts": {"a/b": 1}}),
        (reset({"a": 1}), {"a": 1}),
    ],
)
def test_an_operation_changes_what_it_says_and_nothing_else(op, expected):
    assert fold(STATE, [op]) == expected


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (
            append("/goal", 1),
            "append at '/goal': 'goal' is neither an object nor a list",
        ),
        (append("/facts", 1), "append at '/facts': there is an object, not a list."),
        (append("", 1), "append at '': there is an object, not a list."),
        (append("/a/b", 1), "append at '/a/b': there is no key 'a'."),
        (
            put("/messages", "0", 1),
            "put at '/messages': there is a list, not an object.",
        ),
        (["put", "/facts", 1, 1], "put at '/facts': its key is not text."),
        (delete("/facts", "b"), "delete at '/facts': there is no key 'b'."),
        (delete("/messages", "0"), "delete at '/messages': there is a list, not an"),
        (
            set_("/messages/1", 1),
            "set at '/messages/1': there is no item 1, the list has 1",
        ),
        (
            set_("/messages/-", 1),
            "set at '/messages/-': '-' is not an index of a list.",
        ),
        (set_("/messages/00", 1), "'00' is not an index of a list."),
        (set_("/messages/-1", 1), "'-1' is not an index of a list."),
        (set_("", {}), "the whole state is replaced by reset only"),
        (unset(""), "the whole state is replaced by reset only"),
        (unset("/nothing"), "unset at '/nothing': there is no key 'nothing'."),
        (unset("goal"), "a JSON Pointer begins with"),
        (unset("/a~2"), "a JSON Pointer begins with"),
        (reset([]), "reset at '': state is an object."),  # type: ignore[arg-type]
        (["unset", 5], "unset at '': its path is not text."),
        (["append", "/messages"], "append at '': not one of append, put,"),
        (["move", "/a", "/b"], "move at '': not one of append, put,"),
        ([], "? at '': not one of"),
        ("unset", "? at '': not one of"),
        ([["unset"], "/a"], "? at '': not one of"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_name_and_path(op, message):
    with pytest.raises(BadOperation) as refusal:
        fold(STATE, [op])
    assert message in str(refusal.value)


def test_a_long_path_cannot_nest_state_deeper_than_can_be_stored():
    deepest = fold({}, (set_("/a" * levels, {}) for levels in range(1, 64)))
    codec.check(deepest)
    for op in (
        set_("/a" * 64, {}),
        set_("/a" * 63, {"b": []}),
        set_("/a" * 63, [[]]),
        put("/a" * 63, "b", []),
        append("/a" * 62 + "/b", []),
        append("/a" * 62 + "/b", {"c": 1}),
    ):
        with pytest.raises(BadOperation, match="64 levels deep"):
            fold(deepest, [op])
    codec.check(fold(deepest, [put("/a" * 63, "b", 1), append("/a" * 62 + "/b", 1)]))


operations = st.one_of(
    st.builds(append, st.sampled_from(["/a", "/b/0", "/a/id", ""]), values),
    st.builds(put, st.sampled_from(["/a", "", "/b", "/id"]), keys, values),
    st.builds(delete, st.sampled_from(["/a", ""]), keys),
    st.builds(set_, keys.map(pointer) | st.just("/a/0"), values),
    st.builds(unset, keys.map(pointer) | st.just("/a/0")),
    st.builds(reset, states),
)


@given(states, st.lists(operations, max_size=8))
def test_folding_changes_nothing_that_it_was_given(state, ops):
    given_state, given_ops = copy.deepcopy(state), copy.deepcopy(ops)
    for op in ops:  # those that do not fit are refused; the others apply
        try:
            fold(state, [op])
        except BadOperation:
            continue
    try:
        fold(state, ops)
    except BadOperation:
        pass
    assert codec.same(state, given_state)
    assert codec.same(ops, given_ops)


@given(states, st.lists(operations, max_size=8))
def test_folding_at_once_and_step_by_step_is_the_same(state, ops):
    step_by_step, fitting = state, []
    for op in ops:
        try:
            step_by_step = fold(step_by_step, [op])
        except BadOperation:
            continue
        fitting.append(op)
    assert codec.same(fold(state, fitting), step_by_step)
    # An iterator whose values die at once must not confuse what the fold has copied.
    assert codec.same(fold(state, (copy.deepcopy(op) for op in fitting)), step_by_step)


def reach(op) -> str:
    """What an operation may change: of a list that loses an item, later ones move up."""
    match op:
        case ["reset", _]:
            return ""
        case ["put", path, key, _] | ["delete", path, key]:
            return f"{path}{pointer(key)}"
        case ["unset", path]:
            return str(path.rpartition("/")[0])
        case [_, path, *_]:
            return str(path)
    raise AssertionError(op)


@given(states, st.lists(operations, max_size=3))
def test_an_operation_changes_only_what_it_names(state, ops):
    for op in ops:
        try:
            after = fold(state, [op])
        except BadOperation:
            continue
        for undo in diff(state, after):
            if undo[0] != "reset":
                assert within(reach(undo), reach(op)) or within(reach(op), reach(undo))
        state = after


@given(pairs)
def test_applying_a_diff_gives_the_second_state(pair):
    before, after = pair
    assert codec.canonical(fold(before, diff(before, after))) == codec.canonical(after)


@given(pairs)
def test_a_diff_is_empty_exactly_when_nothing_differs(pair):
    before, after = pair
    assert (diff(before, after) == []) == codec.same(before, after)


@given(pairs)
def test_a_diff_is_never_more_than_the_state_again(pair):
    before, after = pair
    delta = diff(before, after)
    whole = delta in ([], [reset(after)])
    assert whole or 2 * codec.size(delta) <= codec.size(after)


def test_an_appended_message_is_one_append():
    before = {"messages": [{"id": str(n), "content": "x" * 40} for n in range(20)]}
    after = {"messages": [*before["messages"], {"id": "20"}]}
    assert diff(before, after) == [append("/messages", {"id": "20"})]


def test_an_edited_word_is_one_set_at_its_leaf():
    before = {"messages": [{"id": str(n), "content": "x" * 40} for n in range(20)]}
    after = copy.deepcopy(before)
    after["messages"][3]["content"] = "y"
    assert diff(before, after) == [set_("/messages/3/content", "y")]


MESSAGES = [{"id": str(n), "content": "x" * 40} for n in range(20)]
EDITED = {"id": "3", "content": "y"}


@pytest.mark.parametrize(
    ("after", "ops"),
    [
        (MESSAGES[1:], [unset("/messages/0")]),
        (MESSAGES[:-1], [unset("/messages/19")]),
        (MESSAGES[:5] + MESSAGES[7:], [unset("/messages/6"), unset("/messages/5")]),
        (
            [*MESSAGES[:3], EDITED, *MESSAGES[4:18]],
            [
                set_("/messages/3/content", "y"),
                unset("/messages/19"),
                unset("/messages/18"),
            ],
        ),
        (
            [*MESSAGES[:3], EDITED, *MESSAGES[4:], 1, 2],
            [
                set_("/messages/3/content", "y"),
                append("/messages", 1),
                append("/messages", 2),
            ],
        ),
    ],
)
def test_an_edited_list_is_told_in_few_words(after, ops):
    before = {"messages": MESSAGES}
    assert diff(before, {"messages": after}) == ops
    assert fold(before, ops) == {"messages": after}


def test_a_new_state_altogether_is_a_reset():
    after = {"a": "x" * 100}
    assert diff({"b": "y" * 100}, after) == [reset(after)]


@given(st.lists(keys | st.integers(0, 99), max_size=5))
def test_a_pointer_splits_into_what_it_was_made_of(parts):
    assert split(pointer(*parts)) == tuple(map(str, parts))
