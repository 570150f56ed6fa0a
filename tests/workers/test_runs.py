"""A run from a message to an answer, through the people it asks."""

from __future__ import annotations

import json
from threading import Thread
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import connection

from agents.approvals import decide
from agents.errors import BranchBusy, InvalidDecision
from agents.models import Agent, Approval, Run, ToolCall
from agents.pure.step import Failure
from agents.runs import finish, runner, start, stop
from agents.runs.claim import claim
from agents.runs.edits import ForkEdits
from checkpoints.errors import NotPermitted
from checkpoints.log import rules
from checkpoints.log.append import writer
from checkpoints.models import Branch, Checkpoint, RetentionPolicy, ThreadInput
from tests.conftest import as_owner
from tests.workers.conftest import kinds, pending, wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_run_looks_books_and_answers(begin, work, server):
    server.will_call("c1", "look", what="LIS to NYC")
    server.will_call("c2", "book", item="TP 209", price="700")
    server.will_say("Booked.")
    run = begin()
    work()
    run.refresh_from_db()
    assert run.status == "succeeded", run.error_class
    assert kinds(run) == ["input", "model", "tool", "model", "tool", "model"]
    assert [effect["body"] for effect in server.ledger()] == [
        {"item": "TP 209", "price": "700"}
    ]
    assert run.steps == 5
    assert run.branch.holder is None


def test_a_risky_call_waits_for_a_person_and_then_runs(begin, work, server, bob):
    server.will_call("c1", "book", item="TP 209", price="1200")
    server.will_say("Booked.")
    run = begin()
    work()
    run.refresh_from_db()
    assert run.status == "waiting"
    assert server.ledger() == []
    (approval,) = pending(run)
    assert approval.rule == "over 1,000"
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    run.refresh_from_db()
    assert run.status == "ready"
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert kinds(run) == ["input", "model", "interrupt", "decision", "tool", "model"]
    assert len(server.ledger()) == 1


def test_edited_arguments_run_and_the_agent_is_told(begin, work, server, bob):
    server.will_call("c1", "book", item="TP 209", price="1200")
    server.will_say("Booked.")
    run = begin()
    work()
    (approval,) = pending(run)
    edited = {"item": "TP 211", "price": "1100"}
    decide.edit(approval, seen=approval.as_shown(), by=bob, arguments=edited)
    work()
    assert [effect["body"] for effect in server.ledger()] == [edited]
    said = server.requests[-1]["messages"][-1]["content"]
    assert said.startswith("A person changed the arguments")
    assert "TP 211" in said


def test_a_rejection_reaches_the_agent_with_its_reason(begin, work, server, bob):
    server.will_call("c1", "book", item="TP 209", price="1200")
    server.will_say("Not booked.")
    run = begin()
    work()
    (approval,) = pending(run)
    decide.reject(approval, seen=approval.as_shown(), by=bob, reason="too dear")
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert server.ledger() == []
    assert "too dear" in server.requests[-1]["messages"][-1]["content"]
    assert ToolCall.objects.get(run=run).status == "rejected"


def test_an_answer_to_a_question_is_the_calls_result(begin, work, server, bob):
    server.will_call("c1", "question", question="Window or aisle?")
    server.will_say("Window it is.")
    run = begin()
    work()
    (approval,) = pending(run)
    assert approval.kind == Approval.Kind.QUESTION
    decide.respond(approval, seen=approval.as_shown(), by=bob, response="Window")
    work()
    assert server.requests[-1]["messages"][-1]["content"] == "Window"


def test_an_answer_in_fields_reaches_the_agent_with_its_types(begin, work, server, bob):
    server.will_call("c1", "plan", question="When?")
    server.will_say("So be it.")
    run = begin()
    work()
    (approval,) = pending(run)
    seen = approval.as_shown()
    trip = {"leaves": "2026-12-01", "bags": 2, "budget": 900, "seat": "aisle"}
    for wrong, fields in (
        ("On Monday.", ["response"]),
        ({"leaves": "Monday", "bags": "2"}, ["/leaves", "/bags", "/seat"]),
        (trip | {"meal": "none"}, ["/meal"]),
    ):
        with pytest.raises(InvalidDecision) as refused:
            decide.respond(approval, seen=seen, by=bob, response=wrong)
        assert sorted(refused.value.fields) == sorted(fields)
    decide.respond(approval, seen=seen, by=bob, response=trip)
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    told = server.requests[-1]["messages"][-1]["content"]
    assert json.loads(told) == trip | {"budget": "900"}  # exact numbers are text


