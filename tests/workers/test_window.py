"""A run of many steps: what it is sent stays small, and it forgets nothing that it kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents.demo.model import wire
from agents.pure.context import Window
from agents.runs import start
from checkpoints.models import Branch
from tests.workers.conftest import kinds
from tests.workers.desk.agents import patient

pytestmark = pytest.mark.django_db(transaction=True)

STEPS = 1_000
TOKENS = 4_000
FIXED = 2_000  # tokens of what is sent beside messages: prompt, facts, schemas


class Long:
    """A model that keeps one fact, looks up very much, and then says what it knows."""

    def __init__(self, calls: int) -> None:
        self.calls, self.made = calls, 0
        self.summaries = 0
        self.largest = 0  # characters of messages of one call

    def __call__(self, body: dict[str, Any]) -> wire.Message:
        messages = body["messages"]
        self.largest = max(self.largest, len(json.dumps(messages)))
        if not body.get("tools"):
            self.summaries += 1
            return wire.say(f"Summary {self.summaries}: everything looked up was fine.")
        self.made += 1
        if self.made == 1:
            return self._call("remember_fact", name="code", value="4711-b")
        if self.made <= self.calls:
            return self._call("look", what=f"thing {self.made} {'x' * 200}")
        known = json.dumps(messages)
        return wire.say("The code is 4711-b." if "4711-b" in known else "I forgot.")

    def _call(self, tool: str, **arguments: Any) -> wire.Message:
        return wire.use([wire.call(tool, arguments, f"c{self.made}")], None)


def test_a_summary_whose_price_is_not_known_counts_as_one_that_is_not(
    server, work, alice
):
    """So that a limit in dollars is kept, or the run says why it cannot be."""
    server.services.answer = Long(30)
    run = start.start_run(agent=patient.name, message="Look.", by=alice)
    work()
    run.refresh_from_db()
    assert run.status == "succeeded", run.error_class
    made = kinds(run)
    assert made.count("summary") >= 1
    assert run.unpriced == made.count("model") + made.count("summary")


@pytest.mark.slow
@pytest.mark.unmeasured
def test_a_thousand_steps_stay_within_the_budget_and_step_two_is_known_at_the_end(
    server, work, alice, settings, history
):
    settings.MAX_STEPS = 3_000
    model = Long(STEPS // 2)
    server.services.answer = model
    run = start.start_run(agent=patient.name, message="Look it all up.", by=alice)
    work()
    run.refresh_from_db()
    assert run.status == "succeeded", run.error_class

    branch = Branch.objects.get(pk=run.branch_id)
    state = history(branch).state_at(branch.head_step)
    assert state["messages"][-1]["content"] == "The code is 4711-b."
    assert len(state["messages"]) == STEPS + 2  # all that was said is there

    made = kinds(run)
    assert len(made) > STEPS
    assert made.count("summary") == model.summaries > 20
    assert model.largest / 4 < TOKENS + FIXED
    assert patient.window == Window(tokens=TOKENS)
