"""Tools of working memory: what they keep, what they refuse, and what a page reads of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import ArgumentsDoNotFit
from agents.pure.calls import parse_arguments
from agents.pure.context import CHANNEL, FACTUAL, compose
from agents.pure.memory import CHANNELS, memory_of
from agents.tools import WORKING_MEMORY, Agent, ToolContext, ToolError
from agents.tools.working import LARGE, MOST
from checkpoints.pure.codec import canonical
from checkpoints.pure.ops import fold
from tests.checkpoints.strategies import states, values

AGENT = Agent("keeper", model="scripted", system="Keep notes.", tools=WORKING_MEMORY)
EMPTY: dict[str, Any] = {
    "_schema": 1,
    "goal": "A trip",
    "plan": [],
    "facts": {},
    "decisions": [],
    "todos": [],
    "vars": {},
}


def use(state: dict[str, Any], name: str, /, **arguments: Any) -> tuple[Any, str]:
    """The state after this call, as a run folds it, and what the model is told."""
    context = ToolContext(state)
    said = AGENT.tool(name).execute(arguments, key="k", context=context)
    return fold(state, context.ops), said


def test_a_fact_is_kept_replaced_and_taken_back():
    state, said = use(EMPTY, "remember_fact", name="fare/now", value={"usd": "1200"})
    assert said == "Remembered: fare/now."
    assert state["facts"] == {"fare/now": {"usd": "1200"}}
    state, _ = use(state, "remember_fact", name="fare/now", value=7)
    assert state["facts"] == {"fare/now": 7}
    state, _ = use(state, "forget_fact", name="fare/now")
    assert state["facts"] == {}


def test_what_was_never_remembered_cannot_be_forgotten():
    state, _ = use(EMPTY, "remember_fact", name="seat", value="12A")
    with pytest.raises(ToolError, match="There is: “seat”"):
        use(state, "forget_fact", name="meal")


def test_the_plan_is_written_whole_and_tells_a_resumed_run_what_is_next():
    steps = [
        {"step": "Look up fares", "status": "done", "result": "TP 209, 1,200"},
        {"step": "Book the best"},
    ]
    state, said = use(EMPTY, "update_plan", steps=steps)
    assert said == "The plan has 2 steps, 1 of them to be done."
    assert state["plan"][1] == {"step": "Book the best", "status": "open", "result": ""}
    messages = [{"role": "user", "content": "Book it"}]
    resumed = {**state, "messages": messages, CHANNEL: {"policy": FACTUAL, "from": 1}}
    [facts, _] = compose(resumed, AGENT.schemas).messages
    assert facts["content"].endswith(
        'Next step: {"result": "", "status": "open", "step": "Book the best"}'
    )
    [done, todo] = memory_of(state).plan
    assert (done.status, done.more) == ("done", "TP 209, 1,200")
    assert (todo.status, todo.value) == ("open", "Book the best")


@pytest.mark.parametrize(
    "steps", [[{"step": ""}], [{"status": "done"}], [{"step": "a", "status": "soon"}]]
)
def test_a_plan_that_is_none_is_refused(steps):
    with pytest.raises(ArgumentsDoNotFit):
        AGENT.tool("update_plan").signature.fit({"steps": steps})


def test_a_plan_has_an_end():
    with pytest.raises(ToolError, match=f"at most {MOST} steps"):
        use(EMPTY, "update_plan", steps=[{"step": "again"}] * (MOST + 1))


def test_decisions_are_kept_with_their_reasons():
    state, _ = use(EMPTY, "record_decision", decision="TP 209", reason="nonstop")
    assert state["decisions"] == [{"decision": "TP 209", "reason": "nonstop"}]
    [made] = memory_of(state).decisions
    assert (made.value, made.more) == ("TP 209", "nonstop")


def test_open_items_come_once_and_go_when_they_are_done():
    state, said = use(EMPTY, "add_todo", item="Ask for the seat")
    assert said == "Open items: 1."
    state, said = use(state, "add_todo", item="Ask for the seat")
    assert said == "That item is open already."
    with pytest.raises(ToolError, match="Open are: “Ask for the seat”"):
        use(state, "finish_todo", item="ask for the seat")
    state, _ = use(state, "finish_todo", item="Ask for the seat")
    assert state["todos"] == []


def test_a_note_of_null_takes_it_away():
    state, _ = use(EMPTY, "set_var", name="tries", value=0)
    assert state["vars"] == {"tries": 0}
    state, _ = use(state, "set_var", name="tries", value=None)
    assert state["vars"] == {}


def test_who_keeps_too_much_is_told_so():
    state, said = use(EMPTY, "remember_fact", name="a", value="x" * (LARGE - 100))
    assert "should" not in said
    _, said = use(state, "remember_fact", name="b", value="y" * 200)
    assert f"more than the {LARGE:,} that it should" in said


def test_a_channel_of_another_shape_is_not_overwritten():
    odd = {**EMPTY, "facts": ["not", "ours"]}
    with pytest.raises(ToolError, match="Working memory was not changed"):
        use(odd, "remember_fact", name="a", value=1)


def test_what_is_no_channel_of_names_has_nothing_to_forget():
    with pytest.raises(ToolError, match="There is: nothing"):
        use({**EMPTY, "facts": 5}, "forget_fact", name="a")


def test_nobody_is_asked_and_nothing_leaves_the_house():
    assert {tool.effect for tool in WORKING_MEMORY} == {"none"}
    assert not any(tool.requires({}) for tool in WORKING_MEMORY)


planned = st.lists(
    st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            ("step", "status", "done", "result", "decision"), values
        ),
    )
    | values,
    max_size=3,
)


@given(st.dictionaries(st.sampled_from(CHANNELS), states | planned | values))
def test_any_state_is_read(state):
    memory = memory_of(state)
    for part in (
        memory.plan,
        memory.facts,
        memory.decisions,
        memory.todos,
        memory.vars,
    ):
        assert all(entry.path.startswith("/") for entry in part)


@given(values)
def test_any_value_can_be_remembered(value):
    arguments, problem, _ = parse_arguments(
        canonical({"name": "it", "value": value}).decode()
    )
    assert not problem
    fitted, _ = AGENT.tool("remember_fact").signature.fit(arguments or {})
    state, _ = use(EMPTY, "remember_fact", **fitted)
    assert canonical(state["facts"]["it"]) == canonical(value)
