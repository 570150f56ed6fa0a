"""Values to draw: plain JSON, and pairs that a lax comparison confuses."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

# Every text that can be stored: no surrogates, but NUL, pointers' ~ and /, emoji.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
keys = st.sampled_from(["a", "b", "id", "key", "", "~", "/", "~1", "0", "-"]) | texts
numbers = (
    st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0, 0.0, -0.0, 1, 1.0])
)
leaves = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(keys, inner, max_size=5)
    ),
    max_leaves=25,
)
states = st.dictionaries(keys, values, max_size=6)


@st.composite
def near_twins(draw) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two states that differ in one value at most, and that == often takes for one."""
    leaf = st.sampled_from(
        [
            None,
            0,
            False,
            0.0,
            -0.0,
            1,
            True,
            1.0,
            "",
            "0",
            [],
            {},
            [0],
            [False],
            {"a": 0},
        ]
    )
    wrap = draw(
        st.sampled_from(
            [
                lambda x: {"k": x},
                lambda x: {"k": [x]},
                lambda x: {"k": {"a": [1, x, 2]}, "pad": "p" * 200},
                lambda x: {"k": [{"id": "m1", "x": x}], "pad": "p" * 200},
            ]
        )
    )
    return wrap(draw(leaf)), wrap(draw(leaf))


@st.composite
def edited(draw) -> tuple[dict[str, Any], dict[str, Any]]:
    """A state with some bulk, and the same after a few edits anywhere in it."""
    before = {**draw(states), "bulk": ["x" * 50] * 20, "messages": draw(messages)}
    after = {key: value for key, value in before.items() if draw(st.integers(0, 9))}
    for _ in range(draw(st.integers(0, 3))):
        match draw(st.integers(0, 4)):
            case 0:
                after[draw(keys)] = draw(values)
            case 1:
                after["messages"] = [*after.get("messages", []), *draw(messages)]
            case 2:
                kept = after.get("messages", [])
                after["messages"] = [m for m in kept if draw(st.booleans())]
            case 3:
                after["messages"] = draw(st.permutations(after.get("messages", [])))
            case _:
                kept = after.get("messages", [])
                after["messages"] = [
                    {**m, "content": draw(texts)} if draw(st.booleans()) else m
                    for m in kept
                ]
    return before, after


messages = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.sampled_from("pqrstuvw"),
            "content": texts,
            # Enough for a change within a message to be less than the message.
            "bulk": st.just("x" * 60),
        },
        optional={"n": leaves},
    ),
    max_size=6,
)
pairs = st.tuples(states, states) | near_twins() | edited()
