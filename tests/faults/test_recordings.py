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
from agents.models import Approval, Run, ToolCall
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

Change = tuple[str, dict[str, Any]]  # a tool, and its arguments

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
            made = decide.approve(approval, seen=approval.as_shown(), by=alice)
            memory.decided.add(made.pk)
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
        _each_change_was_approved_and_took_place_once(talk, server.ledger("airline"))
    changed = ToolCall.objects.filter(tool__in=_changes()).count()
    assert changed == sum(len(_recorded_calls(talk, changes=True)) for talk in talks)
    assert {effect["key"] for effect in server.ledger()} == {
        str(key) for key in Approval.objects.values_list("call", flat=True)
    }  # nothing took place that nobody was asked about, nothing was asked about in vain
    assert len(memory.decided) == changed > 10
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


def _recorded_calls(talk: Talk, *, changes: bool) -> list[Change]:
    """The calls of the recording, in its order: those with effects, or the others."""
    made = [call for message in talk.recorded for call in _words(message)[2]]
    return [call for call in made if (call[0] in _changes()) is changes]


def _changes() -> set[str]:
    """The tools with effects, once the fixture has set what their module reads."""
    from tests.faults.airline.agents import CHANGES

    return CHANGES


def _each_change_was_approved_and_took_place_once(
    talk: Talk, ledger: list[dict[str, Any]]
) -> None:
    """A person was asked about each write of the recording, once, said yes, once, and
    then it took place, once; nobody was asked about a read."""
    calls = ToolCall.objects.filter(branch=talk.branch)
    calls = calls.order_by("reply__step", "ordinal")
    took_place: list[Change] = []
    for call in calls.filter(tool__in=_changes()):
        asked = Approval.objects.get(call=call)
        decision = asked.decisions.get()
        assert (asked.kind, asked.status, asked.revision) == ("approval", "approved", 1)
        assert (decision.verdict, decision.revision) == ("approve", 1)
        assert call.status == "succeeded"
        received = [effect for effect in ledger if effect["key"] == str(call.pk)]
        [effect] = [effect for effect in received if effect["applied"]]
        assert min(each["at"] for each in received) > decision.at.timestamp()
        took_place.append((effect["body"]["tool"], effect["body"]["arguments"]))
    assert took_place == _recorded_calls(talk, changes=True)
    reads = calls.exclude(tool__in=_changes())
    assert not Approval.objects.filter(call__in=reads).exists()
    assert set(reads.values_list("status", flat=True)) <= {"succeeded"}
    names = [name for name, _ in _recorded_calls(talk, changes=False)]
    assert list(reads.values_list("tool", flat=True)) == names


def _attempts() -> int:
    most = Run.objects.filter(status__in=Run.LIVE).aggregate(n=Max("attempts"))
    return most["n"] or 0
