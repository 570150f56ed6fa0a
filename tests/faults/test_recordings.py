"""Recorded conversations of an airline's agent, held again: the same words to the end."""

from __future__ import annotations

import json
import os
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.db.models import Max

from agents.approvals import decide
from agents.demo.model import wire
from agents.demo.model.errors import ApiError
from agents.demo.model.recorded import Recordings
from agents.models import Approval, Run
from agents.runs import start
from checkpoints.models import Branch, Checkpoint
from tests.faults import judge
from tests.faults.conftest import Nursery
from tests.workers.conftest import PATIENCE, surroundings

AIRLINE = Path(__file__).parents[3] / "shared" / "data" / "airline"

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.unmeasured,
    pytest.mark.skipif(not AIRLINE.is_dir(), reason="the recordings are not here"),
]

BETWEEN = 8  # steps, about, between two kills
OVER = "The recording ends here."  # two end with a result that nobody answered


@dataclass
class Talk:
    """One recording, and how far it got as a thread."""

    recorded: list[wire.Message]
    said: list[str] = field(default_factory=list)  # by the person, still to be sent
    branch: Branch | None = None
    run: Run | None = None

    @property
    def is_over(self) -> bool:
        if self.run is None:
            return False
        self.run.refresh_from_db()
        return not self.run.is_live and not self.said


def _talk(path: Path) -> Talk:
    recorded = json.loads(path.read_text())["messages"][1:]
    while recorded[-1]["role"] == "user":
        recorded.pop()  # "###STOP###": nobody answered
    return Talk(
        recorded, [each["content"] for each in recorded if each["role"] == "user"]
    )


@pytest.fixture
def nursery(transactional_db, server, settings, tmp_path):
    env = surroundings(settings, server) | {
        "HOLDPOINT_APPS": "tests.workers.desk,tests.faults.airline",
        "AIRLINE_RECORDINGS": str(AIRLINE),
    }
    running = Nursery(env, tmp_path / "journal")
    yield running
    running.stop()


@pytest.fixture
def airline(server) -> str:
    """The agent's name, known to this process, too; the model says what it once said."""
    os.environ.setdefault("AIRLINE_RECORDINGS", str(AIRLINE))
    from tests.faults.airline.agents import airline as agent

    recordings = Recordings.load(AIRLINE)

    def answer(body: dict[str, Any]) -> wire.Message:
        try:
            return recordings.reply(body)
        except ApiError:
            return wire.say(OVER)

    server.services.answer = answer
    return agent.name


@pytest.mark.parametrize("kills", [False, True], ids=["in peace", "killed at random"])
def test_recorded_conversations_end_as_they_were_recorded(
    nursery, airline, server, alice, history, kills
):
    talks = [_talk(path) for path in sorted(AIRLINE.glob("*.json"))]
    assert len(talks) == 12
    supervisor = nursery.start(2)
    dice = random.Random(0)
    memory = judge.Memory()
    deadline, killed, due = time.monotonic() + 5 * PATIENCE, 0, 0
    while not all(talk.is_over for talk in talks):
        assert time.monotonic() < deadline, "the conversations take too long"
        for talk in talks:
            _go_on(talk, airline, alice)
        for approval in Approval.objects.pending():
            decide.approve(approval, seen=approval.as_shown(), by=alice)
        if kills and Checkpoint.objects.count() > due and _attempts() < 3:
            time.sleep(dice.uniform(0, 0.1))  # anywhere in a step
            killed += nursery.kill_child(supervisor)
            due = Checkpoint.objects.count() + dice.randint(0, 2 * BETWEEN)
        time.sleep(0.05)
    for talk in talks:
        assert talk.run is not None
        assert talk.run.status == "succeeded"
        assert talk.branch is not None
        talk.branch.refresh_from_db()
        state = history(talk.branch).state_at(talk.branch.head_step)
        held = [_words(message) for message in state["messages"]]
        recorded = [_words(message) for message in talk.recorded]
        assert held[: len(recorded)] == recorded
        assert [words[1] for words in held[len(recorded) :]] in ([], [OVER])
    changes = [effect for effect in server.ledger("airline") if effect["applied"]]
    assert len(changes) == _recorded_changes(talks)
    assert killed > 10 or not kills
    assert judge.findings(ledger=server.ledger(), log=nursery.log, memory=memory) == []


def _go_on(talk: Talk, agent: str, by: Any) -> None:
    """The person's next words, once the agent has answered the last."""
    if talk.run is None:
        talk.run = start.start_run(agent=agent, message=talk.said.pop(0), by=by)
        talk.branch = talk.run.branch
        return
    talk.run.refresh_from_db()
    if talk.run.is_live or not talk.said:
        return
    assert talk.branch is not None
    start.send_message(talk.branch, message=talk.said.pop(0), by=by)
    talk.run = Run.objects.filter(branch=talk.branch).latest("created_at")


def _words(message: dict[str, Any]) -> tuple[Any, ...]:
    """What was said, without our ids."""
    calls = [
        (made["function"]["name"], json.loads(made["function"]["arguments"]))
        for made in message.get("tool_calls") or []
    ]
    return message["role"], (message.get("content") or "").strip(), calls


def _recorded_changes(talks: list[Talk]) -> int:
    from tests.faults.airline.agents import CHANGES

    return sum(
        made["function"]["name"] in CHANGES
        for talk in talks
        for message in talk.recorded
        for made in message.get("tool_calls") or []
    )


def _attempts() -> int:
    most = Run.objects.filter(status__in=Run.LIVE).aggregate(n=Max("attempts"))
    return most["n"] or 0
