"""What goes wrong outside has a state that people see, a reason, and a way on."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents.approvals import decide
from agents.models import Agent, Run, Worker
from agents.runs import execute, runner, start
from checkpoints import gate
from checkpoints.models import Checkpoint
from tests.conftest import as_owner
from tests.workers.conftest import ended, kinds, pending, wait_until

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


def rename(run: Run, name: str) -> None:
    """The code of the agent goes, or comes back."""
    with as_owner():
        Agent.objects.filter(pk=run.agent_version.agent_id).update(name=name)


def test_an_agent_that_is_gone_while_a_run_waits_is_named_and_waited_for(
    begin, work, server, alice, bob
):
    server.will_call("c1", "book", item="hotel", price="2000")
    server.will_say("Booked.")
    run = begin()
    work()
    rename(run, "retired")
    thread = f"/threads/{run.thread_id}/"
    assert "No app here has the agent “<span hx-ignore>retired</span>”" in (
        page(alice, thread)
    )
    (asked,) = pending(run)
    decide.approve(asked, seen=asked.as_shown(), by=bob)
    runner.work(run.pk)
    run.refresh_from_db()
    assert (run.status, run.attempts) == ("ready", 0)
    assert server.ledger() == []
    rename(run, "test-desk")
    assert "No app here has" not in page(alice, thread)
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert len(server.ledger()) == 1


def test_a_run_whose_agent_is_gone_can_be_cancelled(begin, alice):
    run = begin()
    rename(run, "retired")
    runner.work(run.pk)
    assert start.cancel(run, by=alice)
    run.refresh_from_db()
    assert run.status == "cancelled"


@pytest.mark.slow
def test_a_run_that_no_worker_can_take_says_so_and_goes_on_once_one_can(
    workers, begin, server, alice
):
    server.always("Hello.")
    workers.start(HOLDPOINT_APPS="")
    (without,) = wait_until(lambda: list(Worker.objects.filter(ended_at=None)))
    assert "test-desk" not in without.agents
    run = begin()
    wait_until(lambda: "no worker has this agent" in page(alice, "/runs/"))
    run.refresh_from_db()
    assert (run.status, run.attempts) == ("ready", 0)
    workers.start()
    wait_until(lambda: ended(run))
    assert run.status == "succeeded"
    assert "no worker has this agent" not in page(alice, "/runs/")
