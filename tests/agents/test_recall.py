"""Older messages that were left out come back where what goes on now is about them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.demo.model.validate import check_request
from agents.errors import BadDeclaration
from agents.pages.thread.context import context_view
from agents.pure.context import (
    CHANNEL,
    FACTUAL,
    Request,
    Resumed,
    Window,
    compose,
    moved,
    request_of,
)
from agents.pure.context.earlier import OPENING, ROOM
from agents.pure.engine import advance
from agents.pure.step import Continue
from agents.tools import Agent
from checkpoints.pure import ops
from checkpoints.pure.codec import State
from checkpoints.pure.ops import fold
from tests.agents.test_context import exchange, long
from tests.agents.test_engine import states, user
from tests.agents.test_window import NoTools, Summariser, steps

WINDOW = Window(recall=5)

# A fact as somebody once said it, and how it is asked for much later.
PLANTED = [
    (
        "Our travel insurance is policy ZX-4471 with Alpina.",
        "Which insurance do we have?",
    ),
    ("Helen is allergic to peanuts.", "Book a meal for Helen: any allergies?"),
    ("The client wants the window seat, row 12.", "Which seat should I choose?"),
    (
        "The passport of Mr Okafor expires on 3 March 2027.",
        "Is Okafor's passport valid?",
    ),
    ("Invoices go to accounts@northwind.example.", "Where do I send the invoice?"),
    (
        "The hotel's Wi-Fi password is on the key card.",
        "How do I get the Wi-Fi password?",
    ),
    ("We never fly with layovers in Frankfurt.", "May the flight stop in Frankfurt?"),
    ("The budget for dinner is 80 euros a head.", "What is the dinner budget?"),
    ("Maria's phone number is 555-0142.", "Call Maria. What is her phone number?"),
    ("The meeting room is called Atlas, on floor 4.", "Which room is the meeting in?"),
    ("The rental car must be electric.", "Rent a car for Tuesday."),
    ("The visa application has number V-99812.", "Check the visa application."),
    ("Luggage: two suitcases and one cello.", "How much luggage is there?"),
    (
        "Our discount code with Ibis is HOLD20.",
        "Is there a discount code for the hotel?",
    ),
    ("The conference starts at 08:30 on Monday.", "When does the conference start?"),
    (
        "Tom must be back in Oslo before Friday noon.",
        "When does Tom have to be in Oslo?",
    ),
    ("The taxi company is called Gul, ask for Arne.", "Order a taxi."),
    ("The refund of booking QF-88 was refused twice.", "Ask for the refund of QF-88."),
    ("The emergency contact is Dr. Lindqvist.", "Who is the emergency contact?"),
    ("The museum tickets are non-refundable.", "Can the museum tickets be returned?"),
]


def planted() -> State:
    """Each fact, and seven exchanges about something else after it."""
    messages: list[dict[str, Any]] = [user("Plan a trip to Lisbon.")]
    for n, (fact, _) in enumerate(PLANTED):
        messages.append({**user(fact), "id": f"fact-{n}"})
        messages += [m for k in range(7) for m in exchange(7 * n + k)]
    return {"_schema": 1, "messages": messages, "params": {"model": "m"}}


def settled(state: State, window: Window = WINDOW) -> State:
    """After the steps that move its window."""
    model = Summariser("A trip to Lisbon is planned.")
    for _ in range(20):
        if moved(state, window) is None:
            return state
        outcome = advance(state, model, NoTools(), window=window, waiting=[])
        assert isinstance(outcome, Continue)
        state = fold(state, outcome.step.ops)
    raise AssertionError("The window does not come to rest.")


def asked(state: State, question: str) -> Request:
    return compose(fold(state, [ops.append("/messages", user(question))]), [])


def came_back(request: Request) -> str:
    place = request.manifest.get("earlier")
    return "" if place is None else str(request.messages[place]["content"])


def test_of_planted_facts_nine_of_ten_come_back_among_five():
    state = settled(planted())
    found = [fact in came_back(asked(state, question)) for fact, question in PLANTED]
    missed = [PLANTED[n] for n, there in enumerate(found) if not there]
    assert sum(found) / len(found) >= 0.9, missed
    for _, question in PLANTED:
        lines = came_back(asked(state, question)).splitlines()
        assert len(lines) <= 1 + WINDOW.recall


def test_what_comes_back_is_marked_and_a_persons_message_stays_the_last():
    request = asked(settled(planted()), "Which insurance do we have?")
    *_, back, last = request.messages
    assert last["content"] == "Which insurance do we have?"
    assert back["role"] == "user"
    assert back["content"].startswith(OPENING)
    assert '- a person said "Our travel insurance is' in back["content"]
    check_request({"model": "m", "messages": request.messages})


def test_after_a_tools_result_it_comes_last_and_what_is_before_stays_as_it_was():
    state = settled(planted())
    state = fold(state, [ops.append("/messages", user("Any allergies of Helen?"))])
    before = compose(state, []).messages
    state = fold(state, [ops.append("/messages", m) for m in exchange(900)])
    request = compose(state, [])
    assert request.manifest["earlier"] == len(request.messages) - 1
    assert "peanuts" in came_back(request)
    kept = [m for m in before if not str(m.get("content")).startswith(OPENING)]
    assert request.messages[: len(kept)] == kept
    check_request({"model": "m", "messages": request.messages})


def test_nothing_comes_back_twice():
    """What the facts tell already, and what is sent."""
    state = settled(planted(), Window(recall=5, summary=False))
    request = asked(state, "Any museum tickets?")
    told = request.messages[request.manifest["facts"]]["content"]
    for line in came_back(request).splitlines()[1:]:
        assert f"{line}\n" not in f"{told}\n"


def test_nothing_comes_back_where_nothing_fits_or_nobody_asked_for_it():
    state = settled(planted())
    assert "earlier" not in asked(state, "Zzyzx qwfp?").manifest or (
        "Zzyzx" not in came_back(asked(state, "Zzyzx qwfp?"))
    )
    without = settled(planted(), Window())
    assert "earlier" not in asked(without, "Which insurance do we have?").manifest
    assert "earlier" not in compose(long(5), []).manifest  # nothing is left out


def test_long_ones_are_bounded():
    texts = [user(f"Report {n} about lisbon: {'lisbon ' * 140}") for n in range(60)]
    state = settled({"_schema": 1, "messages": texts, "params": {}}, Window(recall=20))
    back = came_back(asked(state, "What of lisbon?"))
    assert 0 < len(back) <= ROOM + len(OPENING) + 100


def test_a_run_that_works_from_the_facts_has_it_too():
    more = [ops.append("/messages", m) for n in range(200) for m in exchange(n)]
    state = fold(planted(), [*more, Resumed(FACTUAL, 690, recall=5).op()])
    assert "ZX-4471" in came_back(asked(state, "Which insurance do we have?"))


def test_what_was_sent_can_be_built_again_and_is_shown():
    state = settled(planted())
    state = fold(state, [ops.append("/messages", user("Which insurance do we have?"))])
    request = compose(state, [])
    assert request_of(request.manifest, state).messages == request.messages
    view = context_view({"request": request.manifest}, state, counted=None)
    assert view is not None
    [card] = [one for one in view.request if one.who == "Holdpoint: from earlier"]
    assert "ZX-4471" in str(card)
    assert "earlier" in [part.name for part in view.parts]


@pytest.mark.parametrize("recall", [-1, 21])
def test_how_many_come_back_is_bounded(recall):
    with pytest.raises(BadDeclaration, match="0 to 20"):
        Window(recall=recall)


def test_it_makes_another_version_only_where_it_is_used():
    def spec(window: Window) -> Any:
        return Agent("a", model="m", system="", window=window).spec()["window"]

    assert "recall" not in spec(Window())
    assert spec(WINDOW)["recall"] == 5


@pytest.mark.parametrize("told", [-3, "many", True, 10**9, None, 2.5])
def test_a_state_that_says_nonsense_of_it_is_read_as_far_as_it_goes(told):
    state = settled(planted())
    state[CHANNEL]["recall"] = told
    assert len(came_back(asked(state, "Which insurance?")).splitlines()) <= 21


@given(states, st.integers(0, 8))
def test_whatever_the_state_providers_take_what_is_sent(state, first):
    state = fold(state, [Resumed(FACTUAL, first, recall=5).op()])
    sent = compose(state, []).messages
    if sent:
        check_request({"model": "m", "messages": sent})


def test_the_engine_goes_on_with_it():
    *_, after = steps(long(30), Summariser(), WINDOW)
    assert after[CHANNEL]["recall"] == 5
