"""The engine's step: any transcript advances, and a crash between steps is harmless."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import ModelFailed
from agents.pure.calls import Call, call_key, keys_on, unanswered
from agents.pure.context import NO_RESULT, compose
from agents.pure.engine import advance
from agents.pure.step import (
    Ask,
    Continue,
    Finished,
    Interrupted,
    Refuse,
    Reply,
    RunIt,
    ToolOutcome,
)
from checkpoints.ids import uuid7
from checkpoints.pure import ops
from checkpoints.pure.codec import canonical
from checkpoints.pure.ops import fold

# What the peers do is decided by the name of the tool that is called.


@dataclass
class Desk:
    """Tools: `ask…` needs a person, `no…` is unknown, `stop…` fails the run."""

    decided: set[UUID] = field(default_factory=set)
    asked: set[UUID] = field(default_factory=set)
    ran: list[Call] = field(default_factory=list)

    schemas = [{"type": "function", "function": {"name": "find", "parameters": {}}}]

    def title(self, name: str, arguments: dict[str, Any] | None) -> str:
        return f"{name}({', '.join(map(str, (arguments or {}).values()))})"

    def consider(self, call: Call) -> RunIt | Ask | Refuse:
        title = self.title(call.name, call.arguments)
        if call.arguments is None:
            return Refuse(f"The arguments do not fit: {call.problem}", title)
        if call.name.startswith("no"):
            return Refuse(f"There is no tool {call.name!r}.", title)
        if call.name.startswith("ask") and call.key not in self.decided:
            return Ask(title, asked=call.key in self.asked)
        return RunIt()

    def run(self, call: Call) -> ToolOutcome:
        self.ran.append(call)
        return ToolOutcome(
            content=f"result of {call.name}",
            title=call.name,
            name=call.name,
            ops=(ops.put("/facts", call.name, call.arguments),),
            failed=call.name.startswith("fail"),
            stop="It cannot go on." if call.name.startswith("stop") else "",
        )


@dataclass
class Speaker:
    """A model that says what it was given to say."""

    message: dict[str, Any] | None = None
    requests: list[Any] = field(default_factory=list)

    def reply(self, request: Any) -> Reply:
        self.requests.append(request)
        if self.message is None:
            raise ModelFailed("model_unreachable", "No server.", attempts=[{"n": 1}])
        return Reply(message=self.message)


def assistant(*calls: tuple[str, str, Any], text: str | None = None) -> dict[str, Any]:
    """A reply with calls: provider's id, tool, arguments (or their text)."""
    return {
        "id": str(uuid7()),
        "role": "assistant",
        "content": text,
        "tool_calls": [
            {
                "id": id,
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": arguments
                    if isinstance(arguments, str)
                    else json.dumps(arguments),
                },
            }
            for id, name, arguments in calls
        ],
    }


def user(text: str) -> dict[str, Any]:
    return {"id": str(uuid7()), "role": "user", "content": text}


def state(*messages: dict[str, Any], **params: Any) -> dict[str, Any]:
    return {"_schema": 1, "messages": list(messages), "params": params}


def test_a_reply_without_calls_ends_the_run():
    model = Speaker({"role": "assistant", "content": "Two seats left."})
    outcome = advance(state(user("Seats?"), model="m", seed=7), model, Desk())
    assert isinstance(outcome, Finished)
    assert outcome.failure is None
    assert outcome.step is not None
    assert outcome.step.kind == "model"
    assert outcome.step.label == "Two seats left."
    appended = outcome.step.ops[0][2]
    assert appended["id"] == str(outcome.step.id)
    assert model.requests[0].seed == 7


def test_a_reply_with_calls_is_a_step_before_any_of_them_runs():
    model, desk = Speaker(assistant(("a", "find", {"to": "NYC"}))), Desk()
    outcome = advance(state(user("Go")), model, desk)
    assert isinstance(outcome, Continue)
    assert outcome.step.kind == "model"
    assert outcome.step.label == "find(NYC)"
    assert desk.ran == []


def test_several_calls_in_one_turn_run_one_a_step_and_those_that_ask_come_last():
    now = state(
        user("Go"),
        assistant(("a", "ask_one", {}), ("b", "find", {}), ("c", "ask_two", {})),
    )
    desk = Desk()
    first = advance(now, Speaker(), desk)
    assert isinstance(first, Continue)
    assert [call.name for call in desk.ran] == ["find"]
    now = fold(now, first.step.ops)
    second = advance(now, Speaker(), desk)
    assert isinstance(second, Interrupted)
    assert [call.name for call in second.calls] == ["ask_one", "ask_two"]
    assert second.step is not None
    assert second.step.label == "ask_one(), ask_two()"