def test_of_several_calls_those_that_may_run_do_and_the_rest_is_asked_once(
    begin, work, server, bob
):
    server.will_call_all(
        ("c1", "book", {"item": "hotel", "price": "1500"}),
        ("c2", "look", {"what": "the weather"}),
        ("c3", "book", {"item": "flight", "price": "1600"}),
    )
    server.will_say("Done.")
    run = begin()
    work()
    assert kinds(run) == ["input", "model", "tool", "interrupt"]
    first, second = pending(run)
    decide.approve(second, seen=second.as_shown(), by=bob)
    work()
    run.refresh_from_db()
    assert run.status == "waiting"  # one is still open: nothing ran
    assert server.ledger() == []
    decide.reject(first, seen=first.as_shown(), by=bob, reason="no")
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert [effect["body"]["item"] for effect in server.ledger()] == ["flight"]
    results = [m for m in server.requests[-1]["messages"] if m["role"] == "tool"]
    assert [m["tool_call_id"] for m in results] == ["c1", "c2", "c3"]


def test_a_tool_that_raises_and_one_that_is_unknown_are_results_for_the_model(
    begin, work, server
):
    server.will_call_all(("c1", "explode", {}), ("c2", "teleport", {"to": "NYC"}))
    server.will_say("Sorry.")
    run = begin()
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    told = [
        m["content"] for m in server.requests[-1]["messages"] if m["role"] == "tool"
    ]
    assert "the boiler burst" in told[0]
    assert "teleport" in told[1]


@pytest.mark.parametrize("name", ["functions.look", "Buche Flüge", "x" * 80, "\0"])
def test_a_name_that_no_tool_can_have_goes_back_to_the_model(begin, work, server, name):
    """Its server would refuse the conversation with it in it, for ever."""
    server.will_call("c1", name, what="it")
    server.will_say("Sorry.")
    run = begin()
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("succeeded", "")
    assert "There is no tool" in server.requests[-1]["messages"][-1]["content"]
    assert ToolCall.objects.get(run=run).error_class == "unknown_tool"


def test_arguments_that_do_not_fit_go_back_to_the_model(begin, work, server):
    server.will_call("c1", "book", item="TP 209")
    server.will_say("Sorry.")
    run = begin()
    work()
    assert "price" in server.requests[-1]["messages"][-1]["content"]
    assert ToolCall.objects.get(run=run).error_class == "arguments_do_not_fit"


def test_a_tool_can_stop_the_run_which_can_be_tried_again(begin, work, server, alice):
    server.will_call("c1", "give_up")
    run = begin()
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("failed", "tool_stopped")
    assert kinds(run)[-1] == "error"
    server.will_say("Another airline, then.")
    again = start.retry(run, by=alice)
    work()
    again.refresh_from_db()
    assert again.status == "succeeded"
    assert again.retry_of == run


def test_a_model_server_that_is_down_fails_the_run_with_a_reason(
    begin, work, server, alice
):
    server.fault("500", times=None)
    run = begin()
    work()
    run.refresh_from_db()
    assert run.status == "failed"
    assert run.error_class in {"model_error", "model_unreachable"}
    server.reset()
    server.will_say("Here I am.")
    again = start.retry(run, by=alice)
    work()
    again.refresh_from_db()
    assert again.status == "succeeded"


def test_a_run_that_never_ends_is_stopped_at_its_limit(begin, work, server, settings):
    settings.MAX_STEPS = 6
    server.always({"role": "assistant", "content": None, "tool_calls": [_look()]})
    run = begin()
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("failed", "too_many_steps")


def test_a_message_to_a_finished_branch_starts_the_next_run(begin, work, server, bob):
    server.will_say("Hello.")
    run = begin()
    work()
    server.will_say("Again.")
    start.send_message(run.branch, message="And now?", by=bob)
    work()
    runs = Run.objects.filter(thread=run.thread).order_by("created_at")
    assert [found.status for found in runs] == ["succeeded", "succeeded"]
    assert kinds(run) == ["input", "model", "input", "model"]
    assert server.requests[-1]["messages"][-1]["content"] == "And now?"


