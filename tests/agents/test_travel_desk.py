"""The demo's travel desk: the real engine and client, the scripted model over HTTP.

Nothing here touches a database: a trip is the list of its states, one a step.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from agents.demo import stories
from agents.demo.agents import trip_planner
from agents.errors import ArgumentsDoNotFit, ToolError
from agents.llm import OpenAIModel, Server
from agents.pure.calls import Call
from agents.pure.context import FACTUAL, Resumed, facts_until
from agents.pure.engine import advance
from agents.pure.step import (
    Ask,
    Continue,
    Failure,
    Finished,
    Refuse,
    RunIt,
    Step,
    ToolOutcome,
)
from agents.tools import ToolContext
from checkpoints.ids import uuid7
from checkpoints.pure.codec import State
from checkpoints.pure.ops import fold


@dataclass
class Tools:
    """The agent's real tools. People approve, unless `says` has another answer."""

    says: dict[str, str] = field(default_factory=dict)  # tool → answer or rejection
    asked: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    state: State = field(default_factory=dict)

    schemas = trip_planner.schemas

    def title(self, name: str, arguments: dict[str, Any] | None) -> str:
        return trip_planner.tool(name).title(arguments)

    def consider(self, call: Call) -> RunIt | Ask | Refuse:
        tool = trip_planner.tool(call.name)
        title = tool.title(call.arguments)
        try:
            fitted = tool.fit(call)
        except ArgumentsDoNotFit as wrong:
            return Refuse(str(wrong), title)
        if tool.requires(fitted.arguments):
            self.asked.append(title)
            self.reasons.append(fitted.reason)
            if tool.name in self.says and not tool.question:
                return Refuse(self.says[tool.name], title)
        return RunIt()

    def run(self, call: Call) -> ToolOutcome:
        tool = trip_planner.tool(call.name)
        title = tool.title(call.arguments)
        if tool.question:
            return ToolOutcome(self.says[tool.name], title, tool.name)
        context = ToolContext(self.state)
        try:
            arguments = tool.fit(call).arguments
            content = tool.execute(arguments, key=str(call.key), context=context)
        except ToolError as error:
            stop = str(error) if error.stop else ""
            return ToolOutcome(str(error), title, tool.name, failed=True, stop=stop)
        return ToolOutcome(content, title, tool.name, ops=context.ops)