def test_a_worker_that_takes_over_asks_nobody_twice():
    now = state(user("Go"), assistant(("a", "ask", {}), ("b", "ask", {})))
    desk = Desk(asked={call.key for call in unanswered(now)})
    outcome = advance(now, Speaker(), desk)
    assert outcome == Interrupted(None, ())


def test_one_id_for_two_calls_of_a_turn_still_means_two_calls():
    now = state(user("Go"), assistant(("x", "ask", {"n": 1}), ("x", "find", {"n": 2})))
    desk = Desk()
    outcome = advance(now, Speaker(), desk)
    assert isinstance(outcome, Continue)
    now = fold(now, outcome.step.ops)
    (left,) = unanswered(now)
    assert (left.name, left.ordinal) == ("ask", 0)
    desk.decided.add(left.key)
    outcome = advance(now, Speaker(), desk)
    assert isinstance(outcome, Continue)
    now = fold(now, outcome.step.ops)
    assert unanswered(now) == []
    sent = compose(now, []).messages
    ids = [call["id"] for call in sent[1]["tool_calls"]]
    assert len(set(ids)) == 2
    assert [m["tool_call_id"] for m in sent[2:]] == ids
    assert [m["content"] for m in sent[2:]] == ["result of ask", "result of find"]


def test_an_id_from_an_earlier_turn_does_not_answer_a_later_call():
    answered = {"role": "tool", "tool_call_id": "x", "content": "old"}
    now = state(
        user("Go"), assistant(("x", "find", {})), answered, assistant(("x", "ask", {}))
    )
    assert [call.name for call in unanswered(now)] == ["ask"]


def test_calls_of_an_inherited_reply_have_keys_of_their_own_on_a_fork():
    now = state(user("Go"), assistant(("a", "ask", {})))
    (here,) = unanswered(now)
    assert here.key == call_key(here.reply, 0)
    (there,) = unanswered(now, keys_on(uuid4(), {here.reply}))
    assert there.key != here.key


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("{", "Line 1, column 2"),
        ('{"a": 1, "a": 2}', "given twice"),
        ('{"a": NaN}', "NaN"),
        ("[1]", "not a JSON object"),
        ("[" * 5000, "levels deep"),
    ],
)
def test_arguments_that_are_no_json_object_go_back_to_the_model(written, problem):
    now = state(user("Go"), assistant(("a", "find", written)))
    outcome = advance(now, Speaker(), Desk())
    assert isinstance(outcome, Continue)
    assert outcome.step.status == "failed"
    assert problem in outcome.step.ops[0][2]["content"]
    canonical(fold(now, outcome.step.ops))


def test_a_lone_surrogate_in_what_a_model_wrote_can_be_stored():
    model = Speaker({"role": "assistant", "content": "a\ud800b"})
    outcome = advance(state(user("Go")), model, Desk())
    assert isinstance(outcome, Finished)
    assert outcome.step is not None
    assert outcome.step.ops[0][2]["content"] == "a\ufffdb"
    canonical(list(outcome.step.ops))


def test_an_unknown_tool_is_a_failed_step_that_the_model_can_read():
    outcome = advance(
        state(user("Go"), assistant(("a", "nosuch", {}))), Speaker(), Desk()
    )
    assert isinstance(outcome, Continue)
    assert outcome.step.status == "failed"
    assert "no tool 'nosuch'" in outcome.step.ops[0][2]["content"]


def test_a_tool_that_stops_the_run_leaves_a_transcript_that_can_go_on():
    now = state(user("Go"), assistant(("a", "stop", {})))
    outcome = advance(now, Speaker(), Desk())
    assert isinstance(outcome, Finished)
    assert outcome.failure is not None
    assert outcome.failure.error_class == "tool_stopped"
    assert outcome.step is not None
    assert outcome.step.kind == "error"
    assert unanswered(fold(now, outcome.step.ops)) == []


def test_without_a_reply_the_run_fails_and_the_state_stays():
    outcome = advance(state(user("Go")), Speaker(None), Desk())
    assert isinstance(outcome, Finished)
    assert outcome.failure is not None
    assert outcome.failure.error_class == "model_unreachable"
    assert outcome.step is not None
    assert outcome.step.ops == ()
    assert outcome.step.context is not None
    assert outcome.step.context["attempts"] == [{"n": 1}]


