"""Calls that do not answer: given up in time, by a person, or with the branch."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from threading import Thread

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import F
from django.test import Client

from agents.approvals import decide
from agents.errors import BadDeclaration
from agents.models import Approval, Run, ToolCall, Worker
from agents.runs import runner, start, stop
from agents.runs.aside import left_behind
from agents.tools import tool
from checkpoints.access import Reason, unscoped
from checkpoints.models import Branch
from tests.conftest import as_owner
from tests.workers.conftest import ended, kinds, pending, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

SECOND = 2  # that a machine with much to do may take for what takes one
SHORT = 1  # seconds that a call is waited for here; others are over by then


@pytest.fixture(autouse=True)
def soon_over(settings) -> None:
    settings.TOOL_TIMEOUT_SECONDS = SHORT


@pytest.fixture(autouse=True)
def nothing_stays_behind():
    """What a test gives up is over before the next begins."""
    yield
    wait_until(lambda: not left_behind())


def told(server) -> str:
    return server.requests[-1]["messages"][-1]["content"]


def page(person, url: str) -> str:
    client = Client()
    with as_owner():
        client.force_login(User.objects.get(pk=person.user_id))
    return " ".join(client.get(url).content.decode().split())


def test_a_read_that_hangs_is_a_failed_step_and_the_agent_goes_on(
    begin, work, server, alice
):
    server.will_call("c1", "wait", seconds=5)
    server.will_say("It does not answer.")
    run = begin()
    work()
    assert left_behind() == 1  # nobody waited for its end
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert told(server) == f"The tool did not answer within {SHORT} s."
    call = ToolCall.objects.get(run=run)
    assert (call.status, call.error_class) == ("failed", "tool_timeout")
    shown = page(alice, f"/threads/{run.thread_id}/at/{call.result_checkpoint_id}/")
    assert "The tool did not answer in time" in shown


def test_a_repeatable_call_that_hangs_is_made_again_with_its_key(begin, work, server):
    server.will_call("c1", "hold", item="seat")
    server.ledger_fault("hang", seconds=2.5)
    server.will_say("Held.")
    run = begin()
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    first, again = server.ledger("holds")
    assert first["key"] == again["key"] == str(ToolCall.objects.get(run=run).pk)
    assert (first["applied"], again["applied"]) == (True, False)


def test_one_that_hangs_each_time_fails_the_run_and_a_retry_has_the_same_key(
    begin, work, server, alice, history
):
    server.will_call("c1", "hold", item="seat")
    server.ledger_fault("hang", times=3, seconds=2.5)
    run = begin()
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("failed", "tool_broke")
    reason = history(run.branch).records[-1].label
    assert "3 times in a row" in reason
    server.will_say("Held.")
    again = start.retry(run, by=alice)
    work()
    again.refresh_from_db()
    assert again.status == "succeeded"
    assert [effect["applied"] for effect in server.ledger("holds")].count(True) == 1


@pytest.mark.parametrize(("fault", "happened"), [("hang", 1), ("slow", 0)])
def test_what_must_not_happen_twice_and_hangs_is_for_a_person(
    begin, work, server, bob, fault, happened
):
    server.will_call("c1", "send", text="the tickets")
    server.ledger_fault(fault, seconds=3)
    run = begin()
    work()
    (asked,) = pending(run)
    assert asked.kind == "unknown"
    call = ToolCall.objects.get(run=run)
    assert (call.status, call.error_class) == ("unknown", "tool_timeout")
    assert len(server.ledger("emails")) == happened
    shown = page(bob, f"/inbox/{asked.pk}/")
    assert "gave no result before its time was over: it may still take effect" in shown
    wait_until(lambda: server.ledger("emails"))  # late
    assert len(server.ledger("emails")) == 1


def test_a_tool_that_can_find_out_is_asked_what_came_of_it(begin, work, server):
    server.will_call("c1", "deliver", text="the tickets")
    server.ledger_fault("hang", seconds=2.5)
    server.will_say("Delivered.")
    run = begin()
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert not Approval.objects.filter(run=run).exists()
    assert len(server.ledger("deliveries")) == 1


def test_not_found_is_not_enough_while_the_call_may_be_at_work(begin, work, server):
    """Its tool says that it did not happen. It is yet to."""
    server.will_call_all(
        ("c1", "deliver", {"text": "the tickets"}), ("c2", "look", {"what": "the desk"})
    )
    server.ledger_fault("slow", seconds=3)
    run = begin()
    work()
    assert kinds(run) == ["input", "model", "tool", "interrupt"]
    (asked,) = pending(run)
    assert asked.kind == "unknown"
    wait_until(lambda: server.ledger("deliveries"))
    assert len(server.ledger("deliveries")) == 1


def _pause(now) -> None:
    now.update(paused_at=F("created_at"))


def _cancel(now) -> None:
    now.update(cancel_requested=True)


@pytest.mark.parametrize("leave", [_pause, _cancel])
def test_nor_is_it_for_who_takes_the_run_next(begin, server, alice, leave):
    """The claim ends before anybody is asked; its tool says that it did not happen."""
    server.will_call("c1", "deliver", text="the tickets")
    server.ledger_fault("slow", seconds=3)
    run = begin()
    now = Run.objects.filter(pk=run.pk)
    under_way = run.calls.filter(status="executing").exists
    left = _once(under_way, lambda: leave(now))
    runner.work(run.pk)
    left.join()
    run.refresh_from_db()
    assert not pending(run)
    assert ToolCall.objects.get(run=run).error_class == "tool_timeout"
    if leave is _pause:
        assert run.status == "ready"
        now.update(paused_at=None)
    else:
        assert run.status == "cancelled"
        run = start.retry(run, by=alice)
    runner.work(run.pk)
    (asked,) = pending(run)
    assert asked.kind == "unknown"
    wait_until(lambda: server.ledger("deliveries"))  # late
    time.sleep(0.5)
    assert len(server.ledger("deliveries")) == 1


def test_run_again_as_a_person_says_it_is_not_in_doubt_any_more(
    begin, work, server, bob
):
    server.will_call("c1", "send", text="the tickets")
    server.ledger_fault("hang", seconds=2.5)
    run = begin()
    work()
    (asked,) = pending(run)
    assert ToolCall.objects.get(run=run).error_class == "tool_timeout"
    decide.approve(asked, seen=asked.as_shown(), by=bob)
    server.will_say("Sent.")
    work()
    run.refresh_from_db()
    call = ToolCall.objects.get(run=run)
    assert (run.status, call.status, call.error_class) == ("succeeded", "succeeded", "")
    assert call.attempts == 2


def test_a_tool_may_say_how_long_its_calls_take():
    def search() -> str:
        return ""

    plain, patient = tool(search), tool(timeout=timedelta(minutes=20))(search)
    assert patient.timeout == timedelta(minutes=20)
    assert patient.spec() == {**plain.spec(), "timeout": 1200.0}
    with pytest.raises(BadDeclaration, match="no length of time"):
        tool(timeout=timedelta(0))(search)


def _once(true: Callable[[], bool], act: Callable[[], object]) -> Thread:
    """Acts beside the run as soon as `true()` is."""

    def run() -> None:
        with unscoped(Reason.TEST):
            wait_until(true)
            act()
        connection.close()

    thread = Thread(target=run)
    thread.start()
    return thread


def _asked(run: Run) -> bool:
    """The model asked for its call, which is under way from now on."""
    return kinds(run) == ["input", "model"]


@pytest.mark.parametrize("progress", [60, 0.6])  # told by a heartbeat, or by a commit
def test_whoever_lost_the_branch_gives_its_call_up(begin, server, settings, progress):
    settings.TOOL_TIMEOUT_SECONDS, settings.PROGRESS_SECONDS = 60, progress
    server.will_call("c1", "wait", seconds=5)
    run = begin()
    ours = Branch.objects.filter(pk=run.branch_id)
    taken = _once(partial(_asked, run), lambda: ours.update(fence=F("fence") + 1))
    runner.work(run.pk)
    assert left_behind() == 1  # nobody waited for its end
    taken.join()
    assert kinds(run) == ["input", "model"]


def test_a_person_who_pauses_does_not_wait_for_a_read(begin, server, settings):
    settings.TOOL_TIMEOUT_SECONDS = 60
    server.will_call("c1", "wait", seconds=5)
    run = begin()
    now = Run.objects.filter(pk=run.pk)
    paused = _once(partial(_asked, run), lambda: now.update(paused_at=F("created_at")))
    runner.work(run.pk)
    assert left_behind() == 1
    paused.join()
    run.refresh_from_db()
    assert (run.status, run.attempts) == ("ready", 0)


def test_an_effect_is_waited_for_and_recorded_before_the_run_is_cancelled(
    begin, server, settings
):
    settings.TOOL_TIMEOUT_SECONDS = 60
    server.will_call("c1", "hold", item="seat")
    server.ledger_fault("slow", seconds=1.5)
    run = begin()
    now = Run.objects.filter(pk=run.pk)
    under_way = run.calls.filter(status="executing").exists
    cancelled = _once(under_way, lambda: now.update(cancel_requested=True))
    runner.work(run.pk)
    cancelled.join()
    run.refresh_from_db()
    assert run.status == "cancelled"
    assert kinds(run) == ["input", "model", "tool", "error"]
    assert ToolCall.objects.get(run=run).status == "succeeded"


def test_a_call_that_takes_long_says_so_by_steps(begin, work, server, alice, settings):
    settings.TOOL_TIMEOUT_SECONDS, settings.PROGRESS_SECONDS = 60, 0.4
    server.will_call("c1", "hold", item="seat")
    server.ledger_fault("slow", seconds=1.5)
    server.will_say("Held.")
    run = begin()
    work()
    first, second, *signs, tool, last = kinds(run)
    assert [first, second, tool, last] == ["input", "model", "tool", "model"]
    assert {"progress"} == set(signs)
    run.refresh_from_db()
    assert (run.status, run.steps) == ("succeeded", 3)  # they are not the agent's doing
    assert len(server.ledger()) == 1
    shown = page(alice, f"/threads/{run.thread_id}/?step=2")
    assert "Still waiting for “" in shown


def test_one_that_hangs_is_not_tried_again_once_the_run_is_cancelled(
    begin, server, settings
):
    settings.TOOL_TIMEOUT_SECONDS = 2
    server.will_call("c1", "hold", item="seat")
    server.ledger_fault("hang", times=3, seconds=3)
    run = begin()
    now = Run.objects.filter(pk=run.pk)
    cancelled = _once(server.ledger, lambda: now.update(cancel_requested=True))
    runner.work(run.pk)
    cancelled.join()
    run.refresh_from_db()
    assert run.status == "cancelled"
    assert len(server.ledger("holds")) == 1


@pytest.mark.slow
def test_a_read_that_hangs_is_cancelled_within_a_second_and_its_worker_recycled(
    workers, begin, server, alice
):
    server.will_call("c1", "quote", item="seat")
    server.ledger_fault("hang", seconds=60)
    workers.start(TOOL_TIMEOUT_SECONDS="60")
    run = begin()
    wait_until(server.ledger)  # into the call
    asked = time.monotonic()
    assert stop.cancel(run, by=alice)
    wait_until(lambda: ended(run))
    took = time.monotonic() - asked
    assert run.status == "cancelled"
    assert kinds(run) == ["input", "model", "error"]
    assert took < SECOND
    recycled = Worker.objects.filter(
        cause="a call hangs", ending=Worker.Ending.RECYCLED
    )
    wait_until(recycled.exists)