def test_a_message_that_comes_while_a_run_fails_is_answered(begin, work, server, bob):
    run = begin()
    held = claim(run.pk, "w")
    assert held is not None  # nobody else works here
    start.send_message(run.branch, message="And now?", by=bob)
    failure = Failure("model_error", "The model is down.")
    finish.fail(held, failure, lambda: writer(held.branch), answer_next=True)
    server.will_say("Here I am.")
    work()
    runs = Run.objects.filter(thread=run.thread).order_by("created_at")
    assert [found.status for found in runs] == ["failed", "succeeded"]
    assert not ThreadInput.objects.undelivered().exists()
    assert server.requests[-1]["messages"][-1]["content"] == "And now?"


def test_a_run_that_is_being_cancelled_takes_no_message(begin, work, server, bob):
    run = begin()
    claim(run.pk, "w")
    assert stop.cancel(run, by=bob)
    with pytest.raises(BranchBusy, match="being cancelled"):
        start.send_message(run.branch, message="And now?", by=bob)
    assert not ThreadInput.objects.exists()


def test_a_request_key_is_good_for_one_person_and_place(
    begin, work, server, alice, bob
):
    key, other = uuid4(), uuid4()
    run = begin(request_key=key, visibility="private")
    start.send_message(run.branch, message="Mine.", by=alice, request_key=other)
    theirs = begin(by=bob)
    with pytest.raises(NotPermitted):
        begin(by=bob, request_key=key)
    with pytest.raises(NotPermitted):
        start.send_message(theirs.branch, message="?", by=bob, request_key=other)
    with pytest.raises(NotPermitted):
        start.send_message(theirs.branch, message="?", by=alice, request_key=other)


