"""Calls that may be at work yet, though nobody waits for them: what whoever has the run does."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db.models import F

from agents.approvals import decide
from agents.models import Approval, Run, ToolCall
from agents.runs import claim, reaper, runner, start
from agents.runs.aside import left_behind
from agents.runs.edits import ForkEdits
from agents.runs.heartbeat import TICK
from agents.tools import IdempotencyKey, never, tool
from checkpoints.access import Reason, unscoped
from checkpoints.clock import ClockTimestamp
from checkpoints.models import Branch, Checkpoint
from tests.workers.conftest import pending, wait_until
from tests.workers.desk.agents import _sent, desk, look
from tests.workers.desk.ledger import post
from tests.workers.test_calls_that_hang import _once, page

pytestmark = pytest.mark.django_db(transaction=True)

HEARD = 3 * TICK  # seconds after which the worker knows that its run is paused


@pytest.fixture
def soon_over(settings):
    """Calls are waited for a second. What a test gives up is over before the next."""
    settings.TOOL_TIMEOUT_SECONDS = 1
    yield
    wait_until(lambda: not left_behind())


@pytest.fixture
def leave(begin, server, deploy) -> Callable[..., Run]:
    """A run whose call broke, and that was paused before anything came of that. It sent
    nothing, unless `sends`."""

    def leave(text: str = "the tickets", *, sends: bool = False) -> Run:
        runs: list[Run] = []

        @tool(effect="external", title="Deliver {text}", approve=never, reconcile=_sent)
        def deliver(text: str, *, key: IdempotencyKey) -> None:
            """As the desk's, but that the line breaks once."""
            if sends or not runs:
                post("deliveries", key, {"text": text})
            if runs:
                with unscoped(Reason.TEST):
                    pause(runs.pop())
                time.sleep(HEARD)
                raise ConnectionResetError

        deploy(desk, tools=[deliver, look])
        server.will_call("c1", "deliver", text=text)
        runs.append(run := begin())
        runner.work(run.pk, worker="one")
        assert (call_of(run).status, call_of(run).worker) == ("executing", "")
        return run

    return leave


