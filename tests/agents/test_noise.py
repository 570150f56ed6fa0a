"""What is left out where two branches are compared: ids, and nothing else."""

from __future__ import annotations

from hypothesis import given

from agents.pure.noise import quiet, told
from checkpoints.pure import ops
from checkpoints.pure.compare import compare
from tests.checkpoints.strategies import states

CALL = {"type": "function", "function": {"name": "quote", "arguments": '{"id": 1}'}}


def said(n: int) -> list[object]:
    """The same two messages, as two branches would have them."""
    return [
        {"id": f"m{n}", "role": "assistant", "tool_calls": [{"id": f"c{n}", **CALL}]},
        {"id": f"r{n}", "role": "tool", "tool_call_id": f"c{n}", "content": "990.00"},
    ]


def test_the_same_said_in_two_branches_is_the_same():
    one, other = {"messages": said(1)}, {"messages": said(2)}
    assert compare(one, other) != []
    assert compare(quiet(one), quiet(other)) == []
    assert told([ops.append("/messages", said(1)[0])]) == told(
        [ops.append("/messages", said(2)[0])]
    )


def test_ids_anywhere_else_are_content():
    state = {"facts": {"id": "B-1"}, "messages": [{"role": "user", "content": "hi"}]}
    assert quiet(state) == state
    booked = [ops.put("/facts", "booking", {"id": "B-1"})]
    assert told(booked) == {"/facts/booking": {"id": "B-1"}}


@given(states)
def test_any_state_stays_as_it_is_but_for_ids_of_messages(state):
    left = quiet(state)
    assert left.keys() == state.keys()
    for key in state:
        if key != "messages":
            assert left[key] is state[key]


def test_what_a_step_did_is_told_by_path():
    assert told(
        [
            ops.append("/messages", {"id": "m", "role": "user", "content": "hi"}),
            ops.put("/facts", "a/b", 1),
            ops.delete("/facts", "old"),
            ops.set_("/params/model", "mini"),
            ops.set_("/messages/0", {"id": "n", "content": "ho"}),
            ops.unset("/plan/0"),
        ]
    ) == {
        "/messages/-": {"role": "user", "content": "hi"},
        "/facts/a~1b": 1,
        "/facts/old": None,
        "/params/model": "mini",
        "/messages/0": {"content": "ho"},
        "/plan/0": None,
    }
    assert told([ops.reset({"messages": [{"id": "m"}], "goal": "x"})]) == {
        "/messages": [{}],
        "/goal": "x",
    }
    both = [ops.append("/messages", {"id": str(n), "n": n}) for n in range(2)]
    assert told(both) == {"/messages/-": [{"n": 0}, {"n": 1}]}
