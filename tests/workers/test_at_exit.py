"""An agent whose run stores one checkpoint, when a worker lets it go."""

from __future__ import annotations

import time
from decimal import Decimal
from threading import Thread

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from agents.errors import BadDeclaration
from agents.models import Run, ToolCall
from agents.runs import runner, start
from agents.runs.aside import left_behind
from agents.tools import Agent, ask, never, tool
from checkpoints.access import Reason, unscoped
from checkpoints.models import Checkpoint
from tests.conftest import as_owner
from tests.workers.conftest import ended, kinds, wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def brief(alice, name: str = "brief") -> Run:
    return start.start_run(agent=f"test-{name}", message="Find it.", by=alice)


def script(server) -> None:
    server.reset()
    server.will_call("c1", "look", what="the desk")
    server.will_call_all(("c2", "search", {"what": "it"}), ("c3", "explode", {}))
    server.will_say("It is there.")


def without_ids(state) -> list[dict[str, object]]:
    return [
        {name: value for name, value in message.items() if name != "id"}
        for message in state["messages"]
    ]


def test_all_that_was_done_is_one_checkpoint_which_counts_for_all(
    begin, work, server, alice, history
):
    script(server)
    run = brief(alice)
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert kinds(run) == ["input", "model"]
    assert not ToolCall.objects.filter(run=run).exists()
    last = Checkpoint.objects.get(branch=run.branch_id, step=1)
    assert history(run.branch).record(1).label == "It is there."
    said = without_ids(history(run.branch).state_at(1))
    # The same, by an agent that stores each step.
    asked = list(server.requests)
    script(server)
    other = begin("Find it.")
    work()
    other.refresh_from_db()
    assert without_ids(history(other.branch).state_at(6)) == said
    steps = Checkpoint.objects.filter(branch=other.branch_id)
    assert len(server.requests) == len(asked)
    assert run.cost == last.cost == other.cost == Decimal("0.250001")
    assert run.tokens == (last.tokens_in or 0) + (last.tokens_out or 0)
    assert last.tokens_out == sum(
        tokens for tokens in steps.values_list("tokens_out", flat=True) if tokens
    )
    assert run.unpriced == other.unpriced == 3
    assert run.worked.total_seconds() > 0


def test_the_step_says_so(work, server, alice):
    script(server)
    run = brief(alice)
    work()
    client = Client()
    with as_owner():
        client.force_login(User.objects.get(pk=alice.user_id))
    last = Checkpoint.objects.get(branch=run.branch_id, step=1)
    shown = client.get(f"/threads/{run.thread_id}/at/{last.pk}/").content.decode()
    assert "One checkpoint at the end: 5 more steps are stored in this one" in shown


@pytest.mark.parametrize(
    ("name", "error_class"),
    [
        ("brief-few-steps", "too_many_steps"),
        ("brief-circling", "repeats_itself"),
    ],
)
def test_limits_hold_and_what_was_done_until_then_is_kept(
    work, server, alice, history, name, error_class
):
    call = {"name": "look", "arguments": '{"what": "it"}'}
    calls = [{"id": "c", "type": "function", "function": call}]
    server.always({"role": "assistant", "content": None, "tool_calls": calls})
    run = brief(alice, name)
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("failed", error_class)
    assert len(kinds(run)) == 3
    assert kinds(run)[-1] == "error"
    assert run.tokens > 0
    server.reset()
    server.will_say("Enough.")
    again = start.retry(run, by=alice)
    work()
    again.refresh_from_db()
    assert again.status == "succeeded"


def test_a_tool_that_stops_the_run_is_its_last_step(work, server, alice, history):
    server.will_call("c1", "look", what="the desk")
    server.will_call("c2", "give_up")
    run = brief(alice)
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("failed", "tool_stopped")
    assert kinds(run) == ["input", "error"]
    messages = history(run.branch).state_at(1)["messages"]
    assert [message["role"] for message in messages] == [
        *("user", "assistant", "tool", "assistant", "tool")
    ]


def test_it_is_cancelled_while_nothing_is_stored(server, alice):
    server.will_call("c1", "look", what="the desk")
    server.will_call("c2", "wait", seconds=5)
    run = brief(alice)

    def cancel() -> None:
        wait_until(lambda: len(server.requests) == 2)
        with unscoped(Reason.TEST):
            Run.objects.filter(pk=run.pk).update(cancel_requested=True)
        connection.close()

    cancelled = Thread(target=cancel)
    cancelled.start()
    runner.work(run.pk)
    assert left_behind() == 1  # nobody waited for its end
    cancelled.join()
    run.refresh_from_db()
    assert run.status == "cancelled"
    assert kinds(run) == ["input", "model", "error"]


@pytest.mark.slow
def test_a_worker_that_is_killed_loses_all_of_it_and_the_run_starts_over(
    workers, server, alice
):
    server.will_call("c1", "look", what="the desk")
    server.will_call("c2", "wait", seconds=3)
    server.will_say("Done.")
    supervisor = workers.start()
    run = brief(alice)
    wait_until(lambda: len(server.requests) == 2)
    time.sleep(0.2)  # into the call, most often; what is seen is the same before it
    assert workers.kill_child(supervisor)
    wait_until(lambda: ended(run))
    assert run.status == "succeeded"
    assert kinds(run) == ["input", "model"]
    assert len(server.requests) == 5


def harmless() -> str:
    return ""


def test_what_must_be_remembered_or_asked_is_refused():
    plain = tool(effect="read")(harmless)
    Agent("a", model="m", system="s", tools=[plain], checkpoint="exit")
    for wrong in (
        tool(effect="write", approve=never)(harmless),
        tool(effect="external")(harmless),
        ask(title="?")(harmless),
    ):
        with pytest.raises(BadDeclaration, match="harmless"):
            Agent("a", model="m", system="s", tools=[wrong], checkpoint="exit")
    with pytest.raises(BadDeclaration, match="step, exit"):
        Agent("a", model="m", system="s", checkpoint="never")  # type: ignore[arg-type]  # what is refused
    kept = Agent("a", model="m", system="s").spec()
    exits = Agent("a", model="m", system="s", checkpoint="exit").spec()
    assert exits == {**kept, "checkpoint": "exit"}