def pause(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(paused_at=F("created_at"))


def go_on(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(paused_at=None)
    runner.work(run.pk, worker="another")
    run.refresh_from_db()


def call_of(run: Run) -> ToolCall:
    return ToolCall.objects.get(run=run)


def stands_still(run: Run, **more: Any) -> None:
    """The row of its call, as a worker leaves it that was frozen in the middle of it."""
    ToolCall.objects.filter(run=run).update(
        error_class="", worker="one", started_at=ClockTimestamp(), **more
    )


def asked_of(run: Run) -> Approval:
    (asked,) = pending(run)
    assert asked.kind == "unknown"
    return asked


@pytest.mark.usefixtures("soon_over")
def test_a_third_try_that_hangs_is_for_a_person(begin, work, server):
    """It broke twice. Its tool says of the third, too, that it did not happen: not yet."""
    server.will_call("c1", "deliver", text="the tickets")
    server.ledger_fault("drop", times=2)
    server.ledger_fault("slow", seconds=5)
    run = begin()
    work()
    asked = asked_of(run)
    assert (asked.call.attempts, asked.call.error_class) == (3, "tool_timeout")
    wait_until(lambda: server.ledger("deliveries"))
    assert len(server.ledger("deliveries")) == 1


def test_nor_is_it_believed_of_a_third_try_whose_worker_may_be_alive(leave):
    run = leave()
    stands_still(run, attempts=3)
    go_on(run)
    assert asked_of(run).call.error_class == "worker_silent"


def test_a_call_that_broke_is_made_again_however_long_the_run_was_paused(leave, server):
    run = leave()
    long_ago = ClockTimestamp() - timedelta(days=1)
    ToolCall.objects.filter(run=run).update(started_at=long_ago)
    server.will_say("Delivered.")
    go_on(run)
    assert run.status == "succeeded"
    assert len(server.ledger("deliveries")) == 1


@pytest.mark.usefixtures("soon_over")
def test_who_takes_the_run_next_says_that_it_was_not_over_in_its_time(
    begin, server, bob
):
    server.will_call("c1", "send", text="the tickets")
    server.ledger_fault("slow", seconds=3)
    run = begin()
    under_way = run.calls.filter(status="executing").exists
    paused = _once(under_way, partial(pause, run))
    runner.work(run.pk, worker="one")
    paused.join()
    go_on(run)
    shown = page(bob, f"/inbox/{asked_of(run).pk}/")
    assert "before its time was over: it may still take effect" in shown


def test_a_worker_that_may_be_alive_is_spoken_of_though_the_tool_cannot_tell(
    leave, bob
):
    run = leave("mute", sends=True)
    stands_still(run)
    go_on(run)
    shown = page(bob, f"/inbox/{asked_of(run).pk}/")
    assert "its worker was not heard of since: it may be at it yet" in shown


@pytest.mark.parametrize("find", [_sent, None])
def test_a_tool_that_takes_other_arguments_by_now_leaves_its_call_in_doubt(
    leave, server, deploy, bob, find
):
    run = leave("mute", sends=True)

    @tool(effect="external", title="Deliver {text}", approve=never, reconcile=find)
    def deliver(text: str, urgent: bool, *, key: IdempotencyKey) -> str:
        """Deliver it at once, or not."""
        return f"{text} {urgent} {key}"

    deploy(desk, tools=[deliver, look])
    go_on(run)
    asked = asked_of(run)
    server.will_say("Sent.")
    decide.respond(asked, seen=asked.as_shown(), by=bob, response="It is there.")
    go_on(run)
    assert run.status == "succeeded"


def test_a_dead_worker_is_at_no_call_also_where_its_lease_had_lapsed(leave, server):
    run = leave()
    Run.objects.filter(pk=run.pk).update(paused_at=None)
    assert claim.claim(run.pk, "one")
    stands_still(run)
    Branch.objects.filter(pk=run.branch_id).update(lease_until=ClockTimestamp())
    wait_until(lambda: reaper.sweep(reaper.LEASES).lapsed)
    assert call_of(run).worker == "one"
    reaper.end_leases("one")
    server.will_say("Delivered.")
    go_on(run)
    assert run.status == "succeeded"
    assert len(server.ledger("deliveries")) == 1


@pytest.mark.usefixtures("soon_over")
def test_told_to_run_it_again_its_tool_is_asked_once_more(begin, server, bob):
    """What was on its way when a person looked is there by the time the run goes on."""
    server.will_call("c1", "deliver", text="the tickets")
    server.ledger_fault("slow", seconds=3)
    server.will_say("Delivered.")
    run = begin()
    runner.work(run.pk, worker="one")
    asked = asked_of(run)
    assert server.ledger("deliveries") == []
    decide.approve(asked, seen=asked.as_shown(), by=bob)
    wait_until(partial(server.ledger, "deliveries"))
    go_on(run)
    assert (run.status, call_of(run).status) == ("succeeded", "succeeded")
    assert len(server.ledger("deliveries")) == 1


@pytest.mark.parametrize("happened", [True, False])
def test_a_fork_knows_of_the_sources_call_that_was_in_doubt(
    begin, work, server, alice, bob, happened
):
    server.will_call("c1", "send", text="the tickets")
    server.ledger_fault("drop_after")
    run = begin()
    work()
    asked = asked_of(run)
    server.will_say("Sent.")
    if happened:
        decide.respond(asked, seen=asked.as_shown(), by=bob, response="It is there.")
        work()
        server.will_say("Sent.")
    at = Checkpoint.objects.get(branch=run.branch_id, step=1)
    branch = start.fork_run(at, edits=ForkEdits(), name="again", by=alice)
    work()
    fork = Run.objects.get(branch=branch)
    if happened:  # as a recorded result
        assert fork.status == "succeeded"
        assert call_of(fork).recorded_from_id == call_of(run).pk
        assert "It is there." in server.requests[-1]["messages"][-1]["content"]
    else:
        (ours,) = pending(fork)
        shown = page(bob, f"/inbox/{ours.pk}/")
        assert "the same call of the source may have happened" in shown
    assert len(server.ledger("emails")) == 1
