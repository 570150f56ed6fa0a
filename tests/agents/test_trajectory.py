"""Conversations as examples to learn from: whole, valid, and nothing that is none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from agents.pure.context import CHANNEL, messages_of
from agents.pure.trajectory import example, problems, task
from checkpoints.pure.codec import State
from tests.agents.test_context import exchange, long, resumed_states
from tests.agents.test_engine import user
from tests.agents.test_import_chat import AIRLINE, needs_recordings

FIND = {"type": "function", "function": {"name": "find", "parameters": {}}}


def answered(text: str = "Done.") -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def golden() -> State:
    state = long(2)
    state["messages"].append(answered())
    state["params"]["system"] = "Be brief."
    return state


def test_a_conversation_is_written_as_a_provider_takes_it():
    made = example(golden(), [FIND])
    assert made is not None
    roles = [message["role"] for message in made["messages"]]
    assert roles == ["system", "user", *["assistant", "tool"] * 2, "assistant"]
    assert made["tools"] == [FIND]
    assert made["parallel_tool_calls"] is False
    assert list(problems(made)) == []


def test_what_a_window_left_out_is_in_the_example():
    state = golden()
    now = {**state, CHANNEL: {"policy": "window", "from": 4}, "summary": "short"}
    assert example(now, [FIND]) == example(state, [FIND])


def test_it_ends_with_the_last_answer():
    state = golden()
    state["messages"] += [user("And now?"), *exchange(9)]
    made = example(state, [FIND])
    assert made is not None
    assert made["messages"][-1]["content"] == "Done."


def test_a_conversation_without_an_answer_is_no_example():
    assert example(long(2), [FIND]) is None
    assert example({}, []) is None


def test_the_same_request_is_the_same_task():
    assert task(golden()) == task(long(7))
    other = {"messages": [user("Another trip.")]}
    assert task(golden()) != task(other)
    assert task({}) == task({"messages": [{"role": "assistant", "content": "Hi"}]})


@pytest.mark.parametrize(
    ("break_it", "problem"),
    [
        (lambda made: made["messages"].pop(), "does not end with an answer"),
        (lambda made: made["messages"].pop(3), "before the results"),
        (lambda made: made["messages"].pop(2), "answers no call"),
        (lambda made: made.update(tools=[]), "not among the tools"),
        (lambda made: made.update(weight=1), "'weight', which the format"),
        (lambda made: made["messages"][0].update(role="robot"), "has no role"),
        (lambda made: made["messages"][1].update(content=None), "says nothing"),
        (lambda made: made["tools"][0]["function"].update(name="a b"), "no name that"),
        (lambda made: made.update(messages=None), 'no object with "messages"'),
    ],
)
def test_what_a_provider_would_refuse_is_named(break_it, problem):
    made: Any = json.loads(json.dumps(example(golden(), [FIND])))
    break_it(made)
    assert problem in "; ".join(problems(made))


@given(resumed_states())
def test_whatever_the_state_an_example_is_one_that_providers_take(state):
    names = {
        call["function"]["name"]
        for message in (example(state, []) or {"messages": []})["messages"]
        for call in message.get("tool_calls", ())
    }
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    made = example(state, tools)
    if made is not None:
        assert list(problems(made)) == []


@needs_recordings
@pytest.mark.parametrize("file", AIRLINE, ids=lambda file: file.stem)
def test_a_recorded_conversation_is_an_example(file):
    messages = json.loads(file.read_text())["messages"]
    system = messages[0]["content"]
    state = {"messages": messages[1:], "params": {"system": system}}
    calls = [c for m in messages for c in m.get("tool_calls") or ()]
    tools = [
        {"type": "function", "function": {"name": name}}
        for name in sorted({call["function"]["name"] for call in calls})
    ]
    made = example(state, tools)
    assert made is not None
    assert list(problems(made)) == []
    assert len(messages_of(state)) >= len(made["messages"]) - 1
    for said, sent in zip(messages, made["messages"], strict=False):
        assert (said["content"] or "") == (sent.get("content") or "")