@dataclass
class Trip:
    """A run from a state to its end; `states[n]` is the state after step n."""

    states: list[State]
    steps: list[Step | None]
    tools: Tools
    failure: Failure | None = None

    def run(self, model: OpenAIModel) -> Trip:
        for _ in range(60):
            self.tools.state = self.states[-1]
            match advance(self.states[-1], model, self.tools):
                case Continue(step):
                    self._commit(step)
                case Finished(step, failure):
                    self._commit(step)
                    self.failure = failure
                    return self
        raise AssertionError("the trip does not end")

    def _commit(self, step: Step | None) -> None:
        if step:
            self.steps.append(step)
            self.states.append(fold(self.states[-1], step.ops))

    @property
    def messages(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.states[-1]["messages"]
        return found

    @property
    def last(self) -> str:
        return str(self.messages[-1]["content"])

    @property
    def kinds(self) -> str:
        """A letter for each step: Input, Model, Tool, Error."""
        return "".join(step.kind[0].upper() if step else "I" for step in self.steps)

    def called(self, name: str) -> list[dict[str, Any]]:
        return [
            json.loads(call["function"]["arguments"])
            for message in self.messages
            for call in message.get("tool_calls") or []
            if call["function"]["name"] == name
        ]

    def says_at(self, step: int) -> tuple[Any, ...]:
        """Text and calls of a model step."""
        message = self.states[step]["messages"][-1]
        calls = [
            (call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls") or []
        ]
        return message["content"], calls


@pytest.fixture
def model(llm):
    return OpenAIModel(Server(llm.base_url, llm.api_key))


@pytest.fixture
def start(llm, model, settings):
    """Runs the agent on a message: start("To Lisbon", send_email="Rejected.")."""
    settings.HOLDPOINT_DEMO_LEDGER = llm.ledger_url

    def start(message, *, params=None, **says):
        first = {"id": str(uuid7()), "role": "user", "content": message}
        state: State = {
            "messages": [first],
            "params": {
                **trip_planner.params(),
                "model": "scripted-1",
                **(params or {}),
            },
            "facts": {},
            "vars": {},
            "decisions": [],
        }
        return Trip([state], [None], Tools(says)).run(model)

    return start


@pytest.fixture
def edit(model):
    """Goes on from a step of a trip with something changed there."""

    def edit(trip, step, *, add="", message=None, params=None, **says):
        state = copy.deepcopy(trip.states[step])
        state["params"] |= params or {}
        if add:
            state["params"]["system"] += "\n" + add
        if message:
            state["messages"][0]["content"] = message
        steps = trip.steps[: step + 1]
        return Trip([*trip.states[:step], state], steps, Tools(says)).run(model)

    return edit


@pytest.fixture
def say(model):
    """Goes on after the end of a trip with a message of a person."""

    def say(trip, text):
        message = {"id": str(uuid7()), "role": "user", "content": text}
        state = {**trip.states[-1], "messages": [*trip.messages, message]}
        return Trip([state], [None], Tools()).run(model)

    return say


@pytest.fixture
def failed(start):
    return start(stories.FAILED.ask)


def test_the_waiting_trip_asks_to_book_tp_209_for_1200_dollars(start, llm):
    trip = start(stories.WAITING.ask)
    assert trip.tools.asked == ["Book TP 209 for Helen Marsh, $1,200.00"]
    assert "$210 less than the next option, UA 65" in trip.tools.reasons[0]
    assert "travel policy 3.1" in trip.tools.reasons[0]
    assert trip.failure is None
    assert "TP 209" in trip.last
    (booking,) = llm.ledger("bookings")
    assert booking["body"]["price"] == "1200.00"
    (email,) = llm.ledger("emails")
    assert email["body"]["to"] == "helen.marsh@northwind.example"


@pytest.mark.parametrize("back", [1, 3, 6, 9])
def test_a_trip_that_was_resumed_from_the_facts_ends_as_it_would_have(
    start, model, back
):
    whole = start(stories.WAITING.ask)
    step = len(whole.states) - 1 - back
    state = whole.states[step]
    how = Resumed(FACTUAL, facts_until(state), rested=7200)
    state = fold(state, [how.op()])
    trip = Trip([state], [None], Tools()).run(model)
    assert trip.failure is None
    for tool in ("hold_fare", "hold_hotel", "book_flight", "send_email"):
        assert len(trip.called(tool)) == len(whole.called(tool)) == 1
    for name in ("flight", "date", "fare", "price"):
        assert (
            trip.called("book_flight")[0][name]
            == (whole.called("book_flight")[0][name])
        )


def test_the_finished_trip_asks_for_the_seat_and_needs_no_approval(start, llm):
    trip = start(stories.FINISHED.ask, ask_traveller="Window, please")
    assert trip.tools.asked == [
        "Ask Tomás Vega: Window or aisle for the 2-hour flight?"
    ]
    assert trip.called("book_flight")[0]["seat"] == "window"
    assert trip.failure is None
    assert len(llm.ledger("bookings")) == 1


def test_the_forked_trip_finishes(start):
    trip = start(stories.FORKED.ask)
    assert trip.failure is None
    assert trip.tools.asked == []
    assert trip.called("book_flight")[0]["flight"] == "EK 192"


def test_the_failed_trip_takes_its_wrong_turn_at_15_and_fails_at_20(failed, llm):
    assert failed.kinds == "IMTTMTMTMTMTMTTMTMTME"
    assert stories.WRONG_TURN == 15
    _, [(tool, arguments)] = failed.says_at(15)
    assert tool == "hold_fare"
    assert json.loads(arguments)["flight"] == "JL 57"
    assert failed.steps[20].status == "failed"
    assert failed.failure.error_class == "tool_stopped"
    assert "lands in Tokyo on Tue 8 Dec, 16:55" in failed.failure.reason
    assert llm.ledger("bookings") == []


def test_the_lesson_added_before_the_wrong_turn_leads_to_a_ticket(failed, edit, llm):
    trip = edit(failed, 14, add=stories.LESSON)
    assert trip.failure is None
    assert trip.called("book_flight")[-1]["date"] == "2026-12-06"
    assert len(llm.ledger("bookings")) == 1


def test_five_edits_of_the_prompt_lead_to_different_places(failed, edit):
    edits = (
        "Check the date of arrival.",
        "Book premium economy only.",
        "Never exceed $700.",
        "Always ask the traveller before you hold anything.",
        "Take the cheapest fare, even with a stop.",
    )
    trips = [
        edit(failed, 14, add=text, ask_traveller="Yes, go ahead") for text in edits
    ]
    assert len({json.dumps(trip.says_at(15)) for trip in trips}) == 5
    assert len({tuple(step.label for step in trip.steps[15:]) for trip in trips}) == 5


def test_edits_that_say_nothing_about_the_trip_change_the_words(failed, edit):
    edits = (
        "Be kind.",
        "You are a pirate.",
        "Thank you.",
        "Mind the budget.",
        "Hurry.",
    )
    trips = [edit(failed, 14, add=text) for text in edits]
    assert len({json.dumps(trip.says_at(15)) for trip in trips}) >= 3
    assert {trip.called("hold_fare")[0]["flight"] for trip in trips} == {"JL 57"}


def test_white_space_changes_nothing(failed, edit):
    system = trip_planner.system.replace("\n", " \n\n  ").replace(" ", "  ") + "\n"
    message = "  " + stories.FAILED.ask.replace(" ", "\n")
    for trip in (
        edit(failed, 14, params={"system": system}),
        edit(failed, 14, message=message),
    ):
        labels = [step.label for step in trip.steps[15:]]
        assert labels == [step.label for step in failed.steps[15:]]
        assert trip.says_at(15) == failed.says_at(15)


def test_model_and_sampling_matter_and_a_seed_alone_does_not(failed, edit):
    careful = edit(failed, 14, params={"model": "scripted-1-pro"})
    frugal = edit(failed, 14, params={"model": "scripted-1-mini"})
    assert careful.called("hold_fare")[0]["flight"] == "UA 837"
    assert frugal.called("hold_fare")[0]["flight"] == "KE 26"
    assert edit(failed, 14, params={"seed": 9}).says_at(15) == failed.says_at(15)
    warm = {
        json.dumps(
            edit(failed, 14, params={"temperature": 1, "seed": seed}).says_at(15)
        )
        for seed in range(6)
    }
    assert len(warm) > 1


def test_a_changed_message_changes_the_trip(failed, edit):
    to_singapore = stories.FAILED.ask.replace("Tokyo", "Singapore")
    trip = edit(failed, 14, message=to_singapore)
    name, arguments = trip.says_at(15)[1][0]
    assert name == "search_flights"
    assert json.loads(arguments)["destination"] == "SIN"


def test_a_changed_tool_result_changes_the_choice(failed, edit):
    state = failed.states[14]
    search = next(
        message
        for message in state["messages"]
        if message.get("name") == "search_flights"
    )
    before = search["content"]
    search["content"] = before.replace('"870.00"', '"1870.00"')
    trip = edit(failed, 14)
    search["content"] = before
    assert trip.called("quote_fare")[-1]["flight"] == "UA 837"


def test_a_rejection_is_taken_in(start, llm):
    trip = start(
        stories.WAITING.ask,
        book_flight="Mira Okafor rejected this: too expensive, stay under $1,000.",
    )
    tried = [(call["flight"], call["price"]) for call in trip.called("book_flight")]
    assert tried == [("TP 209", "1200.00")]
    assert "under $1,000" in trip.last
    assert llm.ledger("bookings") == []


def test_a_rejection_that_leaves_a_choice_leads_to_the_next(start):
    trip = start(stories.WAITING.ask, book_flight="Rejected by Mira Okafor: not TAP.")
    flights = [call["flight"] for call in trip.called("book_flight")]
    assert flights == ["TP 209", "UA 65"]


def test_no_for_an_answer_stops_the_desk(failed, edit, llm):
    trip = edit(failed, 14, add="Ask me first.", ask_traveller="No, look further")
    assert trip.failure is None
    assert trip.called("hold_fare") == []
    assert "shortlist" in trip.last


def test_a_failed_trip_can_be_taken_up_again(failed, model):
    again = Trip(failed.states, failed.steps, Tools()).run(model)
    assert again.failure is None
    assert again.called("book_flight")[-1]["flight"] == "UA 837"


@pytest.mark.parametrize(
    ("order", "date"),
    [
        ("He must leave on Sunday.", "2026-12-06"),
        ("Depart on 5 December.", "2026-12-05"),
        ("Everyone arrives by noon on Monday 7 December.", "2026-12-05"),
    ],
)
def test_a_date_in_the_prompt_is_an_order(failed, edit, order, date):
    trip = edit(failed, 14, add=order)
    assert trip.failure is None
    assert trip.called("book_flight")[-1]["date"] == date


def test_yes_to_the_offer_relaxes_the_conditions(start, say):
    trip = start("Jonas Feld from Lisbon to Boston on 9 December, at most $90.")
    assert "Shall I take it" in trip.last
    assert "booking PNR-" in say(trip, "Yes, take it.").last


def test_what_may_have_happened_is_not_tried_again(start, say):
    doubt = "Whether this happened is not known: the connection broke."
    trip = start(stories.WAITING.ask, book_flight=doubt)
    assert "check with the airline" in trip.last
    assert len(trip.called("book_flight")) == 1


def test_after_the_ticket_people_can_cancel_thank_or_go_on(start, say, llm):
    trip = start(stories.FORKED.ask)
    assert say(trip, "Thanks!").last == "You're welcome. Have a good trip."
    assert "stands" in say(trip, "What is the weather like?").last
    cancelled = say(trip, "Please cancel it, the hearing is off.")
    assert cancelled.tools.asked[0].startswith("Refund PNR-")
    assert len(llm.ledger("refunds")) == 1
    copied = say(trip, "Please copy lawyers@hearing.example.")
    assert copied.tools.asked == ["E-mail lawyers@hearing.example: Your trip to Dubai"]
    onward = say(trip, "Now Lena Koch from Berlin to London on 3 December.")
    assert onward.called("book_flight")[-1]["passenger"] == "Lena Koch"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("Hello", "Who travels"),
        ("Helen Marsh to Tokyo", "On which day"),
        ("Someone to Tokyo on 3 December", "From where"),
        ("Helen Marsh from Lisbon to New York on 30 Nov under $50", "Nothing to New"),
    ],
)
def test_what_is_missing_is_asked_for(start, message, words):
    trip = start(message)
    assert words in trip.last
    assert trip.called("hold_fare") == []


