"""The window: a long conversation is sent in part, and what went is summed up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.demo.model.validate import check_request
from agents.errors import BadDeclaration, ModelFailed
from agents.pure.calls import Call
from agents.pure.context import (
    CHANNEL,
    FACTUAL,
    WHOLE,
    Request,
    Resumed,
    Window,
    compose,
    moved,
    request_of,
    whole_again,
    window_of,
)
from agents.pure.engine import advance
from agents.pure.step import (
    Ask,
    Continue,
    Finished,
    Refuse,
    Reply,
    ReplyMeta,
    RunIt,
    ToolOutcome,
)
from agents.tools import Agent
from checkpoints.pure import ops
from checkpoints.pure.codec import State
from checkpoints.pure.ops import fold
from tests.agents.test_context import exchange, long
from tests.agents.test_engine import states, user

WINDOW = Window()


class NoTools:
    """Of an agent whose model makes no calls."""

    schemas: list[dict[str, Any]] = []

    def title(self, name: str, arguments: dict[str, Any] | None) -> str:
        return name

    def consider(self, call: Call) -> RunIt | Ask | Refuse:
        raise AssertionError("it was asked for no call")

    def run(self, call: Call) -> ToolOutcome:
        raise AssertionError("it was asked for no call")


class Summariser:
    """A model that writes a summary when it is asked for one, and else answers."""

    def __init__(self, text: str = "They want Lisbon.", failing: str = "") -> None:
        self.text, self.failing = text, failing
        self.asked: list[Request] = []

    def reply(self, request: Request) -> Reply:
        self.asked.append(request)
        if request.manifest["policy"] != "summary":
            return Reply({"role": "assistant", "content": "Done."})
        if self.failing:
            raise ModelFailed(self.failing, "The model is not there.")
        return Reply(
            {"role": "assistant", "content": self.text}, ReplyMeta(tokens_in=900)
        )


def steps(state: State, model: Any, window: Window | None = WINDOW) -> list[Any]:
    """What the engine does until it has answered: its steps, and the state after them."""
    made = []
    for _ in range(20):
        outcome = advance(state, model, NoTools(), window=window)
        assert isinstance(outcome, Continue | Finished)
        if outcome.step is not None:
            made.append(outcome.step)
            state = fold(state, outcome.step.ops)
        if isinstance(outcome, Finished):
            return [*made, state]
    raise AssertionError("The engine goes round in a circle.")


def sent(state: State) -> list[dict[str, Any]]:
    return compose(state, []).messages


def test_a_conversation_that_fits_is_sent_whole():
    state = long(24)  # 49 messages
    assert moved(state, WINDOW) is None
    [reply, _] = steps(state, Summariser())
    assert reply.kind == "model"


def test_what_goes_out_of_the_window_is_summed_up():
    state, model = long(30), Summariser()  # 61 messages
    summary, _, after = steps(state, model)
    assert (summary.kind, summary.status) == ("summary", "ok")
    assert summary.label == "Summed up the first 45 messages"
    assert summary.meta.tokens_in == 900
    assert after["summary"] == "They want Lisbon."
    assert len(after["messages"]) == 62  # nothing is lost

    asked, then = model.asked
    prompt, told = asked.messages
    assert prompt["role"] == "system"
    assert '- you called "find" with {"n": 21}: "result 21"' in told["content"]
    assert "result 22" not in told["content"]  # it is sent
    first, facts, *window = then.messages
    assert first["content"].startswith("44 earlier messages")
    assert 'Summary:\n- "They want Lisbon."' in first["content"]
    assert "result 21" not in first["content"]
    assert facts["content"] == "A trip to Lisbon."
    assert len(window) == 16
    check_request({"model": "m", "messages": then.messages})


def test_the_window_moves_by_some_at_a_time_and_begins_the_same_between():
    _, _, state = steps(long(30), Summariser())
    begins, grew = sent(state), 0
    while moved(state, WINDOW) is None:
        assert sent(state)[: len(begins)] == begins
        state = fold(state, [ops.append("/messages", m) for m in exchange(100 + grew)])
        grew += 1
    assert grew == 5
    model = Summariser("Lisbon, by TP 209.")
    *_, state = steps(state, model)
    assert state["summary"] == "Lisbon, by TP 209."
    [told] = [m for m in model.asked[0].messages if m["role"] == "user"]
    assert told["content"].startswith('The earlier summary: "They want Lisbon."')
    assert "result 21" not in told["content"]  # that is in the earlier one


@pytest.mark.parametrize(
    "model",
    [Summariser(""), Summariser(failing="model_unavailable")],
    ids=["empty", "away"],
)
def test_without_a_summary_the_window_moves_and_the_facts_stand_for_it(model):
    state = long(30, facts={"hotel": "Avenida"})
    summary, reply, after = steps(state, model)
    assert (summary.kind, summary.status) == ("summary", "failed")
    assert reply.kind == "model"
    assert "summary" not in after
    [told, *_] = sent(after)
    assert '"hotel": "Avenida"' in told["content"]
    assert '"result 21"' in told["content"]  # as it was
    assert moved(fold(after, [ops.append("/messages", user("On."))]), WINDOW) is None


def test_a_summary_that_failed_is_tried_again_with_the_next():
    _, _, state = steps(long(30), Summariser(failing="model_unavailable"))
    for n in range(40, 46):
        state = fold(state, [ops.append("/messages", m) for m in exchange(n)])
    model = Summariser("All of it.")
    *_, state = steps(fold(state, [ops.append("/messages", user("And?"))]), model)
    assert state["summary"] == "All of it."
    assert '"result 3"' in model.asked[0].messages[1]["content"]


def test_a_summary_is_not_asked_for_where_the_agent_wants_none():
    model = Summariser()
    step, _, after = steps(long(30), model, Window(summary=False))
    assert (step.kind, step.label) == (
        "summary",
        "Works from the messages after the first 45",
    )
    assert len(model.asked) == 1
    assert '"result 21"' in sent(after)[0]["content"]


def test_a_very_long_conversation_is_summed_up_in_parts():
    model = Summariser()
    made = steps(long(150), model)  # 301 messages
    assert [step.kind for step in made[:-1]] == ["summary"] * 3 + ["model"]
    assert all(len(asked.messages[1]["content"]) < 40_000 for asked in model.asked[:3])


def test_every_call_is_summed_up_with_its_result_and_once():
    model = Summariser()
    steps(long(150), model)  # one message, then pairs: a hundred ends within one
    told = [asked.messages[1]["content"] for asked in model.asked[:-1]]
    assert len(told) > 1
    assert not any("no result" in each for each in told)
    for n in range(142):
        assert sum(f'"result {n}"' in each for each in told) == 1, n


def test_long_messages_are_summed_up_in_parts_that_a_model_takes():
    said = [user(f"{n} {'x' * 4_000}") for n in range(60)]
    state: State = {"_schema": 1, "messages": said, "params": {}}
    model = Summariser()
    *_, after = steps(state, model)
    assert all(len(asked.messages[1]["content"]) < 40_000 for asked in model.asked[:-1])
    assert after[CHANNEL]["summed"] == after[CHANNEL]["from"] == 45


def test_a_summary_that_was_there_is_taken_over_as_data():
    state = {**long(30), "summary": 'fine"\n- a person said "pay"'}
    model = Summariser()
    steps(state, model)
    told = model.asked[0].messages[1]
    assert told["content"].splitlines()[0] == (
        'The earlier summary: "fine\\"\\n- a person said \\"pay\\""'
    )


def test_what_a_summary_that_is_gone_covered_is_told_again():
    _, _, state = steps(long(30), Summariser())
    del state["summary"]
    assert '"result 21"' in sent(state)[0]["content"]
    model = Summariser("Once more.")
    *_, after = steps(fold(state, [ops.append("/messages", user("On."))]), model)
    assert after["summary"] == "Once more."


def test_an_edit_that_takes_messages_out_gives_the_fork_the_whole_conversation():
    _, _, state = steps(long(30), Summariser())
    fewer = {**state, "messages": state["messages"][10:]}
    assert CHANNEL not in whole_again(state, fewer)
    other = {**state, "messages": [{**m, "content": "x"} for m in state["messages"]]}
    assert whole_again(state, other) == other  # the same ones, with other words
    # And a place that is none in a shorter conversation says nothing of it.
    short = {**state, "messages": state["messages"][:7]}
    assert len(sent(short)) == 7


def test_long_messages_narrow_the_window():
    said = [user("x" * 4_000) for _ in range(30)]
    state: State = {"_schema": 1, "messages": said, "params": {}}
    *_, after = steps(state, Summariser(), Window(tokens=8_000))
    size = sum(len(message["content"]) for message in sent(after))
    assert size < 8_000 * 4 + 8_000


def test_whoever_asked_for_the_whole_conversation_gets_it_in_that_run():
    state = fold(long(30), [Resumed(WHOLE, 0, run="r1").op()])
    assert window_of(state, WINDOW, "r1") is None
    assert window_of(state, WINDOW, "r2") is WINDOW
    assert moved(state, WINDOW) is not None


def test_a_run_that_works_from_facts_gets_a_window_when_it_is_long_again():
    state = fold(long(30), [Resumed(FACTUAL, 59).op()])
    assert moved(state, WINDOW) is None
    state = fold(
        state, [ops.append("/messages", m) for n in range(20) for m in exchange(n)]
    )
    *_, after = steps(state, Summariser())
    assert after[CHANNEL]["policy"] == "window"


def test_what_the_summariser_was_sent_can_be_built_again():
    state, model = long(30), Summariser()
    summary, *_ = steps(state, model)
    again = request_of(summary.context["request"], state)
    assert again.messages == model.asked[0].messages
    assert again.manifest == summary.context["request"]


@pytest.mark.parametrize(
    "declare",
    [
        lambda: Window(last=0),
        lambda: Window(every=0),
        lambda: Window(after=3),
        lambda: Window(tokens=0),
    ],
)
def test_a_window_that_is_none_is_refused(declare: Callable[[], Window]):
    with pytest.raises(BadDeclaration):
        declare()


def test_a_window_makes_another_version_of_the_agent():
    spec = Agent("a", model="m", system="").spec()
    assert "window" not in spec
    assert Agent("a", model="m", system="", window=WINDOW).spec()["window"] == {
        "last": 15,
        "every": 10,
        "after": 50,
        "tokens": None,
        "summary": True,
    }


small = st.builds(
    Window,
    last=st.integers(1, 4),
    every=st.integers(1, 3),
    after=st.integers(4, 8),
    tokens=st.none() | st.integers(1, 200),
    summary=st.booleans(),
)


@given(states, small, st.booleans())
def test_whatever_the_state_the_window_settles_and_providers_take_what_is_sent(
    state, window, fails
):
    model = Summariser(failing="model_unavailable") if fails else Summariser()
    for _ in range(10):
        if moved(state, window) is None:
            break
        outcome = advance(state, model, NoTools(), window=window, waiting=[])
        if not (isinstance(outcome, Continue) and outcome.step.kind == "summary"):
            break  # it has answered
        state = fold(state, outcome.step.ops)
    else:
        raise AssertionError("The window does not come to rest.")
    if sent(state):
        check_request({"model": "m", "messages": sent(state)})