def test_a_message_to_a_waiting_run_is_taken_in_when_it_goes_on(
    begin, work, server, bob
):
    server.will_call("c1", "book", item="TP 209", price="1200")
    server.will_say("Booked, and a car.")
    run = begin()
    work()
    start.send_message(run.branch, message="And a car.", by=bob)
    (approval,) = pending(run)
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert kinds(run) == [
        "input",
        "model",
        "interrupt",
        "input",
        "decision",
        "tool",
        "model",
    ]
    roles = [message["role"] for message in server.requests[-1]["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "user"]


def test_a_waiting_run_is_cancelled_at_once_and_its_calls_never_run(
    begin, work, server, bob
):
    server.will_call("c1", "book", item="TP 209", price="1200")
    run = begin()
    work()
    assert stop.cancel(run, by=bob)
    assert not stop.cancel(run, by=bob)
    run.refresh_from_db()
    assert run.status == "cancelled"
    approval = Approval.objects.get(run=run)
    assert approval.status == "cancelled"
    with pytest.raises(decide.AlreadyDecided):
        decide.approve(approval, seen=approval.as_shown(), by=bob)
    server.will_say("Fine, not booked.")
    start.send_message(run.branch, message="Leave it.", by=bob)
    work()
    assert server.ledger() == []
    assert server.requests[-1]["messages"][-2]["role"] == "tool"


def test_a_person_who_leaves_in_the_middle_stops_the_run_before_its_next_step(
    begin, server, alice, bob, work
):
    server.will_call("c1", "look", what="LIS to NYC")
    server.will_say("Found.")
    run = begin()

    def leave() -> None:
        wait_until(lambda: server.requests)
        with as_owner():
            User.objects.filter(pk=alice.user_id).update(is_active=False)
        connection.close()

    server.services.latency = 3.0
    leaving = Thread(target=leave)  # while the model answers
    leaving.start()
    runner.work(run.pk)
    leaving.join()
    server.services.latency = 0.0
    run.refresh_from_db()
    assert (run.status, run.needs_owner) == ("waiting", True)
    assert kinds(run) == ["input", "model"]
    assert start.retry(run, by=bob) == run
    work()
    run = Run.objects.get(pk=run.pk)
    assert (run.status, run.grant.user_id) == ("succeeded", bob.user_id)


def test_nothing_is_done_for_a_person_who_left_a_moment_ago(begin, server, alice):
    server.will_call("c1", "send", text="Hello")
    run = begin()

    def leave() -> bool:
        if kinds(run)[-1] == "model":  # between the reply and the call
            with as_owner():
                User.objects.filter(pk=alice.user_id).update(is_active=False)
        return False

    runner.work(run.pk, stopping=leave)
    run.refresh_from_db()
    assert (run.status, run.needs_owner) == ("waiting", True)
    assert server.ledger() == []


def test_an_agent_that_is_switched_off_takes_up_nothing_more(
    begin, work, server, alice
):
    server.will_call("c1", "give_up")
    run = begin()
    work()
    Agent.objects.update(enabled=False)
    source = Checkpoint.objects.get(branch=run.branch, step=0)
    for ask in (
        lambda: begin(),
        lambda: start.send_message(run.branch, message="Go on.", by=alice),
        lambda: start.retry(run, by=alice),
        lambda: start.fork_run(source, edits=ForkEdits(), name="", by=alice),
    ):
        with pytest.raises(NotPermitted, match="switched off"):
            ask()
    assert Run.objects.count() == Branch.objects.count() == 1


def test_a_repeated_ring_does_nothing(begin, work, server):
    server.will_say("Hello.")
    run = begin()
    for _ in range(3):
        runner.work(run.pk)
    assert kinds(run) == ["input", "model"]
    assert len(server.requests) == 1


def _look() -> dict[str, object]:
    function = {"name": "look", "arguments": '{"what": "again"}'}
    return {"id": "c1", "type": "function", "function": function}


def test_a_call_that_broke_is_made_again_with_the_same_key(begin, work, server, alice):
    server.will_call("c1", "book", item="TP 209", price="100")
    server.will_say("Booked.")
    # The effect takes place, and each time the answer is lost.
    server.ledger_fault("drop_after", times=3)
    run = begin()
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("failed", "tool_broke")
    again = start.retry(run, by=alice)
    work()
    again.refresh_from_db()
    assert again.status == "succeeded"
    assert [effect["applied"] for effect in server.ledger()] == [True, *[False] * 3]
    assert kinds(run) == ["input", "model", "error", "tool", "model"]


def test_after_a_broken_call_a_message_leaves_it_in_doubt(begin, work, server, bob):
    server.will_call("c1", "book", item="TP 209", price="100")
    server.ledger_fault("drop_after", times=3)
    run = begin()
    work()
    received = len(server.ledger())
    server.will_say("I do not know whether it is booked.")
    start.send_message(run.branch, message="Do not book it.", by=bob)
    work()
    assert len(server.ledger()) == received
    told = server.requests[-1]["messages"][-2]
    assert told["role"] == "tool"
    assert "not known" in told["content"]


@pytest.mark.parametrize(
    "caps",
    [
        {},
        {"": 100},
        {"test-desk": 50},
        {"": 100, "test-desk": 50},
        {"": 100, "test-desk": None},
        {"": None, "test-desk": 50},
        {"another": 10},
    ],
)
def test_the_most_steps_that_a_claim_is_told_are_those_of_the_rules(
    begin, workspace, caps
):
    with as_owner():
        for agent, most in caps.items():
            RetentionPolicy.objects.create(
                workspace=workspace, agent=agent, max_steps=most
            )
    run = begin()
    held = claim(run.pk, "w")
    assert held is not None
    assert held.most_steps == rules.most_steps(workspace.pk, "test-desk")
    assert held.most_steps == caps.get("test-desk", caps.get(""))


def test_a_thread_with_all_its_steps_pauses_its_run_and_goes_on_when_more_are_allowed(
    begin, server, work, workspace, alice
):
    with as_owner():
        RetentionPolicy.objects.create(workspace=workspace, max_steps=2)
    server.will_call("c1", "look", what="the weather")
    server.will_say("Fine.")
    run = begin()
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("ready", "thread_full")
    assert kinds(run) == ["input", "model"]
    with as_owner():
        RetentionPolicy.objects.update(max_steps=None)
    start.retry(run, by=alice)
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("succeeded", "")
    assert kinds(run) == ["input", "model", "tool", "model"]