def test_a_message_that_came_while_a_call_waited_follows_its_result():
    reply = assistant(("a", "ask", {}))
    result = {"role": "tool", "tool_call_id": "a", "ordinal": 0, "content": "done"}
    sent = compose(state(user("Go"), reply, user("And?"), result), []).messages
    assert [message["role"] for message in sent] == [
        "user",
        "assistant",
        "tool",
        "user",
    ]


# Laws

names = st.sampled_from(["find", "fail", "ask", "ask_two", "nosuch", "stop", ""])
written = st.one_of(
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 9), max_size=2).map(
        json.dumps
    ),
    st.sampled_from(["", "{", "[]", "null", '{"a":1,"a":1}', '"\\ud800"', "\ud800"]),
    st.none(),
)
raw_calls = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["x", "y", "", None]),
        "type": st.just("function"),
        "function": st.fixed_dictionaries({"name": names, "arguments": written}),
    }
)
ids = st.one_of(st.uuids().map(str), st.sampled_from(["m1", "m1", ""]))
messages = st.one_of(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "system"]), "content": st.text(max_size=5)},
        optional={"id": ids},
    ),
    st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": st.none() | st.text(max_size=5)},
        optional={
            "id": ids,
            "tool_calls": st.none() | st.lists(raw_calls, max_size=4),
        },
    ),
    st.fixed_dictionaries(
        {
            "role": st.just("tool"),
            "tool_call_id": st.sampled_from(["x", "y", "", None]),
            "content": st.text(max_size=5),
        },
        optional={"id": ids, "ordinal": st.integers(-1, 4) | st.booleans()},
    ),
)
states = st.fixed_dictionaries(
    {"messages": st.lists(messages, max_size=8)},
    optional={
        "params": st.dictionaries(
            st.sampled_from(["system", "model", "temperature", "seed"]),
            st.none() | st.integers() | st.text(max_size=3) | st.floats(0, 2),
        ),
        "facts": st.just({}),
    },
)
replies = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": st.none() | st.text(max_size=5)},
    optional={"tool_calls": st.lists(raw_calls, max_size=4)},
)


@given(states, replies | st.none())
def test_any_transcript_advances_to_its_end(start, message):
    """And each step can be stored, changes nothing but by its operations, and counts."""
    now, desk, model = start, Desk(), Speaker(message)
    for _ in range(20):
        before = copy.deepcopy(now)
        outcome = advance(now, model, desk)
        assert now == before
        if isinstance(outcome, Continue):
            if outcome.step.kind == "tool":
                assert len(unanswered(fold(now, outcome.step.ops))) == (
                    len(unanswered(now)) - 1
                )
            if outcome.step.kind == "model":
                model = Speaker({"role": "assistant", "content": "Done."})
            canonical(list(outcome.step.ops))
            now = fold(now, outcome.step.ops)
        elif isinstance(outcome, Interrupted):
            assert outcome.calls
            desk.decided |= {call.key for call in outcome.calls}
        else:
            break
    else:
        pytest.fail("no end")


@given(states, replies)
def test_a_worker_that_takes_over_takes_the_same_step(start, message):
    """All but the ids, which a step gets when it is made."""

    def outcome():
        result = advance(start, Speaker(message), Desk())
        step = result.step
        if step is None:
            return result
        made = json.dumps(step.ops).replace(str(step.id), "its own id")
        return type(result), step.kind, step.status, step.label, step.call, made

    assert outcome() == outcome()


@given(states)
def test_what_is_sent_is_what_providers_take(start):
    """Every call has one result, at once and in order; ids of a turn differ."""
    sent = compose(start, []).messages
    place = 0
    while place < len(sent):
        message = sent[place]
        assert message["role"] != "tool"
        wanted = [call["id"] for call in message.get("tool_calls", ())]
        assert len(set(wanted)) == len(wanted)
        results = sent[place + 1 : place + 1 + len(wanted)]
        assert [result.get("tool_call_id") for result in results] == wanted
        place += 1 + len(wanted)


def test_a_call_that_never_got_a_result_is_sent_with_one():
    sent = compose(state(assistant(("a", "find", {})), user("Go on")), []).messages
    assert sent[1] == {"role": "tool", "tool_call_id": "a", "content": NO_RESULT}
