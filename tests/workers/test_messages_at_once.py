"""Many messages to one branch: all are kept, in one order, each once on every page."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection

from agents import models
from agents.approvals import decide
from agents.errors import AlreadyDecided, BadDeclaration, BranchBusy
from agents.models import Approval, Run, ToolCall
from agents.pages.thread.rights import composer
from agents.pages.thread.subject import load, queued
from agents.runs import finish, reaper, runner, start, stop
from agents.runs.claim import claim
from agents.runs.heartbeat import Heartbeat
from agents.runs.progress import Progress
from agents.tools import Agent
from checkpoints import gate
from checkpoints.access import Reason, unscoped
from checkpoints.log import hydrate
from checkpoints.log.append import writer
from checkpoints.models import Branch, ThreadInput
from tests.elsewhere import Elsewhere
from tests.workers.conftest import ended, kinds, pending

pytestmark = pytest.mark.django_db(transaction=True)

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def said(by: Any, branch: Branch) -> list[str]:
    """What people said, as the state has it."""
    seen = gate.admit(by, purpose="test", threads=[branch.thread])
    branch.refresh_from_db()
    messages = hydrate.state(seen, branch, step=branch.head_step)["messages"]
    return [each["content"] for each in messages if each["role"] == "user"]


def visibly(act: Callable[[], object]) -> None:
    """In a thread of its own."""
    with unscoped(Reason.TEST):
        act()


def test_a_message_that_becomes_a_step_while_a_page_is_made_is_on_it_once(
    begin, work, server, alice
):
    server.will_say("Hello.")
    run = begin()
    work()
    start.send_message(run.branch, message="And now?", by=alice)
    subject = load(alice, run.thread_id)
    server.will_say("Again.")
    work()
    assert [step.label for step in subject.steps].count("Alice: And now?") == 0
    assert queued(subject) == ["And now?"]
    later = load(alice, run.thread_id)
    assert [step.label for step in later.steps].count("Alice: And now?") == 1
    assert queued(later) == []


def test_nor_twice_where_it_becomes_one_after_the_page_has_read_the_branches(
    begin, work, server, alice
):
    server.will_say("Hello.")
    run = begin()
    work()
    start.send_message(run.branch, message="And now?", by=alice)
    server.will_say("Again.")
    meanwhile: list[object] = []

    def worked(execute, sql, params, many, context):
        found = execute(sql, params, many, context)
        if 'FROM "agents_run"' in str(sql) and not meanwhile:
            meanwhile.append(Elsewhere(lambda: visibly(work)).result())
        return found

    with connection.execute_wrapper(worked):
        subject = load(alice, run.thread_id)
        shown = [step.label for step in subject.steps]
        waiting = queued(subject)
    assert meanwhile
    assert len(shown) == subject.branch.head_step + 1
    assert (shown.count("Alice: And now?"), waiting) == (0, ["And now?"])


def test_a_clock_that_is_set_back_does_not_change_the_order(
    begin, work, server, alice, bob
):
    server.will_say("Hello.")
    run = begin()
    first = start.send_message(run.branch, message="One.", by=alice)
    start.send_message(run.branch, message="Two.", by=bob)
    ThreadInput.objects.filter(pk=first.pk).update(
        created_at=first.created_at.replace(year=2099)
    )
    work()
    assert said(alice, run.branch) == ["Book it.", "One.", "Two."]


def test_an_agent_is_one_of_three_kinds_of_busy():
    with pytest.raises(BadDeclaration, match="busy='polite' is none of enqueue"):
        Agent("shy", model="m", system="", busy="polite")  # type: ignore[arg-type]
    eager = Agent("shy", model="m", system="")
    shy = Agent("shy", model="m", system="", busy="reject")
    assert eager.spec() != shy.spec()


# busy="reject"


def begin_at(agent: str, by: Any, message: str = "Book it.") -> Run:
    return start.start_run(agent=agent, message=message, by=by)


def test_an_agent_that_takes_no_messages_says_so_and_keeps_none(
    server, work, alice, bob
):
    server.will_call("c1", "book", item="TP 209", price="1200")
    server.will_say("Booked.")
    run = begin_at("test-reject", alice)
    for state in ("ready", "waiting"):
        with pytest.raises(BranchBusy, match=f"its run here is {state}. Wait until"):
            start.send_message(run.branch, message="Faster.", by=bob)
        shown = composer(load(bob, run.thread_id), [])
        assert shown is not None
        assert not shown.allowed
        work()
    assert not ThreadInput.objects.exists()
    (approval,) = pending(run)
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    work()
    assert ended(run)
    server.will_say("Yes?")
    start.send_message(run.branch, message="Thanks.", by=bob)
    work()
    assert said(bob, run.branch) == ["Book it.", "Thanks."]


# busy="interrupt"


def test_a_message_stops_a_run_that_waits_and_is_answered(server, work, alice, bob):
    server.will_call("c1", "book", item="TP 209", price="1200")
    run = begin_at("test-interrupt", alice)
    work()
    (approval,) = pending(run)
    start.send_message(run.branch, message="No, a train.", by=bob)
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("cancelled", "interrupted")
    with pytest.raises(AlreadyDecided):
        decide.approve(approval, seen=approval.as_shown(), by=bob)
    server.will_say("A train it is.")
    work()
    assert Approval.objects.pending().count() == 0
    last = Run.objects.filter(branch=run.branch).latest("created_at")
    assert (last.status, last.started_by_id) == ("succeeded", bob.user_id)
    assert said(bob, run.branch) == ["Book it.", "No, a train."]
    assert server.ledger() == []


def test_a_message_stops_a_run_at_work_and_the_next_answers_all_that_came(
    server, work, alice, bob
):
    run = begin_at("test-interrupt", alice)
    held = claim(run.pk, "w")
    assert held is not None
    for text in ("Stop.", "A train.", "And a bed."):
        start.send_message(run.branch, message=text, by=bob)
    assert Run.objects.count() == 1  # it stops between its steps
    run.refresh_from_db()
    assert (run.cancel_requested, run.interrupted) == (True, True)
    finish.cancel(held, writer(held.branch))
    server.will_say("All three.")
    work()
    runs = Run.objects.filter(branch=run.branch).order_by("created_at")
    assert [each.status for each in runs] == ["cancelled", "succeeded"]
    assert [each.error_class for each in runs] == ["interrupted", ""]
    assert said(bob, run.branch) == ["Book it.", "Stop.", "A train.", "And a bed."]
    assert kinds(run) == ["input", "error", *["input"] * 3, "model"]


def test_who_cancels_an_interrupted_run_stops_what_would_follow(
    server, work, alice, bob
):
    run = begin_at("test-interrupt", alice)
    held = claim(run.pk, "w")
    assert held is not None
    start.send_message(run.branch, message="Wait.", by=bob)
    assert stop.cancel(run, by=alice)
    finish.cancel(held, writer(held.branch))
    assert Run.objects.count() == 1
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("cancelled", "cancelled")
    assert ThreadInput.objects.undelivered().count() == 1  # kept for the next run
    server.will_say("Here.")
    start.send_message(run.branch, message="Go on.", by=alice)
    work()
    assert said(bob, run.branch) == ["Book it.", "Wait.", "Go on."]


def test_messages_that_an_interrupted_run_has_taken_in_are_answered(
    server, work, alice, bob
):
    """The second comes after the worker saw that nobody had, and before it reads them."""
    server.will_say("Hello.")
    run = begin_at("test-interrupt", alice)
    work()
    start.send_message(run.branch, message="A train.", by=alice)
    second = Run.objects.get(branch=run.branch, status="ready")
    held = claim(second.pk, "w")
    assert held is not None
    with Heartbeat(held) as heart:
        start.send_message(run.branch, message="No, a bus.", by=bob)
        runner.Runner(held, Progress(held), lambda: False).go(heart)
    assert not ThreadInput.objects.undelivered().exists()
    server.will_say("A bus.")
    work()
    runs = Run.objects.filter(branch=run.branch).order_by("created_at")
    assert [each.status for each in runs] == ["succeeded", "cancelled", "succeeded"]
    assert runs[2].started_by_id == bob.user_id
    assert kinds(run)[2:] == ["input", "input", "error", "model"]


@pytest.mark.parametrize("swept", [True, False])
def test_a_message_is_answered_though_the_worker_that_it_interrupts_dies(
    server, work, alice, bob, swept
):
    run = begin_at("test-interrupt", alice)
    assert claim(run.pk, "w") is not None
    start.send_message(run.branch, message="No, a bus.", by=bob)
    if swept:
        assert reaper.end_leases("w") == 1
    else:  # the next worker is sooner than the reaper
        Branch.objects.filter(pk=run.branch_id).update(lease_until=LONG_AGO)
        runner.work(run.pk)
    server.will_say("A bus.")
    work()
    runs = Run.objects.filter(branch=run.branch).order_by("created_at")
    assert [each.status for each in runs] == ["cancelled", "succeeded"]
    assert said(bob, run.branch) == ["Book it.", "No, a bus."]
    assert len(server.requests) == 1


def test_a_supervisor_without_the_agent_leaves_an_interrupted_run_to_who_has_it(
    server, work, alice, bob
):
    run = begin_at("test-interrupt", alice)
    assert claim(run.pk, "w") is not None
    start.send_message(run.branch, message="No, a bus.", by=bob)
    agent = models.Agent.objects.get(versions__runs=run)
    models.Agent.objects.filter(pk=agent.pk).update(name="not-here")
    assert reaper.end_leases("w") == 1
    run.refresh_from_db()
    assert (run.status, run.cancel_requested) == ("ready", True)
    models.Agent.objects.filter(pk=agent.pk).update(name=agent.name)
    server.will_say("A bus.")
    work()
    runs = Run.objects.filter(branch=run.branch).order_by("created_at")
    assert [each.status for each in runs] == ["cancelled", "succeeded"]


def test_an_interrupted_call_with_effects_is_not_made_again(server, alice, bob):
    """A worker finds the message between two steps; what it did stays done."""
    server.will_call("c1", "look", what="LIS")
    run = begin_at("test-interrupt", alice)
    runner.work(run.pk, stopping=lambda: kinds(run)[-1] == "tool")
    start.send_message(run.branch, message="Enough.", by=bob)
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("cancelled", "interrupted")
    call = ToolCall.objects.get(run=run)
    assert call.status in ("succeeded", "superseded")
