"""Whatever a state holds, its page is built: logs and models know no shapes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agents.pages.compare.rows import by_path
from agents.pages.thread.cards import card, messages, summary, unchanged
from agents.pages.thread.context import context_view
from agents.pages.thread.diff import diff_view
from agents.pages.thread.inspector import leaves, matches
from agents.pages.thread.panel import additions
from agents.pure.noise import quiet, told
from checkpoints.pure import ops
from checkpoints.pure.compare import compare
from tests.checkpoints.strategies import values as json_values

roles = st.sampled_from(["user", "assistant", "tool", "system", "developer", "", 7])
calls = st.lists(
    json_values
    | st.fixed_dictionaries(
        {
            "function": st.fixed_dictionaries(
                {"name": json_values, "arguments": json_values}
            )
        }
    ),
    max_size=3,
)
shaped = st.fixed_dictionaries(
    {"role": roles, "content": json_values},
    optional={"id": json_values, "name": json_values, "tool_calls": calls},
)
states = st.dictionaries(st.text(max_size=8), json_values, max_size=4) | (
    st.fixed_dictionaries(
        {"messages": st.lists(shaped | json_values, max_size=5), "params": json_values}
    )
)


@given(shaped | json_values)
def test_any_message_has_a_card(message):
    shown = card(message)
    assert isinstance(shown.text, str)
    assert "\n" not in summary(message)


@given(states, states)
def test_any_two_states_have_a_diff(before, after):
    view = diff_view(compare(before, after))
    assert bool(view.entries) is bool(compare(before, after))
    for entry in view.entries:
        assert len(entry.pairs) >= 1
        assert unchanged(messages(before), messages(after)) >= 0


@given(states, states)
def test_any_two_states_have_a_diff_without_their_ids(before, after):
    view = diff_view(compare(quiet(before), quiet(after)))
    assert bool(view.entries) is bool(compare(quiet(before), quiet(after)))


@given(states, states)
def test_any_two_steps_have_a_diff_of_what_they_did(before, after):
    did = [told(ops.diff({}, state)) for state in (before, after)]
    view = diff_view(by_path(compare(*did)))
    assert bool(view.entries) is bool(compare(*did))
    assert all(entry.path.startswith("/") for entry in view.entries)


@given(states)
def test_any_first_step_says_what_it_began_with(state):
    found = additions([ops.reset(state)], step=0, who="Helen")
    assert len(found.cards) == len(messages(state))


@given(json_values, states)
def test_any_manifest_is_shown_or_left(manifest, state):
    context_view(manifest, state, counted=None)
    view = context_view({"request": {"messages": ["m"]}}, state, counted=500)
    assert view is not None
    assert view.tokens == 500


@given(states, st.text(max_size=3))
def test_a_search_keeps_only_what_holds_the_text(state, query):
    found = matches(state, query.casefold())
    assert found is None or leaves(found) <= leaves(state)
