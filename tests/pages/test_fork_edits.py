"""A fork that begins with an edit of any place of the state, of a message, of a result."""

from __future__ import annotations

import json

import pytest

from checkpoints.pure.codec import canonical
from checkpoints.pure.ops import fold
from tests.pages.conftest import ASKED
from tests.pages.test_fork_page import forks, frozen, unchanged
from tests.pages.test_thread_page import text

QUOTED = "/messages/2/content"  # what quote_fare gave


@pytest.fixture
def page(trip):
    return f"{trip.page()}fork/{trip.at(2)}/"


@pytest.fixture
def fork(browser, trip, alice, page):
    """Posts the form of step 2 with these fields."""

    def fork(**fields):
        return browser(alice).post(page, unchanged(**fields))

    return fork


@pytest.fixture
def made(trip, history):
    """The state of the one fork, and what it was forked from."""

    def made():
        branch = forks(trip).get()
        told = history(branch)
        return told.state_at(branch.head_step), told.state_at(2)

    return made


def at(path, value):
    """The fields of a form whose path editor is open, and holds this JSON."""
    return {"path": path, "opened": path, "value": value}


@pytest.mark.parametrize(
    ("path", "value", "becomes"),
    [
        ("/facts/fare", '"990.00"', lambda s: s["facts"].update(fare="990.00")),
        ("/facts/seats", "6", lambda s: s["facts"].update(seats=6)),
        ("/plan", '["book", 1, 1.0, true]', lambda s: s.update(plan=["book", 1, 1.0, True])),
        ("/facts", '{"n": 18446744073709551615}', lambda s: s.update(facts={"n": 2**64 - 1})),
        ("/messages/0/content", '"Oslo"', lambda s: s["messages"][0].update(content="Oslo")),
    ],
)  # fmt: skip
def test_one_path_changes_and_nothing_else(fork, made, trip, path, value, becomes):
    before = frozen(trip)
    assert fork(**at(path, value)).status_code == 303
    after, source = made()
    becomes(source)
    assert canonical(after) == canonical(source)
    assert frozen(trip) == before


@pytest.mark.parametrize("value", ["7.0", '"7"', "7", "true"])
def test_types_are_kept_exactly(fork, made, trip, value):
    """The seed is 7: only what is another value in JSON is another step."""
    assert (
        fork(**at("/facts", f'{{"fare": "1200.00", "n": {value}}}')).status_code == 303
    )
    after, _ = made()
    assert canonical(after["facts"]["n"]) == value.encode()


def test_a_twin_of_what_is_there_is_a_change(fork, made, trip):
    assert fork(**at("/params/temperature", "0.0")).status_code == 303
    after, source = made()
    assert canonical(after["params"]["temperature"]) == b"0.0"
    assert canonical(source["params"]["temperature"]) == b"0"


def test_the_whole_state_can_be_edited_but_for_the_engines_own(fork, made, page, browser, alice):  # fmt: skip
    shown = browser(alice).get(page, {"path": ""}).context["opened"]
    whole = json.loads(shown.text)
    assert "_schema" not in whole
    whole["goal"] = "Go by train"
    assert fork(**at("", json.dumps(whole))).status_code == 303
    after, source = made()
    assert canonical(after) == canonical({**source, "goal": "Go by train"})


def test_the_operations_say_only_what_changed(fork, made, trip, history):
    assert fork(**at("/facts", '{"fare": "1200.00", "class": "P"}')).status_code == 303
    branch = forks(trip).get()
    step = history(branch).records[-1]
    assert step.kind == "edit"
    assert step.ops == [["put", "/facts", "class", "P"]]
    assert step.label.endswith("Changed /facts")
    assert fold(history(branch).state_at(2), step.ops)["facts"]["class"] == "P"


