"""The JSON API: what a program may do with its token, and what nobody may without."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents.approvals import decide
from agents.models import Decision, Run
from checkpoints import tokens
from checkpoints.access import Scope
from checkpoints.models import (
    ApiToken,
    AuditEvent,
    Branch,
    Thread,
    ThreadInput,
    Workspace,
)
from tests.conftest import as_owner
from tests.workers.conftest import pending, wait_until
from tests.workers.web import web

pytestmark = pytest.mark.django_db(transaction=True)

PROBLEM = "application/problem+json"
START = {"agent": "test-desk", "message": "Book it."}


def token_of(workspace: Any, *scopes: str) -> str:
    """Of nobody, so it decides nothing: test_programs_decide.py."""
    every = [scope for scope in Scope.values if scope != Scope.DECIDE]
    with as_owner():
        _, text = tokens.make(
            workspace.pk, name="nightly", scopes=scopes or every, by=None
        )
    return text


class Program:
    """A client that speaks JSON, keeps no cookie and has a token."""

    def __init__(self, token: str = "", **headers: str) -> None:
        self.headers = dict(headers)
        if token:
            self.headers["Authorization"] = f"Bearer {token}"
        self.client = Client(enforce_csrf_checks=True)

    def ask(self, verb: str, path: str, body: Any = None, **more: Any) -> Any:
        sent = body if isinstance(body, bytes | str) else json.dumps(body)
        answer = self.client.generic(
            verb,
            f"/api/v1/{path}",
            b"" if body is None else sent,
            content_type=more.pop("content_type", "application/json"),
            headers=self.headers | more,
        )
        assert not answer.cookies
        return answer

    def get(self, path: str, **query: Any) -> Any:
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        return self.ask("GET", f"{path}?{asked}" if asked else path)

    def post(self, path: str, body: Any = None, **more: Any) -> Any:
        return self.ask("POST", path, {} if body is None else body, **more)


@pytest.fixture
def program(workspace, server) -> Program:
    return Program(token_of(workspace))


def refused(answer: Any, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"] == PROBLEM
    said: dict[str, Any] = answer.json()
    assert (said["status"], said["code"]) == (status, code)
    return said


def started(program: Program, **more: Any) -> dict[str, Any]:
    answer = program.post("runs", {**START, **more})
    assert answer.status_code == 201, answer.content
    run: dict[str, Any] = answer.json()
    return run


# The verbs


def test_a_run_from_its_start_to_its_answer(program, server, work, bob):
    server.will_call("c1", "book", item="TP 209", price="1200")
    server.will_say("Booked, as TP 209.")
    run = started(program, title="Trip", params={"temperature": 0.5})
    assert run["status"] == "ready"
    work()
    waiting = program.get(f"runs/{run['id']}").json()
    assert waiting["status"] == "waiting"
    (asked,) = waiting["waits_for"]
    assert (asked["tool"], asked["path"]) == ("book", f"/inbox/{asked['id']}/")
    (approval,) = pending(Run.objects.get(pk=run["id"]))
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    work()
    done = program.get(f"runs/{run['id']}").json()
    assert (done["status"], done["answer"]) == ("succeeded", "Booked, as TP 209.")
    assert done["waits_for"] == []
    assert [each["id"] for each in program.get("runs").json()] == [run["id"]]
    assert program.get("runs", status="failed").json() == []
    thread = program.get(f"threads/{run['thread']}").json()
    assert (thread["title"], thread["branches"][0]["name"]) == ("Trip", "main")
    steps = program.get(f"threads/{run['thread']}/history").json()
    assert [step["kind"] for step in steps["steps"]] == [
        *("input", "model", "interrupt", "decision", "tool", "model"),
    ]
    assert steps["next_after"] is None
    some = program.get(f"threads/{run['thread']}/history", after=1, limit=2).json()
    assert [step["step"] for step in some["steps"]] == [2, 3]
    assert some["next_after"] == 3
    state = program.get(f"threads/{run['thread']}/states/0").json()
    assert state["state"]["messages"][0]["content"] == "Book it."
    assert state["state"]["params"]["temperature"] == 0.5


def test_what_every_answer_carries(program):
    answer = program.get("agents")
    assert answer["Cache-Control"] == "no-store"
    assert "test-desk" in [agent["name"] for agent in answer.json()]


def test_an_external_id_starts_one_run(program, workspace):
    first = program.post("runs", {**START, "external_id": "order-7"})
    again = program.post("runs", {**START, "external_id": "order-7"})
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert Run.objects.count() == Thread.objects.count() == 1
    other = {"agent": "test-reject", "message": "x", "external_id": "order-7"}
    said = refused(program.post("runs", other), 409, "already_started")
    assert "by a run of the agent test-desk" in said["detail"]
    found = program.get("runs", external_id="order-7").json()
    assert [run["external_id"] for run in found] == ["order-7"]


def test_messages_are_kept_once_and_in_order(program, server, work):
    server.will_say("Hello.")
    run = started(program)
    work()
    server.will_say("Both.")
    path = f"threads/{run['thread']}/messages"
    key = str(uuid4())
    one = program.post(path, {"message": "One.", "request_key": key})
    same = program.post(path, {"message": "One.", "request_key": key})
    two = program.post(path, {"message": "Two."})
    assert [a.status_code for a in (one, same, two)] == [202] * 3
    assert one.json() == same.json()
    assert one.json()["position"] < two.json()["position"]
    work()
    said = [message["content"] for message in server.requests[-1]["messages"][-2:]]
    assert said == ["One.", "Two."]
    steps = program.get(f"threads/{run['thread']}/history").json()["steps"]
    assert "nightly: One." in [step["label"] for step in steps]


def test_a_busy_agent_is_a_conflict_that_says_what_to_do(program):
    run = started(program, agent="test-reject")
    answer = program.post(f"threads/{run['thread']}/messages", {"message": "Now!"})
    said = refused(answer, 409, "branch_busy")
    assert "cancel it, or fork" in said["detail"]


def test_a_fork_is_a_branch_with_a_run_and_leaves_its_source(program, server, work):
    server.will_say("Hello.")
    run = started(program)
    work()
    before = program.get(f"threads/{run['thread']}/states/1").json()
    server.will_say("Bonjour.")
    answer = program.post(
        f"threads/{run['thread']}/forks",
        {"step": 0, "name": "french", "system": "Answer in French."},
    )
    assert answer.status_code == 201, answer.content
    made = answer.json()
    work()
    forked = program.get(f"runs/{made['run']}").json()
    assert (forked["answer"], forked["branch"]) == ("Bonjour.", made["branch"])
    assert before == (
        program.get(f"threads/{run['thread']}/states/1", branch=run["branch"]).json()
    )
    # From a step that the fork shares with its source.
    again = program.post(
        f"threads/{run['thread']}/forks",
        {"step": 0, "branch": made["branch"], "run": False, "name": "bare"},
    )
    assert (again.status_code, again.json()["run"]) == (201, None)
    said = refused(
        program.post(f"threads/{run['thread']}/forks", {"step": 99}),
        404,
        "step_not_found",
    )
    assert "the branch has 0 to" in said["detail"]
    wrong = {"step": 0, "temperature": 99}
    said = refused(
        program.post(f"threads/{run['thread']}/forks", wrong), 422, "invalid_edit"
    )
    assert list(said["fields"]) == ["temperature"]


def test_a_run_is_cancelled_and_tried_again(program, server, work):
    run = started(program)
    for cancelled in (True, False):
        answer = program.post(f"runs/{run['id']}/cancel").json()
        assert (answer["cancelled"], answer["run"]["status"]) == (
            cancelled,
            "cancelled",
        )
    server.will_say("Hello.")
    again = program.post(f"runs/{run['id']}/retry")
    assert (again.status_code, again.json()["retry_of"]) == (201, run["id"])
    work()
    refused(program.post(f"runs/{again.json()['id']}/retry"), 409, "not_retryable")


def test_what_a_run_goes_on_from_can_be_chosen(program, server, work):
    run = started(program)
    program.post(f"runs/{run['id']}/cancel")
    refused(program.post(f"runs/{run['id']}/retry", {"resume": "x"}), 422, "invalid")
    again = program.post(f"runs/{run['id']}/retry", {"resume": "factual"})
    assert again.status_code == 201
    assert Run.objects.get(pk=again.json()["id"]).resume == "factual"
    said = {"message": "And?", "resume": "as_is"}
    messages = f"threads/{run['thread']}/messages"
    refused(program.post(messages, said), 409, "branch_busy")
    program.post(f"runs/{again.json()['id']}/cancel")
    assert program.post(messages, said).status_code == 202
    assert Run.objects.get(status="ready").resume == "as_is"
    fork = {"step": 0, "resume": "factual"}
    forks = f"threads/{run['thread']}/forks"
    made = program.post(forks, fork).json()["run"]
    assert Run.objects.get(pk=made).resume == "factual"
    refused(program.post(forks, fork | {"run": False}), 422, "invalid_edit")


def test_a_failed_run_says_why(program, server, work):
    server.will_call("c1", "give_up")
    run = started(program)
    work()
    failed = program.get(f"runs/{run['id']}").json()
    assert failed["status"] == "failed"
    assert "the airline is closed" in failed["error"]


def test_what_a_program_did_is_in_the_audit_log(program, workspace):
    run = started(program)
    program.get(f"threads/{run['thread']}/states/0")
    token = str(ApiToken.objects.get().pk)
    for action in ("start", "open"):
        event = AuditEvent.objects.get(action=action)
        assert (event.via, event.detail["token"]) == ("api", token)
        assert event.address == "127.0.0.1"


# Who may not


EVERYTHING = [
    ("GET", "agents", "read"),
    ("GET", "runs", "read"),
    ("POST", "runs", "start"),
    ("GET", "runs/{run}", "read"),
    ("POST", "runs/{run}/cancel", "cancel"),
    ("POST", "runs/{run}/retry", "start"),
    ("GET", "threads/{thread}", "read"),
    ("POST", "threads/{thread}/messages", "message"),
    ("GET", "threads/{thread}/history", "read"),
    ("GET", "threads/{thread}/states/0", "read"),
    ("POST", "threads/{thread}/forks", "fork"),
]
DECIDING = {
    ("GET", "approvals"),
    ("GET", "approvals/{approval_id}"),
    ("POST", "approvals/{approval_id}/decision"),
    ("POST", "approvals/{approval_id}/undo"),
}
BODIES = {"runs": START, "messages": {"message": "Hi"}, "forks": {"step": 0}}


def call(program: Program, verb: str, path: str, thread: Any, run: Any) -> Any:
    body = BODIES.get(path.rpartition("/")[2], {}) if verb == "POST" else None
    return program.ask(verb, path.format(thread=thread, run=run), body)


def counts() -> list[int]:
    return [m.objects.count() for m in (Run, Thread, ThreadInput, Decision)]


def test_the_table_has_every_operation(client):
    described = client.get("/api/v1/openapi.json").json()
    found = {
        (verb.upper(), path.removeprefix("/api/v1/"))
        for path, verbs in described["paths"].items()
        for verb in verbs
    }
    ours = {
        (
            verb,
            path.replace("{run}", "{run_id}")
            .replace("{thread}", "{thread_id}")
            .replace("states/0", "states/{step}"),
        )
        for verb, path, _ in EVERYTHING
    }
    assert found - ours == DECIDING
    assert ours <= found
    for verbs in described["paths"].values():
        for operation in verbs.values():
            assert operation["security"] == [{"Token": []}]


def test_without_a_token_nothing_is_there(begin, workspace, alice, server):
    run = begin()
    with as_owner():
        signed_in = Client()
        signed_in.force_login(User.objects.get(pk=alice.user_id))
    before = counts()
    live = token_of(workspace)
    for verb, path, _ in EVERYTHING:
        for who in (
            Program(),
            Program("hp_" + "A" * 64),
            Program(live[:-1]),
            Program(live + "x"),
            Program(Authorization=f"Basic {live}"),
            Program(Authorization=live),
            Program(**{"X-API-Key": live}),
        ):
            answer = call(who, verb, path, run.thread_id, run.pk)
            refused(answer, 401, "bad_token")
            assert answer["WWW-Authenticate"] == "Bearer"
        # A person's session is no token, with a CSRF token or without.
        page = signed_in.generic(
            verb,
            "/api/v1/" + path.format(thread=run.thread_id, run=run.pk),
            data="{}",
            content_type="application/json",
        )
        assert page.status_code == 401
    assert counts() == before


def test_a_token_does_what_its_scope_says_and_no_more(begin, workspace, server, work):
    server.will_say("Hello.")
    run = begin()
    work()
    allowed = {
        scope: Program(token_of(workspace, scope))
        for scope in Scope.values
        if scope != Scope.DECIDE
    }
    for verb, path, needs in EVERYTHING:
        for scope, who in allowed.items():
            before = counts()
            answer = call(who, verb, path, run.thread_id, run.pk)
            if scope == needs:
                assert answer.status_code < 300 or answer.json()["code"] == (
                    "not_retryable"
                )
            else:
                said = refused(answer, 403, "not_permitted")
                assert f"with the scope {needs}" in said["detail"]
                assert counts() == before
    assert AuditEvent.objects.filter(action="refused", via="api").exists()


def test_another_workspace_is_as_if_it_were_not_there(begin, other, server):
    run = begin()
    theirs = Program(token_of(Workspace.objects.get(pk=other.workspace_id)))
    before = counts()
    for verb, path, _ in EVERYTHING:
        if "{" not in path:
            continue
        foreign = call(theirs, verb, path, run.thread_id, run.pk)
        random = call(theirs, verb, path, uuid4(), uuid4())
        refused(foreign, 404, "not_found")
        assert foreign.content == random.content
    assert theirs.get("runs").json() == []
    assert theirs.get("runs", before=run.pk).json() == []
    assert counts() == before


def test_private_threads_are_no_programs(begin, program):
    run = begin(visibility="private", external_id="mine")
    before = counts()
    for verb, path, _ in EVERYTHING:
        if "{" in path:
            refused(call(program, verb, path, run.thread_id, run.pk), 404, "not_found")
    taken = program.post("runs", {**START, "external_id": "mine"})
    assert "may not see" in refused(taken, 409, "already_started")["detail"]
    assert counts() == before


def test_revoked_is_revoked_at_once(program):
    run = started(program)
    with as_owner():
        tokens.revoke(ApiToken.objects.get(), by=None)
    refused(program.get(f"runs/{run['id']}"), 401, "bad_token")
    assert Run.objects.get().needs_owner


# What does not fit


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 422, "invalid"),
        (b"{", 400, "bad_request"),
        (b"\xff\xfe", 400, "bad_request"),
        (b'{"agent": NaN}', 400, "bad_request"),
        (b"[" * 100_000, 400, "bad_request"),
        (b'{"agent": "test-desk", "agent": "other"}', 422, "not_json"),
        (b'{"params": {"a": {"b": 1, "b": 2}}}', 422, "not_json"),
        (b'{"params": {"seed": 18446744073709551616}}', 422, "not_json"),
        (b'{"params": {"seed": 1e999}}', 400, "bad_request"),
        (b'{"agent": "\\ud800"}', 400, "bad_request"),
        (b'{"params": ' + b"[" * 70 + b"]" * 70 + b"}", 422, "not_json"),
        (b"[]", 422, "invalid"),
        (b"null", 422, "invalid"),
        (b'"x"', 422, "invalid"),
        (b"{}", 422, "invalid"),
        ({"agent": "test-desk"}, 422, "invalid"),
        ({**START, "extra": 1}, 422, "invalid"),
        ({**START, "message": ["x"]}, 422, "invalid"),
        ({**START, "message": "x" * 100_001}, 422, "invalid"),
        ({**START, "message": "  \n "}, 422, "empty_message"),
        ({**START, "agent": "nobody"}, 404, "unknown_agent"),
        ({**START, "params": {"temperature": "hot"}}, 422, "invalid_edit"),
        ({**START, "params": {"root": True}}, 422, "invalid_edit"),
        ({**START, "external_id": ""}, 422, "invalid"),
        ({**START, "external_id": "x" * 201}, 422, "invalid"),
        ({**START, "external_id": "a\x00b"}, 422, "invalid"),
        ({**START, "title": "a\x00b", "agent": "a\x00b"}, 422, "invalid"),
        (b"x" * 3_000_000, 413, "too_large"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_a_problem_that_says_so(program, body, status, code):
    said = refused(program.post("runs", body), status, code)
    assert said["detail"]
    assert "xxxxxxxx" not in said["detail"]  # what was sent is not sent back
    assert counts() == [0, 0, 0, 0]


NOWHERE = "3f0c2f3e-6f0e-4d0c-9f9b-0a4f1f4a2b77"  # the same in each process


@pytest.mark.parametrize(
    "path",
    [
        "runs/x",
        "runs/00000000-0000-0000-0000-00000000000g",
        "runs?limit=0",
        "runs?limit=100000",
        "runs?before=x",
        "runs?status=weird",
        "runs?external_id=%00",
        "runs?agent=a%00b",
        f"threads/{NOWHERE}/states/-1",
        f"threads/{NOWHERE}/states/99999999999999999999",
        f"threads/{NOWHERE}/history?after=x",
    ],
)
def test_addresses_that_do_not_fit(program, path):
    refused(program.get(path), 422, "invalid")


@pytest.mark.parametrize("path", ["", "nothing", "runs/", "../admin", "docs"])
def test_other_addresses_are_not_found_in_json(program, path):
    refused(program.get(path), 404, "not_found")
    refused(program.post(path), 404, "not_found")


@pytest.mark.parametrize(
    ("calls", "status"), [("simulate", "succeeded"), ("live", "waiting")]
)
def test_a_fork_may_simulate_its_calls_or_ask_before_it_makes_them(
    program, server, work, calls, status
):
    server.will_call("c1", "hold", item="seat")
    server.will_say("Held.")
    run = started(program)
    work()
    (held,) = server.ledger("holds")
    server.will_call("c2", "hold", item="another")
    server.will_say("Held, too.")
    body = {"step": 0, "system": "Hold something else.", "calls": calls}
    made = program.post(f"threads/{run['thread']}/forks", body).json()
    work()
    assert program.get(f"runs/{made['run']}").json()["status"] == status
    assert Branch.objects.get(pk=made["branch"]).calls == calls
    assert server.ledger("holds") == [held]
    wrong = program.post(f"threads/{run['thread']}/forks", {**body, "calls": "all"})
    refused(wrong, 422, "invalid")


def test_only_json_is_read(program):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/x"):
        answer = program.post("runs", START, content_type=kind)
        refused(answer, 415, "bad_request")
    assert counts() == [0, 0, 0, 0]


def test_another_verb_is_not_allowed(program):
    answer = program.ask("DELETE", "runs")
    said = refused(answer, 405, "method_not_allowed")
    assert said["detail"] == "This address takes GET, POST requests."
    assert set(answer["Allow"].split(", ")) == {"GET", "POST"}


def test_too_many_requests_say_when_to_come_back(program, settings):
    settings.API_REQUESTS_PER_MINUTE = 2
    answers = [program.get("agents") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    said = refused(answers[2], 429, "too_many_requests")
    assert said["retry"]
    assert 1 <= int(answers[2]["Retry-After"]) <= 30


# The real web process


@pytest.mark.slow
@pytest.mark.unmeasured
def test_a_hundred_at_once_over_http(workers, workspace, server, tmp_path):
    """A hundred starts with one external id are one run; a hundred messages are all kept."""
    server.always("Noted.")
    text = token_of(workspace)
    env = {
        **workers.web_env,
        "DATABASE_POOL": "8",
        "HOLDPOINT_APPS": "tests.workers.desk",
    }
    with web(env, tmp_path / "web.log") as address:

        def post(path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
            request = Request(  # noqa: S310
                f"{address}/api/v1/{path}",
                json.dumps(body).encode(),
                {"Authorization": f"Bearer {text}", "Content-Type": "application/json"},
            )
            try:
                with urlopen(request, timeout=60) as answer:  # noqa: S310
                    return answer.status, json.load(answer)
            except HTTPError as error:
                return error.code, json.load(error)

        with ThreadPoolExecutor(25) as crowd:
            asked = {**START, "external_id": "one"}
            got = list(crowd.map(lambda _: post("runs", asked), range(100)))
            assert {status for status, _ in got} <= {200, 201}
            assert len({run["id"] for _, run in got}) == 1
            run = got[0][1]
            workers.start(2)
            path = f"threads/{run['thread']}/messages"
            sent = [{"message": f"message {n:03}"} for n in range(100)]
            got = list(crowd.map(lambda body: post(path, body), sent))
        assert {status for status, _ in got} == {202}
        order = [
            body["message"]
            for _, body in sorted(
                zip((said["position"] for _, said in got), sent, strict=True),
                key=lambda pair: pair[0],
            )
        ]
        wait_until(
            lambda: (
                not ThreadInput.objects.undelivered().exists()
                and not Run.objects.filter(status__in=Run.LIVE).exists()
            )
        )
    program = Program(text)
    head = program.get(f"threads/{run['thread']}").json()["branches"][0]["head_step"]
    state = program.get(f"threads/{run['thread']}/states/{head}").json()["state"]
    said = [m["content"] for m in state["messages"] if m["role"] == "user"]
    assert said == ["Book it.", *order]
