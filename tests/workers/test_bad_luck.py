"""What goes wrong outside has a state that people see, a reason, and a way on."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents.approvals import decide
from agents.models import Approval, Run, Worker
from agents.runs import execute, runner, start
from agents.runs.edits import ForkEdits
from agents.tools import registry
from checkpoints import gate
from checkpoints.models import Checkpoint
from tests.conftest import as_owner
from tests.workers.conftest import ended, kinds, pending, wait_until
from tests.workers.desk.agents import bounded, desk, look

pytestmark = pytest.mark.django_db(transaction=True)


def page(person, url: str) -> str:
    client = Client()
    with as_owner():
        client.force_login(User.objects.get(pk=person.user_id))
    return " ".join(client.get(url).content.decode().split())


def last_step(run: Run) -> str:
    last = Checkpoint.objects.filter(branch=run.branch_id).order_by("step").last()
    assert last is not None
    return f"/threads/{run.thread_id}/at/{last.pk}/"


@pytest.mark.parametrize(
    ("fault", "error_class", "words"),
    [
        ("garbage", "model_error", "The model's server answered with an error"),
        ("refusal", "model_refused", "The model declined to answer"),
        ("overflow", "context_overflow", "longer than the model takes"),
    ],
)
def test_a_model_that_gives_no_answer_fails_the_run_and_a_retry_goes_on(
    begin, work, server, alice, fault, error_class, words
):
    if fault == "refusal":
        server.will_refuse()
    else:
        server.fault(fault, times=None)
    run = begin()
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("failed", error_class)
    assert kinds(run) == ["input", "error"]
    shown = page(alice, last_step(run))
    assert words.replace("'", "&#x27;") in shown
    assert f"/runs/{run.pk}/retry" in page(alice, "/runs/?show=failed")
    server.reset()
    server.will_say("Here I am.")
    again = start.retry(run, by=alice)
    work()
    again.refresh_from_db()
    assert again.status == "succeeded"


@pytest.mark.parametrize(
    ("how", "said"), [("exit", "SystemExit: 3"), ("cancel", "CancelledError: ")]
)
def test_a_tool_that_ends_its_process_ends_only_its_call(
    begin, work, server, how, said
):
    server.will_call("c1", "leave", how=how)
    server.will_say("It left.")
    run = begin()
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert said in server.requests[-1]["messages"][-1]["content"]


@pytest.mark.parametrize(("length", "said"), [(0, "cannot be read"), (10**6, "xx…")])
def test_an_exception_that_cannot_be_told_fails_the_run_for_what_it_is(
    begin, work, server, alice, monkeypatch, length, said
):
    monkeypatch.setattr(execute, "PAUSE", 0)
    server.will_call("c1", "mutter", length=length)
    run = begin()
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("failed", "tool_broke")
    reason = gate.admit(alice, purpose="test", threads=[run.thread]).open(run, "error")
    assert "Unspeakable: " in reason
    assert said in reason
    assert len(reason) < 20_000


def test_a_result_of_50_mb_is_kept_and_the_run_comes_to_an_end_that_says_why(
    begin, work, server, alice
):
    server.will_call("c1", "fetch", size=50 * 1024 * 1024)
    server.fault("overflow", turn=1)
    run = begin()
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("failed", "context_overflow")
    assert kinds(run) == ["input", "model", "tool", "error"]
    result = Checkpoint.objects.get(branch=run.branch_id, step=2)
    assert "50.0 MB" in page(alice, f"/threads/{run.thread_id}/at/{result.pk}/")
    assert "longer than the model takes" in page(alice, last_step(run))
    assert f"/runs/{run.pk}/retry" in page(alice, "/runs/?show=failed")


# What tools do


@pytest.mark.parametrize(
    ("tool", "arguments", "error_class", "reason", "words"),
    [
        (
            "explode",
            {},
            "tool_raised",
            "RuntimeError: the boiler burst",
            "The tool broke with an error of its own",
        ),
        (
            "quote",
            {"item": "nothing"},
            "tool_failed",
            "there is no such thing",
            "The tool could not do it",
        ),
        (
            "give",
            {"kind": "not JSON"},
            "result_not_kept",
            "only plain JSON can be stored",
            "what it returned cannot be kept",
        ),
        (
            "teleport",
            {"to": "Lisbon"},
            "unknown_tool",
            "There is no tool &#x27;teleport&#x27;",
            "The agent called a tool that it does not have",
        ),
        (
            "book",
            {"item": "hotel"},
            "arguments_do_not_fit",
            "The arguments do not fit: /price",
            "with arguments that do not fit",
        ),
    ],
)
def test_a_call_that_comes_to_nothing_says_why_and_the_agent_goes_on(
    begin, work, server, alice, tool, arguments, error_class, reason, words
):
    server.will_call("c1", tool, **arguments)
    server.will_say("I see.")
    run = begin()
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    step = Checkpoint.objects.get(branch=run.branch_id, kind="tool")
    assert (step.status, step.error_class) == ("failed", error_class)
    shown = page(alice, f"/threads/{run.thread_id}/at/{step.pk}/")
    assert reason in shown
    assert words in shown
    assert "Fork before this step" in shown
    assert server.ledger() == []


def test_a_tool_that_breaks_each_time_fails_the_run_and_a_retry_goes_on(
    begin, work, server, alice, monkeypatch
):
    monkeypatch.setattr(execute, "PAUSE", 0)
    server.will_call("c1", "hold", item="seat")
    server.ledger_fault("drop", times=3)
    run = begin()
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("failed", "tool_broke")
    assert "A tool failed each time it was tried" in page(alice, last_step(run))
    assert f"/runs/{run.pk}/retry" in page(alice, "/runs/?show=failed")
    server.will_say("Held.")
    again = start.retry(run, by=alice)
    work()
    again.refresh_from_db()
    assert again.status == "succeeded"
    assert len(server.ledger("holds")) == 1


def test_an_agent_that_goes_in_a_circle_says_so_and_a_message_is_a_way_on(
    work, server, alice
):
    for n in range(3):
        server.will_call(f"c{n}", "look", what="it")
    name = bounded["circling"].name
    run = start.start_run(agent=name, message="Look.", by=alice)
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("failed", "repeats_itself")
    assert "The agent went in a circle" in page(alice, last_step(run))
    assert f"/runs/{run.pk}/retry" in page(alice, "/runs/?show=failed")
    server.will_say("It is fine.")
    start.send_message(run.branch, message="You know that by now.", by=alice)
    work()
    assert Run.objects.filter(branch=run.branch_id).latest("created_at").status == (
        "succeeded"
    )


# What is deployed


@pytest.fixture
def waiting(begin, work, server) -> Run:
    """A run that waits for a person to let it book a hotel."""
    server.will_call("c1", "book", item="hotel", price="2000")
    server.will_say("Booked.")
    run = begin()
    work()
    return run


@pytest.fixture
def undeploy(monkeypatch):
    """The code of an agent goes."""
    return lambda agent: monkeypatch.delitem(registry._agents, agent.name)


GONE = "No app here has the agent “<span hx-ignore>test-desk</span>” any more."


def test_an_agent_that_is_gone_while_a_run_waits_is_named_and_waited_for(
    waiting, work, server, alice, bob, undeploy, deploy
):
    (asked,) = pending(waiting)
    thread, request = f"/threads/{waiting.thread_id}/", f"/inbox/{asked.pk}/"
    assert GONE not in page(alice, thread) + page(bob, request)
    undeploy(desk)
    assert GONE in page(alice, thread)
    assert f"{GONE}</b> What is decided is kept" in page(bob, request)
    decide.approve(asked, seen=asked.as_shown(), by=bob)
    runner.work(waiting.pk)
    waiting.refresh_from_db()
    assert (waiting.status, waiting.attempts) == ("ready", 0)
    assert server.ledger() == []
    assert f"{GONE}</b> Nothing is lost" in page(bob, request)
    assert "The agent goes on…" not in page(bob, request)
    deploy(desk)
    assert GONE not in page(alice, thread) + page(bob, request)
    work()
    waiting.refresh_from_db()
    assert waiting.status == "succeeded"
    assert len(server.ledger()) == 1


def test_a_run_whose_agent_is_gone_can_be_cancelled(
    waiting, server, alice, bob, undeploy
):
    (asked,) = pending(waiting)
    undeploy(desk)
    client = Client()
    with as_owner():
        client.force_login(User.objects.get(pk=alice.user_id))
    client.post(f"/runs/{waiting.pk}/cancel")
    waiting.refresh_from_db()
    assert waiting.status == "cancelled"
    shown = page(bob, f"/inbox/{asked.pk}/")
    assert "It was not done, and need not be decided any more" in shown
    assert GONE not in shown + page(alice, f"/threads/{waiting.thread_id}/")
    assert server.ledger() == []


def test_a_tool_that_is_gone_by_the_time_it_is_approved_is_not_called_and_a_fork_calls_it(
    waiting, work, server, alice, bob, deploy
):
    (asked,) = pending(waiting)
    request = f"/inbox/{asked.pk}/"
    deploy(desk, tools=[look])
    gone = (
        "has no tool “<span hx-ignore>book</span>” any more.</b> Unless it is deployed"
    )
    assert gone in page(bob, request)
    decide.approve(asked, seen=asked.as_shown(), by=bob)
    assert gone in page(bob, request)
    work()
    waiting.refresh_from_db()
    assert waiting.status == "succeeded"
    assert server.ledger() == []
    told = server.requests[-1]["messages"][-1]["content"]
    assert told == "There is no tool 'book'; there are: look."
    shown = page(bob, request)
    assert "It was not done: the agent&#x27;s code was without the tool" in shown
    assert "The call was made" not in shown
    step = Checkpoint.objects.get(branch=waiting.branch_id, kind="tool")
    shown = page(alice, f"/threads/{waiting.thread_id}/at/{step.pk}/")
    assert "The agent called a tool that it does not have" in shown
    assert "Fork before this step" in shown
    deploy(desk)
    before = Checkpoint.objects.get(branch=waiting.branch_id, kind="interrupt")
    start.fork_run(before, edits=ForkEdits(), name="again", by=alice)
    work()
    (anew,) = Approval.objects.pending()
    decide.approve(anew, seen=anew.as_shown(), by=bob)
    server.will_say("Booked.")
    work()
    assert len(server.ledger("bookings")) == 1


@pytest.mark.slow
def test_a_run_that_no_worker_can_take_says_so_and_goes_on_once_one_can(
    workers, begin, work, server, alice
):
    server.will_call("c1", "book", item="hotel", price="2000")
    begin()  # and waits for a person
    work()
    server.reset()
    server.always("Hello.")
    workers.start(HOLDPOINT_APPS="")
    (without,) = wait_until(lambda: list(Worker.objects.filter(ended_at=None)))
    assert "test-desk" not in without.agents
    run = begin()
    wait_until(lambda: "no worker has this agent</b>: start" in page(alice, "/runs/"))
    assert "no worker has this agent</b>: what is decided" in page(alice, "/runs/")
    run.refresh_from_db()
    assert (run.status, run.attempts) == ("ready", 0)
    workers.start()
    wait_until(lambda: ended(run))
    assert run.status == "succeeded"
    assert "no worker has this agent" not in page(alice, "/runs/")
