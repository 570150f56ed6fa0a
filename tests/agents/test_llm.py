"""The model client against a real server on a real port, with everything that fails."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from agents.errors import ModelFailed
from agents.llm import OpenAIModel, Server
from agents.pure.context import compose
from agents.pure.engine import Reply

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
    return Server(llm.base_url, llm.api_key, attempts=2, seconds=5)


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
    assert failed.error_class == "model_rate_limited"
    assert "asks to wait 600 s" in str(failed)


def test_a_server_that_hangs_is_left_in_time(llm):
    llm.fault("hang", times=None)
    server = Server(llm.base_url, llm.api_key, attempts=3, seconds=1)
    began = time.monotonic()
    failed = failure(server)
    assert time.monotonic() - began < 3
    assert failed.error_class == "model_unreachable"
    assert "did not answer in time" in str(failed)


def test_a_server_that_drips_is_left_in_time():
    listener = socket.create_server(("127.0.0.1", 0))

    def drip():
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            try:
                for _ in range(100):
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
    assert failed.error_class == "model_unreachable"
    listener.close()
    thread.join(timeout=5)


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