def test_what_was_opened_and_left_alone_makes_no_step(fork, trip, page, browser, alice):
    shown = browser(alice).get(page, {"path": "/facts"}).context["opened"]
    assert fork(**at("/facts", shown.text.replace("\n", "\r\n"))).status_code == 303
    assert forks(trip).get().head_step == 2


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("/facts", '{"fare": 1,\r\n "fare": 2}', "Line 2, column 2: the key"),
        ("/facts", '{"fare": NaN}', "Line 1, column 10: NaN is not a number"),
        ("/facts", '{"n": 99999999999999999999}', "an integer beyond 64 bits"),
        ("/facts", "", "Line 1, column 1: expecting value"),
        ("/facts", "[]", "/facts has to stay an object"),
        ("/messages", "{}", "/messages has to stay a list"),
        ("/messages/2/tool_call_id", '"other"', "says which message it is"),
        ("/messages/1/id", '"m1"', "is another message&#x27;s, too"),
        ("/messages/0", '"hello"', "has to be an object with a role"),
        ("/messages/0/content", "5", "has to be text"),
        ("/params/temperature", "7", "from 0 to 2"),
        ("/params/colour", '"red"', "There is no such parameter"),
        ("", "[]", "State is an object"),
        ("", '{"goal": "x"}', "has to stay"),
        ("", '{"_schema": 9}', "engine&#x27;s own"),
        (
            "/facts/x",
            '{"$blob": "01890a5d-ac96-774b-bcce-b302099a8057", "size": 9,'
            ' "media_type": "text/plain", "digest": "a"}',
            "can be moved, not made",
        ),
        ("/facts/deep", "[" * 63 + "]" * 63, "levels deep"),
        ("/_schema", "2", "engine&#x27;s own"),
        ("/facts/no/where", "1", "nothing there, nor around it"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_and_all_is_kept(fork, trip, path, value, said):
    response = fork(**at(path, value), system="A prompt of an hour")
    assert response.status_code == 422
    shown = response.content.decode()
    assert said in shown
    assert "A prompt of an hour" in shown
    assert not forks(trip).exists()


@pytest.mark.parametrize("of", ["a step of another branch", "no step"])
def test_an_edit_brings_in_no_calls_of_a_reply_that_is_not_of_the_branch(
    fork, trip, history, of
):
    """Their keys would be those of the calls that the other step made."""
    reply = str(trip.at(4, "cheap")) if of != "no step" else "m99"
    function = {"name": "book_flight", "arguments": "{}"}
    called = [{"id": "c", "type": "function", "function": function}]
    said = {"id": reply, "role": "assistant", "content": "", "tool_calls": called}
    messages = [*history(trip.branch).state_at(2)["messages"], said]
    response = fork(**at("/messages", json.dumps(messages)))
    assert response.status_code == 422
    assert "calls that it made elsewhere" in response.content.decode()
    assert not forks(trip).exists()


def test_a_result_can_be_taken_away_so_that_its_call_is_made_again(
    fork, made, trip, history
):
    messages = history(trip.branch).state_at(2)["messages"][:2]
    assert fork(**at("/messages", json.dumps(messages))).status_code == 303
    after, _ = made()
    assert after["messages"] == messages


def test_a_path_that_was_typed_and_not_opened_is_no_edit_of_another(fork, trip):
    response = fork(path="/plan", opened="/facts", value="{}")
    assert response.status_code == 422
    assert "Open this path first" in response.content.decode()
    assert not forks(trip).exists()


def test_a_value_that_is_changed_in_two_places_is_refused(fork, trip):
    response = fork(**at("/params/system", '"One"'), system="Another")
    assert response.status_code == 422
    assert "change it in one place" in response.content.decode()
    assert not forks(trip).exists()


def test_a_path_is_opened_and_what_was_typed_stays(fork, trip):
    response = fork(do="path", path="facts", system="A prompt of an hour")
    shown = text(response)
    assert response.status_code == 200
    assert "1200.00" in shown
    assert 'name="opened" value="/facts"' in shown
    assert "A prompt of an hour" in shown
    assert not forks(trip).exists()


def test_enter_in_the_paths_field_opens_it(fork, trip):
    assert fork(do="enter", path="/plan").status_code == 200
    assert not forks(trip).exists()
    assert fork(do="enter").status_code == 303
    assert forks(trip).count() == 1


def test_a_link_opens_a_path(browser, alice, page):
    shown = text(browser(alice).get(page, {"path": "/plan"}))
    assert 'name="opened" value="/plan"' in shown


def test_the_result_of_a_call_is_edited_and_stays_its_result(fork, made, trip):
    opened = text(fork(do="open-it", open=QUOTED))
    assert "Result of quote_fare" in opened
    before = frozen(trip)
    assert fork(said_path=QUOTED, said='{"fare": "1.00"}').status_code == 303
    after, source = made()
    source["messages"][2]["content"] = '{"fare": "1.00"}'
    assert canonical(after) == canonical(source)
    assert after["messages"][2]["tool_call_id"] == "call_0"
    assert frozen(trip) == before


def test_a_message_that_is_not_there_is_not_edited(fork, trip):
    for path in ("/messages/9/content", "/params/system", "/messages/2/role"):
        response = fork(said_path=path, said="x")
        assert response.status_code == 422
        assert "cannot be edited here" in response.content.decode()
    assert not forks(trip).exists()


def test_a_hostile_message_is_text_in_the_list_and_in_the_editor(fork, trip):
    hostile = "</textarea><script>alert(1)</script>\u202e"
    assert fork(said_path=QUOTED, said=hostile).status_code == 303
    shown = text(fork(do="preview", said_path=QUOTED, said=hostile))
    assert "<script>alert" not in shown
    assert "&lt;/textarea&gt;" in shown


def test_the_difference_of_a_value_is_shown_while_one_types(browser, alice):
    client = browser(alice)

    def typed(value):
        fields = {"was_value": '{"fare": 1}', "value": value, "opened": "/facts"}
        return text(client.post("/f/fork/diff?of=value", fields))

    assert "/facts/fare" in typed('{"fare": 1.0}')
    assert "<code" not in typed('{"fare": 1}')
    assert "Line 1, column 9" in typed('{"fare":')


def test_the_difference_of_a_value_can_be_seen_without_script(fork, trip):
    shown = text(fork(do="preview", **at("/facts", '{"fare": "1.00"}')))
    assert "/facts/fare" in shown
    assert not forks(trip).exists()


def test_a_message_can_be_edited_beside_the_last_one(fork, made):
    fields = at("/facts/fare", '"1.00"')
    assert (
        fork(**fields, said_path=QUOTED, said="1", message="Hello").status_code == 303
    )
    after, _ = made()
    assert [message["content"] for message in after["messages"]] == ["Hello", "", "1"]
    assert after["facts"]["fare"] == "1.00"
    assert ASKED not in json.dumps(after["messages"])
