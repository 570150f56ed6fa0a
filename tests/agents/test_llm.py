"""The model client against a real server on a real port, with everything that fails."""

from __future__ import annotations

import gc
import json
import socket
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from agents.errors import ModelFailed
from agents.llm import OpenAIModel, Server
from agents.llm.attempts import Attempts
from agents.pure.context import compose
from agents.pure.step import Reply

LONG = 20.0  # seconds that a busy machine may take for what takes a moment, or a second
FIND = {
    "type": "function",
    "function": {"name": "find", "parameters": {"type": "object", "properties": {}}},
}


def ask(server: Server, *, model: OpenAIModel | None = None, **params) -> Reply:
    state = {
        "messages": [{"id": "1", "role": "user", "content": "Find a seat."}],
        "params": {"model": "scripted-1", "system": "Be brief.", **params},
    }
    return (model or OpenAIModel(server)).reply(compose(state, [FIND]))


def failure(server: Server, **params) -> ModelFailed:
    with pytest.raises(ModelFailed) as failed:
        ask(server, **params)
    return failed.value


@pytest.fixture
def server(llm) -> Server:
    return Server(llm.base_url, llm.api_key, attempts=2, seconds=10)


@contextmanager
def odd_server(answer):
    """A server of another make: `answer(body)` gives a status and a body."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            length = int(self.headers["Content-Length"])
            status, body = answer(json.loads(self.rfile.read(length)))
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args): ...

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    thread = threading.Thread(target=httpd.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_address[1]}/v1"
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


def said(text: str) -> dict[str, object]:
    return {"choices": [{"message": {"role": "assistant", "content": text}}]}


PLAIN = said("Here.")


def test_a_reply_with_what_is_known_about_it(server, llm):
    llm.will_call("call-1", "find", to="NYC")
    reply = ask(server, temperature=0, seed=7)
    (call,) = reply.message["tool_calls"]
    assert call["function"] == {"name": "find", "arguments": '{"to":"NYC"}'} or (
        json.loads(call["function"]["arguments"]) == {"to": "NYC"}
    )
    assert reply.finish_reason == "tool_calls"
    assert reply.meta.model_requested == "scripted-1"
    assert reply.meta.model_returned
    assert reply.meta.tokens_in
    assert [attempt["outcome"] for attempt in reply.attempts] == ["ok"]
    (sent,) = llm.requests
    assert (sent["temperature"], sent["seed"]) == (0, 7)
    assert "top_p" not in sent
    assert sent["messages"][0] == {"role": "system", "content": "Be brief."}


@pytest.mark.parametrize("kind", ["drop", "cut", "garbage"])
def test_nothing_of_the_conversation_is_kept_by_a_fault(kind, server, llm):
    llm.fault(kind)
    llm.will_say("Here.")
    ask(server)
    gc.collect()
    assert not [each for each in gc.get_objects() if type(each) is Attempts]


@pytest.mark.parametrize("kind", ["500", "503", "drop", "cut", "garbage", "empty"])
def test_one_fault_is_recorded_and_tried_again(kind, server, llm):
    llm.fault(kind)
    llm.will_say("Here.")
    reply = ask(server)
    assert reply.message["content"] == "Here."
    assert len(reply.attempts) == 2
    assert reply.attempts[0]["outcome"] != "ok"
    assert reply.attempts[0]["wait_ms"] > 0


@pytest.mark.parametrize(
    ("kind", "error_class", "words"),
    [
        ("500", "model_error", "failed (500)"),
        ("drop", "model_unreachable", "ended the connection"),
        ("cut", "model_unreachable", "before its answer was complete"),
        ("garbage", "model_error", "not JSON"),
        ("empty", "model_error", "says nothing and calls nothing"),
    ],
)
def test_a_fault_that_stays_ends_in_plain_words(kind, error_class, words, server, llm):
    llm.fault(kind, times=None)
    failed = failure(server)
    assert failed.error_class == error_class
    assert words in str(failed)
    assert "2 attempts in" in str(failed)
    assert len(failed.attempts) == len(llm.requests) == 2


@pytest.mark.parametrize(
    ("kind", "error_class", "words"),
    [
        ("400", "model_error", "did not take the request (400)"),
        ("401", "model_error", "check OPENAI_API_KEY"),
        ("404", "model_error", "no model 'scripted-1'"),
        ("overflow", "context_overflow", "too long for the model"),
        ("refusal", "model_refused", "I'm sorry, but I can't help with that."),
        ("filter", "model_refused", "content filter"),
    ],
)
def test_what_cannot_get_better_is_not_tried_again(
    kind, error_class, words, server, llm
):
    llm.fault(kind, times=None)
    failed = failure(server)
    assert failed.error_class == error_class
    assert words in str(failed)
    assert len(llm.requests) == 1


def test_it_waits_as_long_as_the_server_asks(server, llm):
    llm.fault("429", retry_after="1")
    llm.will_say("Here.")
    began = time.monotonic()
    reply = ask(server)
    assert time.monotonic() - began >= 1
    assert reply.attempts[0]["outcome"] == "429"
    assert reply.attempts[0]["wait_ms"] == 1000


def test_it_does_not_wait_longer_than_it_may(server, llm):
    llm.fault("429", times=None, retry_after="600")
    began = time.monotonic()
    failed = failure(server)
    assert time.monotonic() - began < 2
    assert len(failed.attempts) == len(llm.requests) == 1
    assert failed.error_class == "model_rate_limited"
    assert "asks to wait 600 s" in str(failed)


@pytest.mark.parametrize("said", ["nan", "inf", "soon"])
def test_a_wait_that_is_none_is_ours_to_choose(said, server, llm):
    llm.fault("429", retry_after=said)
    llm.will_say("Here.")
    assert 0 < ask(server).attempts[0]["wait_ms"] <= 500


def test_a_server_that_hangs_is_left_in_time(llm):
    llm.fault("hang", times=None)
    server = Server(llm.base_url, llm.api_key, attempts=3, seconds=1)
    began = time.monotonic()
    failed = failure(server)
    assert time.monotonic() - began < 3
    assert len(failed.attempts) == 1  # all of them have this time, not each
    assert failed.error_class == "model_unreachable"
    assert "did not answer in time" in str(failed)


def test_a_server_that_drips_is_left_in_time():
    listener = socket.create_server(("127.0.0.1", 0))

    def drip():
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n")
            try:
                for _ in range(1000):
                    connection.sendall(b" ")
                    time.sleep(0.1)
            except OSError:
                pass

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    began = time.monotonic()
    failed = failure(Server(url, "k", attempts=3, seconds=1))
    assert time.monotonic() - began < 3
    assert len(failed.attempts) == 1
    assert failed.error_class == "model_unreachable"
    listener.close()
    thread.join(timeout=LONG)
    assert not thread.is_alive()


def test_a_server_that_is_not_there():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    failed = failure(Server(url, "k", attempts=2, seconds=5))
    assert failed.error_class == "model_unreachable"
    assert "cannot be reached" in str(failed)


def test_no_server_and_no_key():
    failed = failure(Server())
    assert failed.error_class == "model_unreachable"
    assert "OPENAI_BASE_URL" in str(failed)


@pytest.mark.parametrize(
    "error",
    [
        {
            "message": "Unsupported value: 'temperature' does not support 0.",
            "param": "temperature",
            "code": "unsupported_value",
        },
        {"message": "Unrecognized request argument supplied: temperature"},
    ],
)
def test_a_parameter_that_a_model_rejects_is_left_out_visibly(error):
    seen = []

    def answer(body):
        seen.append(sorted(body))
        if "temperature" in body:
            return 400, {"error": error}
        return 200, said("Here.")

    with odd_server(answer) as url:
        server = Server(url, "k", attempts=1, seconds=5)
        model = OpenAIModel(server)
        reply = ask(server, model=model, temperature=0, seed=7)
        again = ask(server, model=model, temperature=0, seed=7)
    assert reply.left_out == again.left_out == ("temperature",)
    assert reply.meta.temperature is None
    assert reply.meta.seed == 7
    assert reply.attempts[0]["left_out"] == "temperature"
    assert len(again.attempts) == 1
    assert len(seen) == 3


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"choices": []},
        {"choices": [{}]},
        {"choices": [{"message": None}]},
        {"choices": [{"message": {"role": "assistant", "content": None}}]},
        {"error": {"message": "with status 200"}},
        b"",
        b"[" * 100_000,
    ],
)
def test_an_answer_that_is_none_is_no_answer(body):
    with odd_server(lambda _: (200, body)) as url:
        failed = failure(Server(url, "k", attempts=1, seconds=5))
    assert failed.error_class == "model_error"


def test_a_spare_answer_is_enough():
    """No id, no usage, no finish reason; content in parts; a call without arguments."""
    message = {
        "content": [
            {"type": "text", "text": "One "},
            {"type": "text", "text": "seat."},
        ],
        "tool_calls": [{"function": {"name": "find"}}, "odd"],
    }
    with odd_server(lambda _: (200, {"choices": [{"message": message}]})) as url:
        reply = ask(Server(url, None, attempts=1, seconds=5))
    assert reply.message["content"] == "One seat."
    (call,) = reply.message["tool_calls"]
    assert call["function"] == {"name": "find", "arguments": ""}
    assert reply.meta.tokens_in is None


@pytest.mark.parametrize("count", [-1, 2**31, 2**70, 1.5, True, "7"])
def test_a_number_of_tokens_that_cannot_be_is_unknown(count):
    body = {
        "choices": [{"message": {"content": "Here."}}],
        "usage": {"prompt_tokens": count, "completion_tokens": 2**31 - 1},
    }
    with odd_server(lambda _: (200, body)) as url:
        meta = ask(Server(url, None, attempts=1, seconds=5)).meta
    assert (meta.tokens_in, meta.tokens_out) == (None, 2**31 - 1)


# Streams


def test_a_reply_is_streamed_with_its_calls_and_what_it_used(server, llm):
    text = "I look for flights, and for a place to sleep. " * 5
    llm.will_call_all(
        ("c1", "find", {"to": "NYC", "when": "tomorrow"}), ("c2", "find", {}), text=text
    )
    reply = ask(server)
    (sent,) = llm.requests
    assert sent["stream"] is True
    assert sent["stream_options"] == {"include_usage": True}
    assert reply.message["content"] == text
    assert [call["id"] for call in reply.message["tool_calls"]] == ["c1", "c2"]
    assert [
        json.loads(call["function"]["arguments"])
        for call in reply.message["tool_calls"]
    ] == [{"to": "NYC", "when": "tomorrow"}, {}]
    assert reply.meta.tokens_in
    assert reply.meta.tokens_out
    assert reply.meta.model_returned == "scripted-1"
    assert reply.meta.fingerprint.startswith("fp_")
    assert reply.left_out == ()


@pytest.mark.parametrize(
    ("kind", "outcome"), [("stream_error", "error"), ("cut", "cut"), ("stall", "cut")]
)
def test_a_stream_that_breaks_off_is_tried_again(kind, outcome, server, llm):
    llm.fault(kind, seconds=0.1)
    llm.will_say("Here is a seat, and here is another.")
    reply = ask(server)
    assert reply.message["content"] == "Here is a seat, and here is another."
    assert [each["outcome"] for each in reply.attempts] == [outcome, "ok"]


def test_an_error_in_a_stream_is_told_in_the_servers_words(server, llm):
    llm.fault("stream_error", times=None)
    failed = failure(server)
    assert failed.error_class == "model_error"
    assert "broke its answer off with an error: The engine is overloaded." in str(
        failed
    )


@pytest.mark.parametrize(
    ("error", "error_class", "times"),
    [
        (
            {"message": "Slow down.", "code": "rate_limit_exceeded"},
            "model_rate_limited",
            2,
        ),
        (
            {"message": "Pay first.", "code": "insufficient_quota"},
            "model_rate_limited",
            1,
        ),
        ({"message": "No.", "code": "context_length_exceeded"}, "context_overflow", 1),
        ("just words", "model_error", 2),
        ({"type": "server_error"}, "model_error", 2),
    ],
)
def test_an_error_in_place_of_an_answer_is_of_its_class(error, error_class, times):
    seen = []

    def answer(body):
        seen.append(body)
        return 200, {"error": error}

    with odd_server(answer) as url:
        failed = failure(Server(url, "k", attempts=2, seconds=5))
    assert failed.error_class == error_class
    assert len(seen) == times


@pytest.mark.parametrize("kind", ["no_done", "no_usage", "plain"])
def test_a_stream_may_leave_things_out(kind, server, llm):
    llm.fault(kind)
    llm.will_call("call-1", "find", to="NYC")
    reply = ask(server)
    (call,) = reply.message["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"to": "NYC"}
    assert reply.finish_reason == "tool_calls"
    assert (reply.meta.tokens_in is None) == (kind == "no_usage")
    assert len(reply.attempts) == 1


@pytest.mark.parametrize(
    ("kind", "left_out"),
    [("no_stream", "stream"), ("no_stream_options", "stream_options")],
)
def test_a_server_without_streams_is_asked_without_visibly(kind, left_out, server, llm):
    llm.fault(kind, times=None)
    llm.will_say("Here.")
    model = OpenAIModel(server)
    reply, again = ask(server, model=model), ask(server, model=model)
    assert reply.message["content"] == again.message["content"] == "Here."
    assert reply.left_out == again.left_out == (left_out,)
    assert [each.get("left_out") for each in reply.attempts] == [left_out, None]
    assert len(again.attempts) == 1
    for sent in llm.requests[1:]:
        assert left_out not in sent
        assert ("stream" in sent) == (left_out == "stream_options")
        assert "stream_options" not in sent


def stream(*chunks: Any) -> bytes:
    return b"".join(
        b"data: %s\n\n"
        % (each if isinstance(each, bytes) else json.dumps(each).encode())
        for each in chunks
    )


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"delta": fields}]}


def test_streams_of_other_makes_are_understood():
    """Comments, other line ends, calls without an index or all at one, halves of a
    character, usage beside a choice."""

    def piece(id="", name=None, arguments="", **more):
        call = {"id": id, "function": {"name": name, "arguments": arguments}}
        return delta(tool_calls=[call | more])

    body = b": hello\r\n\r\nevent: message\r\nid: 7\r\n" + stream(
        delta(role="assistant", content="A \ud83d"),
        delta(content="\ude00."),
        piece("a", "find", '{"to":'),
        piece(arguments='"NYC"}'),
        piece("b", "find", "{}"),
        piece("c", "find", '{"n":', index=0),
        piece("d", "find", "{}", index=0),
        piece("e", "fi", '{"n":', index=1),
        piece("e", "nd", "1}", index=1),
        {"choices": [{"index": 1, "delta": {"content": "another choice"}}]},
        {"choices": "odd", "usage": None},
        {"choices": [{"delta": {"tool_calls": ["odd", {"id": "x"}]}}]},
        {"choices": [{"finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 9}},
    ).replace(b"\n", b"\r\n")
    with odd_server(lambda _: (200, body)) as url:
        reply = ask(Server(url, None, attempts=1, seconds=5))
    assert reply.message["content"] == "A \N{GRINNING FACE}."
    assert [
        (call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in reply.message["tool_calls"]
    ] == [
        ("a", "find", '{"to":"NYC"}'),
        ("b", "find", "{}"),
        ("c", "find", '{"n":'),
        ("d", "find", "{}"),
        ("e", "find", '{"n":1}'),
    ]
    assert (reply.meta.tokens_in, reply.finish_reason) == (9, "tool_calls")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (stream(delta(content="Half")), "before its answer was complete"),
        (stream(delta(content="Half"), b"[1]"), "no JSON object"),
        (stream(delta(content="Half"), b"nonsense"), "not JSON"),
        (stream(b"[DONE]"), "says nothing and calls nothing"),
        (stream(delta(refusal="Not that.")) + b"data: [DONE]", "Not that."),
    ],
)
def test_a_stream_that_is_no_answer_is_none(body, words):
    with odd_server(lambda _: (200, body)) as url:
        failed = failure(Server(url, None, attempts=1, seconds=5))
    assert words in str(failed)


@pytest.mark.parametrize(
    "said",
    [
        {"detail": [{"loc": ["body", "stream_options"], "msg": "not permitted"}]},
        {"error": {"message": "Unsupported.", "param": "stream_options"}},
    ],
)
def test_what_a_server_rejects_is_known_however_it_says_so(said):
    def answer(body):
        return (422, said) if "stream_options" in body else (200, PLAIN)

    with odd_server(answer) as url:
        reply = ask(Server(url, None, attempts=1, seconds=5))
    assert reply.left_out == ("stream_options",)


def test_an_answer_that_grows_too_large_is_dropped(server, llm):
    llm.fault("huge", times=None)
    failed = failure(server)
    assert failed.error_class == "model_error"
    assert "sent more than 16 MB" in str(failed)
    assert len(llm.requests) == 1


def test_a_stream_that_trickles_is_left_in_time(llm):
    llm.fault("trickle", times=None, seconds=0.1)
    llm.always("Word by word " * 100)
    began = time.monotonic()
    failed = failure(Server(llm.base_url, llm.api_key, attempts=3, seconds=1))
    assert time.monotonic() - began < 2
    assert len(failed.attempts) == 1
    assert failed.error_class == "model_unreachable"
    assert "answered too slowly" in str(failed)


@contextmanager
def asking(server: Server):
    """A call that goes on in another thread: the model, and what comes of it."""
    model = OpenAIModel(server)
    got: list[Any] = []

    def call():
        try:
            got.append(ask(server, model=model))
        except ModelFailed as failed:
            got.append(failed)

    thread = threading.Thread(target=call)
    thread.start()
    try:
        yield model, got
    finally:
        thread.join(timeout=LONG)
        assert not thread.is_alive()


def until(true):
    deadline = time.monotonic() + LONG
    while not (found := true()):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return found


def test_a_call_can_be_followed_while_it_answers(server, llm):
    llm.fault("500")
    llm.fault("trickle", seconds=0.02)
    llm.will_say("A seat by the window. " * 20)
    with asking(server) as (model, got):
        waits = until(lambda: (sign := model.sign()) and sign.outcome and sign)
        assert (waits.attempt, waits.attempts, waits.outcome) == (2, 2, "500")
        assert waits.wait > 0
        some = until(lambda: (sign := model.sign()) and sign.characters and sign)
        assert (some.attempt, some.outcome) == (2, "")
        until(lambda: (sign := model.sign()) and sign.characters > some.characters)
    assert got[0].message["content"] == "A seat by the window. " * 20
    assert model.sign() is None


@pytest.mark.parametrize("kind", ["hang", "stall", "429"])
def test_a_call_that_is_given_up_ends_at_once(kind, llm):
    """Not when it would have ended: that is after a minute."""
    llm.fault(kind, times=None, seconds=60, retry_after="60")
    server = Server(llm.base_url, llm.api_key, attempts=3, seconds=120)
    with asking(server) as (model, got):
        until(lambda: llm.requests)
        if kind == "429":
            until(lambda: (sign := model.sign()) and sign.outcome == kind)
        began = time.monotonic()
        model.give_up()
        until(lambda: got)
        assert time.monotonic() - began < 0.5
    assert isinstance(got[0], ModelFailed)
    assert len(got[0].attempts) == 1


def test_a_server_that_says_a_little_and_then_nothing_is_left_in_time(llm):
    """Its timeout is for each read, and begins anew with what it says."""
    llm.always("Half of this comes, and the rest never does.")
    llm.fault("stall", times=None, seconds=30)
    server = Server(llm.base_url, llm.api_key, attempts=1, seconds=1.5)
    began = time.monotonic()
    with asking(server) as (model, got):
        while not got:
            model.end_late()
            time.sleep(0.02)
    assert time.monotonic() - began < 3
    assert got[0].error_class == "model_unreachable"


def test_a_complete_answer_whose_connection_stays_open_is_an_answer(server, llm):
    llm.fault("linger", seconds=30)
    llm.will_say("Here.")
    began = time.monotonic()
    with asking(server) as (model, got):
        while not got:
            model.end_late()
            time.sleep(0.02)
    assert time.monotonic() - began < 3
    assert got[0].message["content"] == "Here."
    assert len(got[0].attempts) == 1


def test_the_line_is_used_again_after_it_was_hung_up(server, llm):
    llm.fault("hang", seconds=30)
    with asking(server) as (model, got):
        until(lambda: llm.requests)
        model.give_up()
        until(lambda: got)
    llm.will_say("Here.")
    reply = ask(server)
    assert reply.message["content"] == "Here."
    assert len(reply.attempts) == 1
