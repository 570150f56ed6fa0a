"""The scripted model keeps OpenAI's rules, as the real client sees them."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx2
import openai
import pytest

from agents.demo.model import wire
from tests.llm import ScriptedModel

AIRLINE = Path(__file__).parents[3] / "shared" / "data" / "airline"
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "reason": {"type": "string"}},
        },
    },
}
HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def client(llm):
    made = openai.OpenAI(base_url=llm.base_url, api_key=llm.api_key, max_retries=0)
    with made:
        yield made


def ask(client, messages=None, **more):
    return client.chat.completions.create(
        model=more.pop("model", "scripted-1"), messages=messages or HELLO, **more
    )


def called(*ids):
    return wire.use([wire.call("add", {"a": 1}, id) for id in ids])


def result(id, text="2"):
    return {"role": "tool", "tool_call_id": id, "content": text}


def http(url, method="GET", body=None, **headers):
    response = httpx2.request(method, url, json=body, headers=headers, timeout=30)
    return response.status_code, response.json()


# Answers


def test_it_lists_its_models(client):
    assert next(iter(client.models.list())).id == "scripted-1"
    assert client.models.retrieve("scripted-1-pro").owned_by == "holdpoint"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-99")


def test_an_answer_has_usage_a_fingerprint_and_a_finish_reason(client):
    answer = ask(client)
    assert answer.choices[0].finish_reason == "stop"
    assert "Hello" in answer.choices[0].message.content
    assert answer.system_fingerprint.startswith("fp_")
    usage = answer.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens > 2


def test_the_same_request_gets_the_same_answer(client):
    first, second = ask(client), ask(client)
    assert first.choices == second.choices
    assert first.id == second.id


def test_white_space_in_a_message_changes_nothing(client):
    plain = ask(client, [{"role": "user", "content": "Call add(a=1) for me"}])
    spaced = ask(client, [{"role": "user", "content": " Call  add(a=1)\nfor me "}])
    assert plain.choices == spaced.choices


def test_a_message_that_names_a_tool_gets_the_call_with_its_reason(client):
    messages = [{"role": "user", "content": "Please use add(a=41)."}]
    choice = ask(client, messages, tools=[ADD]).choices[0]
    arguments = json.loads(choice.message.tool_calls[0].function.arguments)
    assert choice.finish_reason == "tool_calls"
    assert arguments == {
        "a": 41,
        "reason": "The message asks for it: Please use add(a=41).",
    }


def test_results_are_reported(client):
    answer = ask(client, [*HELLO, called("x"), result("x", "42")], tools=[ADD])
    assert answer.choices[0].message.content == "Done. The result: 42"


def test_queued_replies_come_in_order_and_stay_with_their_request(client, llm):
    llm.will_call_all(("call-1", "add", {"a": 1}), ("call-1", "add", {"a": 2}))
    llm.will_say("Both done.")
    first = ask(client, tools=[ADD]).choices[0].message
    assert [made.id for made in first.tool_calls] == ["call-1", "call-1"]
    repeated = ask(client, tools=[ADD]).choices[0].message
    assert repeated == first
    after = ask(client, [*HELLO, called("call-1"), result("call-1")], tools=[ADD])
    assert after.choices[0].message.content == "Both done."
    assert llm.pending == 0


def test_rules_answer_by_text_and_turn(client, llm):
    llm.always("Good morning.", match="Hello", turn=0)
    assert ask(client).choices[0].message.content == "Good morning."
    other = ask(client, [*HELLO, wire.say("Good morning."), *HELLO])
    assert other.choices[0].message.content != "Good morning."


def test_a_stream_adds_up_to_the_answer(client, llm):
    reply = wire.use([wire.call("add", {"a": 12345}, "c1")], "Adding these up for you.")
    llm.will_answer(reply)
    text, arguments, usage, reason = "", "", None, None
    stream = ask(
        client, tools=[ADD], stream=True, stream_options={"include_usage": True}
    )
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            reason = choice.finish_reason or reason
            for made in choice.delta.tool_calls or []:
                arguments += made.function.arguments or ""
    assert text == "Adding these up for you."
    assert json.loads(arguments) == {"a": 12345}
    assert reason == "tool_calls"
    assert usage is not None
    assert usage.total_tokens > 0


def test_the_token_limit_cuts_the_answer(client, llm):
    llm.will_say("A long answer that goes on for a while.")
    choice = ask(client, max_completion_tokens=2).choices[0]
    assert (choice.message.content, choice.finish_reason) == ("A long a", "length")


def test_the_log_holds_what_was_sent(client, llm):
    ask(client, temperature=0.5)
    assert llm.requests[0]["messages"] == HELLO
    assert llm.requests[0]["temperature"] == 0.5


# Refusals


@pytest.mark.parametrize(
    ("messages", "code", "words"),
    [
        ([{"role": "robot", "content": "x"}], "invalid_value", "robot"),
        ([{"role": "user", "content": None}], None, "got null"),
        ([{"role": "user", "content": "x", "id": "1"}], "unknown_parameter", "id"),
        ([result("nobody")], None, "preceding message"),
        ([*HELLO, called("x")], None, "x"),
        ([*HELLO, called("x", "y"), result("x")], None, "y"),
        ([*HELLO, called("x"), *HELLO, result("x")], None, "x"),
        ([*HELLO, called("x" * 41), result("x" * 41)], "string_above_max_length", "40"),
        (
            [*HELLO, {"role": "assistant", "tool_calls": []}],
            "empty_array",
            "tool_calls",
        ),
        ([*HELLO, {"role": "assistant", "content": None}], None, "got null"),
    ],
)
def test_a_malformed_conversation_is_refused(client, messages, code, words):
    with pytest.raises(openai.BadRequestError, match=words) as caught:
        ask(client, messages)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"temperature": 3}, "decimal_out_of_range"),
        ({"top_p": -1}, "decimal_out_of_range"),
        ({"temperature": "warm"}, "invalid_type"),
        ({"seed": 1.5}, "invalid_type"),
        ({"tools": []}, "empty_array"),
        (
            {"tools": [{"type": "function", "function": {"name": "a b"}}]},
            "invalid_value",
        ),
        ({"extra_body": {"colour": 1}}, "unknown_parameter"),
        ({"parallel_tool_calls": True}, None),
    ],
)
def test_a_malformed_parameter_is_refused(client, more, code):
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, **more)
    assert caught.value.code == code


def test_a_missing_model_is_refused(client):
    with pytest.raises(openai.BadRequestError, match="model parameter"):
        ask(client, model="")


def test_a_missing_or_wrong_key_is_refused(llm):
    url = f"{llm.base_url}/chat/completions"
    assert http(url, "POST", {"model": "m", "messages": HELLO})[0] == 401
    with (
        openai.OpenAI(base_url=llm.base_url, api_key="invalid") as client,
        pytest.raises(openai.AuthenticationError),
    ):
        ask(client)


def test_too_long_a_context_is_refused(client):
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, [{"role": "user", "content": "word " * 110_000}])
    assert caught.value.code == "context_length_exceeded"


# Faults


def test_a_rate_limit_says_when_to_come_back(client, llm):
    llm.fault("429", times=2, retry_after="3")
    for _ in range(2):
        with pytest.raises(openai.RateLimitError) as caught:
            ask(client)
        assert caught.value.response.headers["retry-after"] == "3"
    assert ask(client).choices


def test_a_fault_can_wait_for_its_message(client, llm):
    llm.fault("500", match="Lisbon")
    assert ask(client).choices
    with pytest.raises(openai.InternalServerError):
        ask(client, [{"role": "user", "content": "To Lisbon"}])


def test_a_fault_uses_up_no_reply(client, llm):
    llm.will_say("Here.")
    llm.fault("503")
    with pytest.raises(openai.InternalServerError):
        ask(client)
    assert ask(client).choices[0].message.content == "Here."


def test_dropped_and_cut_answers_are_connection_errors(client, llm):
    llm.fault("drop")
    llm.fault("cut")
    for _ in range(2):
        with pytest.raises(openai.APIConnectionError):
            ask(client)


def test_a_cut_stream_breaks_off(client, llm):
    llm.will_say("A long answer that goes on for a while.")
    llm.fault("cut")
    stream = ask(client, stream=True)
    assert next(stream).choices
    with pytest.raises((openai.APIConnectionError, httpx2.RemoteProtocolError)):
        list(stream)


def test_a_hanging_answer_times_out(client, llm):
    llm.fault("hang")
    with pytest.raises(openai.APITimeoutError):
        ask(client, timeout=0.2)


def test_a_slow_answer_comes(client, llm):
    llm.fault("slow", seconds=0.1)
    began = time.monotonic()
    assert ask(client).choices
    assert time.monotonic() - began >= 0.1


def test_garbage_is_not_json(client, llm):
    llm.fault("garbage")
    with pytest.raises(json.JSONDecodeError):
        ask(client)


def test_a_model_may_refuse(client, llm):
    llm.fault("refusal")
    message = ask(client).choices[0].message
    assert message.content is None
    assert message.refusal


@pytest.mark.parametrize("kind", ["malformed", "bad_arguments", "unknown_tool"])
def test_a_call_may_be_wrong(client, llm, kind):
    llm.fault(kind)
    function = ask(client, tools=[ADD]).choices[0].message.tool_calls[0].function
    if kind == "unknown_tool":
        assert function.name == "teleport"
    elif kind == "malformed":
        with pytest.raises(json.JSONDecodeError):
            json.loads(function.arguments)
    else:
        assert json.loads(function.arguments) == {"colour": 7}


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("empty", "stop"), ("length", "length"), ("filter", "content_filter")],
)
def test_an_answer_may_end_oddly(client, llm, kind, reason):
    llm.fault(kind)
    assert ask(client).choices[0].finish_reason == reason


def test_a_model_name_can_be_a_fault(client):
    with pytest.raises(openai.InternalServerError):
        ask(client, model="scripted-500")
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, model="scripted-overflow")
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError):
        ask(client, model="scripted-404")


# The external ledger


def test_a_booking_happens_once_and_every_attempt_is_recorded(llm):
    url = f"{llm.ledger_url}/ledger/bookings"
    booking = {"flight": "TP 209", "price": "1200.00"}
    first = http(url, "POST", booking, **{"Idempotency-Key": "k1"})
    again = http(url, "POST", booking, **{"Idempotency-Key": "k1"})
    assert (first[0], again[0]) == (201, 200)
    assert first[1]["confirmation"] == again[1]["confirmation"]
    assert [effect["applied"] for effect in llm.ledger("bookings")] == [True, False]
    assert http(f"{url}/k1")[1]["effect"]["body"] == booking


def test_a_key_reused_for_something_else_is_refused(llm):
    url = f"{llm.ledger_url}/ledger/bookings"
    http(url, "POST", {"price": "1"}, **{"Idempotency-Key": "k1"})
    assert http(url, "POST", {"price": "2"}, **{"Idempotency-Key": "k1"})[0] == 409
    assert http(url, "POST", {"price": "2"})[0] == 400
    assert len([effect for effect in llm.ledger() if effect["applied"]]) == 1


def test_an_effect_may_happen_without_its_answer_arriving(llm):
    url = f"{llm.ledger_url}/ledger/bookings"
    llm.ledger_fault("drop")
    llm.ledger_fault("drop_after")
    for _ in range(2):
        with pytest.raises(httpx2.RemoteProtocolError):
            http(url, "POST", {"price": "1"}, **{"Idempotency-Key": "k1"})
    assert len(llm.ledger()) == 1


def test_a_ledger_file_survives_the_process(tmp_path):
    path = tmp_path / "ledger.jsonl"
    with ScriptedModel(ledger=path) as one:
        url = f"{one.ledger_url}/ledger/bookings"
        http(url, "POST", {"price": "1"}, **{"Idempotency-Key": "k1"})
    with ScriptedModel(ledger=path) as two:
        assert [effect["key"] for effect in two.ledger()] == ["k1"]


# The program


@pytest.fixture
def program(tmp_path):
    started = []

    def start(*arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", "agents.demo.model", "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        started.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline().split()[1]

    yield start
    for process in started:
        process.terminate()
        assert process.wait(30) == 0
        if process.stdout:
            process.stdout.close()


def test_the_program_says_where_it_listens_and_keeps_its_log_to_itself(program):
    _, base_url = program()
    with openai.OpenAI(base_url=base_url, api_key="x", max_retries=0) as client:
        assert ask(client).choices
    origin = base_url.removesuffix("/v1")
    assert http(f"{origin}/health")[0] == 200
    assert http(f"{origin}/_requests")[0] == 404


def test_the_program_takes_orders_when_told_to(program, tmp_path):
    log = tmp_path / "requests.jsonl"
    _, base_url = program("--control", "--log", str(log))
    origin = base_url.removesuffix("/v1")
    orders = {"replies": ["One."], "faults": [{"kind": "429", "times": 1}]}
    assert http(f"{origin}/_control", "POST", orders)[1] == {"pending": 1}
    with openai.OpenAI(base_url=base_url, api_key="x", max_retries=0) as client:
        with pytest.raises(openai.RateLimitError):
            ask(client)
        assert ask(client).choices[0].message.content == "One."
    seen = http(f"{origin}/_requests")[1]["requests"]
    assert [entry["fault"] for entry in seen] == ["429", None]
    assert http(f"{origin}/_requests", "DELETE")[0] == 200
    assert len(log.read_text().splitlines()) == 2


def test_many_at_once_are_answered(client, llm):
    llm.always("Yes.")
    texts = []

    def one():
        texts.append(ask(client).choices[0].message.content)

    threads = [threading.Thread(target=one) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == ["Yes."] * 20


# Recorded mode


def test_a_recording_is_played_position_by_position(client, llm, tmp_path):
    conversation = [
        {"role": "system", "content": "Be kind."},
        *HELLO,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": called("dup")["tool_calls"],
        },
        {"role": "tool", "tool_call_id": "dup", "name": "add", "content": "2"},
        wire.say("It is two."),
        {"role": "user", "content": "Thanks"},
        wire.say("You are welcome."),
    ]
    (tmp_path / "one.json").write_text(json.dumps({"messages": conversation}))
    llm.play(tmp_path)
    for at in (2, 4, 6):
        reply = ask(client, conversation[:at], tools=[ADD]).choices[0].message
        assert reply.content == conversation[at]["content"]
    other_result = [*conversation[:3], result("dup", "3")]
    assert ask(client, other_result).choices[0].message.content == "It is two."
    with pytest.raises(openai.NotFoundError, match="No recorded conversation"):
        ask(client, [{"role": "user", "content": "Something else"}])


@pytest.mark.skipif(not AIRLINE.is_dir(), reason="the airline recordings are not here")
def test_real_conversations_replay_to_the_letter(client, llm):
    llm.play(AIRLINE)
    for path in sorted(AIRLINE.glob("*.json")):
        messages = json.loads(path.read_text())["messages"]
        for at, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            reply = ask(client, messages[:at]).choices[0].message
            assert reply.content == message["content"]
            made = [call.model_dump() for call in reply.tool_calls or []]
            assert made == (message.get("tool_calls") or [])
