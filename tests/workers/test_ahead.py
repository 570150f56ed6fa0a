"""The next step begins while the last is being stored: what it must not go by."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from agents.models import Run
from agents.runs import progress, runner, start
from agents.tools import Agent, register, tool
from checkpoints.access import Reason
from checkpoints.models import Membership
from tests.conftest import as_owner
from tests.workers.conftest import kinds

pytestmark = pytest.mark.django_db(transaction=True)

meanwhile: list[Callable[[], object]] = []


@tool(effect="none", title="Ponder for {seconds} s")
def ponder(seconds: float) -> str:
    """Touch nothing; but in the meantime, something happens."""
    if seconds:
        meanwhile.pop()()
        time.sleep(seconds)
    return "hm"


register(Agent("test-ponders", model="scripted", system="Think.", tools=[ponder]))


@pytest.fixture
def run(server, alice, monkeypatch):
    """Its replies are on their way while it ponders."""
    monkeypatch.setattr(progress, "FRESH", 0.5)
    server.will_call("c1", "ponder", seconds=0)
    server.will_call("c2", "ponder", seconds=0.6)
    server.will_say("So be it.")
    return start.start_run(agent="test-ponders", message="Why?", by=alice)


def test_a_message_that_came_while_it_pondered_is_heard_before_it_thinks(
    run: Run, server, alice
):
    meanwhile.append(
        lambda: start.send_message(run.branch, message="Because.", by=alice)
    )
    runner.work(run.pk)
    assert kinds(run) == ["input", *["model", "tool"] * 2, "input", "model"]
    assert server.requests[2]["messages"][-1]["content"] == "Because."


def test_whoever_lost_the_right_while_it_pondered_is_thought_for_no_more(
    run: Run, server, alice
):
    def leave() -> None:
        with as_owner():
            Membership.objects.unscoped(Reason.TEST).filter(
                user_id=alice.user_id
            ).delete()

    meanwhile.append(leave)
    runner.work(run.pk)
    run.refresh_from_db()
    assert (run.status, run.needs_owner) == ("waiting", True)
    assert len(server.requests) == 2
