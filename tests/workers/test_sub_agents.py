"""An agent as a tool: a run of its own, once for each call, while the caller waits as a row."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from agents.errors import BadDeclaration
from agents.models import Run, ToolCall
from agents.runs import reaper, runner, start, stop
from agents.runs.control import pause, resume, switch
from agents.runs.edits import ForkEdits
from agents.tools import Agent, agent_tool
from agents.tools.registry import Registry
from checkpoints.access import Role
from checkpoints.models import Branch, Checkpoint
from tests.conftest import as_owner
from tests.workers.conftest import ended, kinds, pending, wait_until
from tests.workers.desk.agents import boss, planner, researcher

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

TASK = "What does the night train cost?"


@pytest.fixture
def delegated(server, alice) -> Run:
    """A run whose first call gives the researcher a task. Nobody worked on it yet."""
    server.will_call("c1", "research", task=TASK)
    return start.start_run(agent=planner.name, by=alice, message="Plan a trip.")


def child_of(run: Run) -> Run:
    return Run.objects.get(parent=run)


def told(server: Any) -> Any:
    """What the model was last told of a call."""
    return server.requests[-1]["messages"][-1]["content"]


def waits(run: Run) -> bool:
    run.refresh_from_db()
    return run.status == Run.Status.WAITING


def step(run: Run) -> None:
    """What one worker does with one run."""
    runner.work(run.pk)
    run.refresh_from_db()


def test_the_childs_last_message_is_the_calls_result(delegated, server, alice, work):
    step(delegated)
    assert (delegated.status, delegated.worker) == ("waiting", "")
    assert kinds(delegated) == ["input", "model", "interrupt"]
    child = child_of(delegated)
    call = ToolCall.objects.get(run=delegated)
    assert (child.status, child.parent_call_id) == ("ready", call.pk)
    assert child.thread_id != delegated.thread_id
    assert child.thread.owner_id == delegated.thread.owner_id
    assert child.thread.visibility == delegated.thread.visibility
    assert (child.grant.user_id, child.started_by_id) == (alice.user_id, alice.user_id)
    reaper.sweep()  # it waits for the child, not for nothing
    assert waits(delegated)
    server.will_say("49 euros.")
    step(child)
    assert child.status == "succeeded"
    delegated.refresh_from_db()
    assert delegated.status == "ready"  # in the transaction that ended the child
    server.will_say("Take the train.")
    step(delegated)
    assert delegated.status == "succeeded"
    assert told(server) == "49 euros."
    assert kinds(delegated) == ["input", "model", "interrupt", "tool", "model"]
    assert Run.objects.count() == 2


def test_one_worker_process_does_the_child_while_the_parent_waits(
    delegated, server, workers
):
    server.will_say("49 euros.")
    server.will_say("Take the train.")
    workers.start()
    wait_until(lambda: ended(delegated))
    assert delegated.status == "succeeded"
    assert told(server) == "49 euros."
    assert child_of(delegated).status == "succeeded"


@pytest.mark.parametrize(
    "at", ["before ask", "after child", "after ask", "before end", "before ring"]
)
def test_whatever_dies_the_child_is_started_once(
    delegated, server, workers, tmp_path, at
):
    server.will_say("49 euros.")
    server.will_say("Take the train.")
    workers.start(HOLDPOINT_FAILPOINTS=at, HOLDPOINT_FAILPOINTS_REACHED=str(tmp_path))
    wait_until(lambda: ended(delegated))
    assert delegated.status == "succeeded"
    assert told(server) == "49 euros."
    assert Run.objects.filter(parent=delegated).count() == 1
    assert (tmp_path / at).exists()


def test_a_failure_is_told(delegated, server, work):
    step(delegated)
    child = child_of(delegated)
    server.will_refuse()
    step(child)
    assert child.status == "failed"
    server.will_say("Then nobody knows.")
    step(delegated)
    assert delegated.status == "succeeded"
    assert told(server).startswith("The agent test-researcher failed. ")
    call = ToolCall.objects.get(run=delegated)
    assert (call.status, call.error_class) == ("failed", "sub_agent_failed")


def test_a_child_that_is_cancelled_is_told(delegated, server, alice):
    step(delegated)
    assert stop.cancel(child_of(delegated), by=alice)
    server.will_say("Then nobody knows.")
    step(delegated)
    assert delegated.status == "succeeded"
    assert "it was cancelled" in told(server)


def test_a_child_that_waits_for_a_person_keeps_the_parent_waiting(
    delegated, server, work
):
    step(delegated)
    child = child_of(delegated)
    server.will_call("w", "wire", to="a friend", amount="10", reason="As asked.")
    step(child)
    assert len(pending(child)) == 1
    reaper.sweep()
    work()
    assert waits(delegated)
    assert waits(child)


def test_cancelling_the_parent_cancels_what_it_waits_for(delegated, alice):
    step(delegated)
    child = child_of(delegated)
    assert stop.cancel(delegated, by=alice)
    reaper.sweep()
    child.refresh_from_db()
    assert child.status == "cancelled"
    delegated.refresh_from_db()
    assert delegated.status == "cancelled"


def test_a_pause_of_the_parent_loses_no_answer(delegated, server, alice, work):
    step(delegated)
    assert pause(delegated, by=alice)
    server.will_say("49 euros.")
    work()
    assert child_of(delegated).status == "succeeded"
    server.will_say("Take the train.")
    assert resume(delegated, by=alice)
    work()
    delegated.refresh_from_db()
    assert delegated.status == "succeeded"
    assert told(server) == "49 euros."


def test_an_end_that_woke_nobody_is_made_good_by_the_sweep(delegated, server):
    step(delegated)
    Run.objects.filter(parent=delegated).update(status="cancelled")
    reaper.sweep()
    delegated.refresh_from_db()
    assert delegated.status == "ready"


def test_an_agent_that_is_switched_off_is_not_started(delegated, server, join):
    switch(researcher.name, on=False, by=join("root", Role.ADMIN))
    server.will_say("Then not.")
    step(delegated)
    assert delegated.status == "succeeded"
    assert "is switched off" in told(server)
    assert not Run.objects.filter(parent=delegated).exists()


def test_a_circle_is_refused_with_its_path():
    agents = Registry()
    a = Agent("a", model="m", system="", tools=[agent_tool("b")])
    b = Agent("b", model="m", system="", tools=[agent_tool("a")])
    agents.register(a)
    with pytest.raises(BadDeclaration, match="b → a → b"):
        agents.register(b)


def test_a_circle_that_a_deploy_made_is_refused_at_the_call(delegated, server, deploy):
    deploy(researcher, tools=[agent_tool(planner.name, name="plan")])
    step(delegated)
    child = child_of(delegated)
    server.will_call("p", "plan", task="Plan it.")
    server.will_say("I cannot.")
    step(child)
    assert "test-planner → test-researcher → test-planner" in told(server)
    assert Run.objects.count() == 2


def test_a_fork_after_the_result_starts_no_child_and_a_simulation_none(
    delegated, server, alice, work
):
    server.will_say("49 euros.")
    server.will_say("Take the train.")
    work()
    first = Checkpoint.objects.get(branch=delegated.branch_id, step=0)
    for calls in (Branch.Calls.RECORDED, Branch.Calls.SIMULATE):
        server.reset()
        server.will_call("c1", "research", task=f"{TASK}")
        server.will_say("As before.")
        start.fork_run(first, edits=ForkEdits(), name="again", by=alice, calls=calls)
        work()
        assert told(server) == "49 euros."
    server.reset()
    server.will_call("c1", "research", task="Something else?")
    server.will_say("As if.")
    start.fork_run(
        first, edits=ForkEdits(), name="if", by=alice, calls=Branch.Calls.SIMULATE
    )
    work()
    assert told(server).startswith("Simulated")
    assert Run.objects.exclude(parent=None).count() == 1


def test_the_pages_of_parent_and_child_link_to_each_other(delegated, alice):
    step(delegated)
    child = child_of(delegated)
    client = Client()
    with as_owner():
        client.force_login(User.objects.get(pk=alice.user_id))

    def page(run: Run) -> str:
        address = reverse("agents:thread", args=[run.thread_id])
        return client.get(address).content.decode()

    there = reverse("agents:thread", args=[child.thread_id])
    back = reverse("agents:thread", args=[delegated.thread_id])
    assert f'Waiting for <a href="{there}">test-researcher</a>' in page(delegated)
    assert f'Started by <a href="{back}">test-planner</a>' in page(child)


def test_pages_say_whom_the_parent_waits_for_and_lead_there(delegated, server, alice):
    client = Client()
    with as_owner():
        client.force_login(User.objects.get(pk=alice.user_id))

    def page(address: str) -> str:
        content = client.get(address).content.decode()
        main = content[content.index("<main") :]
        return " ".join(re.sub(r"<(?!a ).*?>", "", main).split())

    step(delegated)
    child = child_of(delegated)
    link = f'<a href="/threads/{child.thread_id}/">test-researcher'
    thread = f"/threads/{delegated.thread_id}/"
    top = client.get(thread).content.decode()
    [chip] = re.findall(r'<a [^>]*id="thread-status"[^>]*>.*?</a>', top)
    assert f'href="/threads/{child.thread_id}/"' in chip
    assert chip.endswith("waiting for test-researcher</a>")
    assert "waiting for a person" not in page(thread)
    assert f"waits for {link}, asked" in page(thread)  # at the end of the steps
    for place in ("/threads/", "/runs/"):
        assert f"waits for {link}" in page(place)
    # The call's card, at the step that asked for it and at the one that waits.
    card = f'href="/threads/{child.thread_id}/">test-researcher is at it'
    for kind in ("model", "interrupt"):
        at = Checkpoint.objects.get(branch=delegated.branch_id, kind=kind)
        assert card in page(f"{thread}at/{at.pk}/")
    server.will_say("49 euros.")
    server.will_say("Take the train.")
    step(child)
    step(delegated)
    at = Checkpoint.objects.get(branch=delegated.branch_id, kind="tool")
    card = f'href="/threads/{child.thread_id}/">thread of test-researcher'
    assert card in page(f"{thread}at/{at.pk}/")
    assert f"{link}" in page(f"{thread}at/{at.pk}/?tab=effects")
    assert "waits for" not in page("/threads/")


def test_of_what_waits_for_a_person_and_an_agent_the_page_says_the_person(
    server, alice
):
    both: list[tuple[str, str, dict[str, Any]]] = [
        ("c1", "research", {"task": TASK}),
        ("c2", "wire", {"to": "a friend", "amount": "10", "reason": "As asked."}),
    ]
    server.will_call_all(*both)
    run = start.start_run(agent=boss.name, by=alice, message="Plan a trip.")
    step(run)
    assert len(pending(run)) == 1
    assert child_of(run).is_live
    client = Client()
    with as_owner():
        client.force_login(User.objects.get(pk=alice.user_id))
    page = client.get(f"/threads/{run.thread_id}/").content.decode()
    assert "waiting for a person" in page
    assert 'id="thread-status" href' not in page
    assert f'Waiting for <a href="/threads/{child_of(run).thread_id}/">' in page


def test_what_children_use_counts_toward_the_parents_limit(delegated, server, work):
    step(delegated)
    child = child_of(delegated)
    server.will_say("49 euros.")
    step(child)
    Run.objects.filter(pk=child.pk).update(tokens=200_000)
    step(delegated)
    assert (delegated.status, delegated.error_class) == ("failed", "too_many_tokens")