@pytest.mark.parametrize(
    "message",
    [
        "Jonas Feld from Porto to Frankfurt on 2026-12-10, two nights",
        "Lena Koch BER → OSL on Dec 9, back on Dec 11",
        "Helen to Boston next Thursday, business class",
        "Ingrid flies to Singapore on 4 January, window seat, fastest",
    ],
)
def test_any_trip_between_known_cities_can_be_booked(start, message):
    trip = start(message, ask_traveller="Aisle")
    assert trip.failure is None
    assert trip.called("book_flight")
    assert "booking PNR-" in trip.last


@pytest.mark.parametrize(
    ("language", "word"),
    [
        ("German", "Erledigt"),
        ("Portuguese", "Tratado"),
        ("French", "C'est fait"),
        ("Spanish", "Listo"),
    ],
)
def test_it_answers_in_the_language_of_the_prompt(start, language, word):
    system = f"{trip_planner.system}\nAnswer in {language}."
    assert start(stories.FORKED.ask, params={"system": system}).last.startswith(word)


def test_the_ledger_sees_one_effect_for_a_key_that_is_tried_twice(settings, llm):
    settings.HOLDPOINT_DEMO_LEDGER = llm.ledger_url
    arguments = {
        "flight": "TP 209",
        "date": "2026-11-30",
        "passenger": "Helen Marsh",
        "fare": "Premium Economy",
        "price": "1200.00",
    }
    book = trip_planner.tool("book_flight")
    state: State = {"facts": {}, "vars": {}}
    answers = {
        book.execute(arguments, key="k", context=ToolContext(state)) for _ in range(2)
    }
    assert len(answers) == 1
    assert [effect["applied"] for effect in llm.ledger()] == [True, False]
    settings.HOLDPOINT_DEMO_LEDGER = None
    answers.add(book.execute(arguments, key="k", context=ToolContext(state)))
    assert len(answers) == 1


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("get_traveller", {"name": "Nobody"}, "no traveller"),
        ("lookup_policy", {"topic": "dragons"}, "no section"),
        (
            "search_flights",
            {"origin": "LIS", "destination": "Mars", "date": "2026-12-01"},
            "no city",
        ),
        (
            "quote_fare",
            {"flight": "XX 1", "date": "2026-12-01", "fare": "Business"},
            "does not fly",
        ),
        (
            "quote_fare",
            {"flight": "JL 57", "date": "2026-12-07", "fare": "Premium Economy"},
            "has no fare",
        ),
        (
            "hold_fare",
            {
                "flight": "TP 209",
                "date": "2026-11-30",
                "passenger": "Helen Marsh",
                "fare": "Premium Economy",
                "price": "1.00",
            },
            r"costs \$1200.00, not \$1.00",
        ),
        (
            "hold_hotel",
            {
                "hotel": "Bryant House",
                "guest": "Helen Marsh",
                "check_in": "2026-11-30",
                "nights": 0,
            },
            "at least one night",
        ),
        (
            "refund_ticket",
            {"booking": "PNR-1", "passenger": "Helen Marsh", "amount": "0"},
            "more than nothing",
        ),
    ],
)
def test_a_tool_says_what_is_wrong(tool, arguments, words):
    context = ToolContext({"facts": {}, "vars": {}, "decisions": []})
    with pytest.raises(ToolError, match=words):
        trip_planner.tool(tool).execute(arguments, key="k", context=context)


def test_an_airline_that_is_down_is_a_broken_connection(settings, llm):
    settings.HOLDPOINT_DEMO_LEDGER = llm.ledger_url
    send = trip_planner.tool("send_email")
    mail = {"to": "helen.marsh@northwind.example", "subject": "Hi", "body": "Hello"}
    for kind in ("drop", "drop_after", "503"):
        llm.ledger_fault(kind)
        with pytest.raises(OSError, match="airline"):
            send.execute(mail, key="k", context=ToolContext({}))
    send.execute(mail, key="k", context=ToolContext({}))
    assert [effect["applied"] for effect in llm.ledger()] == [True, False]
    with pytest.raises(ToolError, match="refused"):
        send.execute({**mail, "body": "Bye"}, key="k", context=ToolContext({}))
