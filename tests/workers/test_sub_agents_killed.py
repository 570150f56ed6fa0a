"""Sub-agents and workers that die: one child for each call, one answer, and nothing lost.

Each test has one worker process. Whoever waits holds none, so it does them all.
"""

from __future__ import annotations

from typing import Any

import pytest

from agents.models import Run, ToolCall, Worker
from agents.runs import runner, start
from checkpoints.models import EntryLock
from tests.workers.conftest import Workers, ended, kinds, wait_until
from tests.workers.desk.agents import chief, foreman, planner

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

WHOLE = ["input", "model", "interrupt", "tool", "model"]
PLAN = {"namespace": ["trip"], "key": "plan"}


@pytest.fixture
def delegated(server, alice) -> Run:
    """A run whose first call gives the researcher a task. Nobody worked on it yet."""
    server.will_call("c1", "research", task="What does the night train cost?")
    run = start.start_run(agent=planner.name, by=alice, message="Plan a trip.")
    server.will_say("49 euros.")
    server.will_say("Take the train.")
    return run


def told(server: Any) -> list[str]:
    """What the model was last told of its calls, in order."""
    sent = server.requests[-1]["messages"]
    return [each["content"] for each in sent if each["role"] == "tool"]


def once(run: Run, server: Any, point: Any) -> None:
    """The worker died at the point, and all was done as if it had not."""
    assert point.exists()
    assert run.status == "succeeded"
    assert kinds(run) == WHOLE
    child = Run.objects.get(parent=run)
    assert (child.status, kinds(child)) == ("succeeded", ["input", "model"])
    assert told(server) == ["49 euros."]
    call = ToolCall.objects.get(run=run)
    assert (call.status, call.result_checkpoint is not None) == ("succeeded", True)


def work_till_it_dies_and_on(workers: Workers, at: str, folder: Any) -> None:
    workers.start(HOLDPOINT_FAILPOINTS=at, HOLDPOINT_FAILPOINTS_REACHED=str(folder))


@pytest.mark.parametrize(
    "at", ["after claim", "before commit", "before end", "after wake", "before ring"]
)
def test_a_worker_that_dies_while_the_child_ends_loses_no_answer(
    delegated, server, workers, tmp_path, at
):
    runner.work(delegated.pk)
    delegated.refresh_from_db()
    assert delegated.status == "waiting"
    work_till_it_dies_and_on(workers, at, tmp_path)
    wait_until(lambda: ended(delegated))
    once(delegated, server, tmp_path / at)


@pytest.mark.parametrize(
    "at", ["after claim", "before step", "before commit", "after commit", "before end"]
)
def test_a_worker_that_dies_as_the_caller_goes_on_tells_the_answer_once(
    delegated, server, workers, tmp_path, at
):
    runner.work(delegated.pk)
    runner.work(Run.objects.get(parent=delegated).pk)
    delegated.refresh_from_db()
    assert delegated.status == "ready"
    work_till_it_dies_and_on(workers, at, tmp_path)
    wait_until(lambda: ended(delegated))
    once(delegated, server, tmp_path / at)


def test_one_worker_does_a_line_of_three_agents_of_which_two_wait(
    server, alice, workers
):
    server.will_call("c1", "foreman", task="Have it found out.")
    server.will_call("f1", "scout", task="Find it out.")
    server.will_say("49 euros.")
    server.will_say("It is 49 euros.")
    server.will_say("Take the train.")
    run = start.start_run(agent=chief.name, message="Plan a trip.", by=alice)
    workers.start()
    wait_until(lambda: ended(run))
    runs = Run.objects.order_by("created_at")
    assert [each.status for each in runs] == ["succeeded"] * 3
    assert [kinds(each) for each in runs] == [WHOLE, WHOLE, ["input", "model"]]
    assert told(server) == ["It is 49 euros."]
    assert Worker.objects.count() == 1


def test_one_worker_is_not_held_up_by_a_lock_that_a_waiting_run_holds(
    server, alice, workers
):
    """The holder waits for an agent that is refused the lock: nobody waits for ever."""
    server.will_call("f1", "board_lock", **PLAN)
    server.will_call("f2", "scout", task="Write the plan down.")
    server.will_call("s1", "board_lock", **PLAN)
    server.will_call("s2", "board_write", **PLAN, value="by air")
    server.will_say("It is locked.")
    server.will_call("f3", "board_write", **PLAN, value="by train", fence=1)
    server.will_say("Done.")
    run = start.start_run(agent=foreman.name, message="Plan a trip.", by=alice)
    workers.start()
    wait_until(lambda: ended(run))
    assert run.status == "succeeded"
    assert told(server)[1:] == ["It is locked.", "Written, as version 1."]
    of_scout = [each["messages"][-1]["content"] for each in server.requests[3:5]]
    for said in of_scout:
        assert f"locked by run {str(run.pk)[-4:]} until" in said
    assert EntryLock.objects.get().fence == 1
    assert Worker.objects.count() == 1
