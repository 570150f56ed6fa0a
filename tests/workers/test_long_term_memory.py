"""What agents remember for longer than a thread: once, for whom they act for, and no other."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from agents.approvals import decide
from agents.models import Run, ToolCall
from agents.runs import start
from agents.runs.edits import ForkEdits
from agents.tools import ToolContext
from agents.tools.memory import memory_put
from checkpoints import entries, tokens
from checkpoints.access import Role, RunPrincipal, ServicePrincipal, UserPrincipal
from checkpoints.access import Scope as Token
from checkpoints.entries import Scope
from checkpoints.models import Checkpoint, EntryVersion
from checkpoints.pure.names import name
from tests.conftest import as_owner
from tests.workers.conftest import ended, kinds, pending, wait_until
from tests.workers.desk.agents import rememberer

pytestmark = pytest.mark.django_db(transaction=True)

SEAT = name(["travellers", "marsh"], "seat")
HERS = {"scope": "user", "namespace": ["travellers", "marsh"], "key": "seat"}
OURS = {**HERS, "scope": "workspace"}


@pytest.fixture
def ask(server, alice, work):
    """A run in which the agent makes these calls, one after another, worked on."""

    numbers = count(1)

    def ask(
        *calls: tuple[str, dict[str, Any]], by=alice, waits: bool = False, **more: Any
    ) -> Run:
        for n, (tool, arguments) in enumerate(calls):
            server.will_call(f"c{n}", tool, **arguments)
        if not waits:
            server.will_say("Done.")
        # Another each time: the scripted model knows threads by what they begin with.
        said = f"Request {next(numbers)}."
        run = start.start_run(agent=rememberer.name, by=by, message=said, **more)
        work()
        run.refresh_from_db()
        return run

    return ask


def told(server, back: int = 1) -> str:
    """What the model was last told of a call."""
    return server.requests[-back]["messages"][-1]["content"]


def kept(by, scope=Scope.USER) -> Any:
    found = entries.get(by, scope, SEAT)
    return found and found.value


def versions() -> list[EntryVersion]:
    return list(EntryVersion.objects.order_by("entry", "version"))


def test_what_one_thread_put_another_finds_and_a_version_names_run_and_call(
    ask, server, alice
):
    run = ask(("memory_put", {**HERS, "value": "aisle, never near the galley"}))
    assert told(server) == "Remembered, as version 1."
    (row,) = versions()
    call = ToolCall.objects.get(run=run)
    assert (row.run, row.request_key, row.by) == (run.pk, call.pk, None)
    assert call.result_checkpoint is not None
    assert call.result_checkpoint.step == 2
    ask(("memory_search", {"query": "Marsh's seat", "scope": "user", "namespace": []}))
    (found,) = json.loads(told(server))["found"]
    assert (found["key"], found["version"]) == ("seat", 1)
    assert found["namespace"] == ["travellers", "marsh"]
    ask(("memory_get", HERS))
    assert json.loads(told(server))["value"] == "aisle, never near the galley"
    ask(("memory_forget", HERS), ("memory_get", HERS))
    assert told(server) == "Nothing is remembered under that name."
    assert kept(alice) is None


def test_a_persons_run_does_not_find_what_another_persons_run_put(ask, server, bob):
    ask(("memory_put", {**HERS, "value": "aisle"}))
    ask(
        ("memory_search", {"query": "seat", "scope": "user", "namespace": []}),
        ("memory_get", HERS),
        by=bob,
    )
    assert told(server) == "Nothing is remembered under that name."
    assert json.loads(told(server, 2)) == {"found": []}


def test_who_lost_the_race_is_told_and_may_put_again(ask, server, alice):
    entries.put(alice, Scope.USER, SEAT, "window")
    run = ask(
        ("memory_put", {**HERS, "value": "aisle"}),
        ("memory_put", {**HERS, "value": "aisle", "expected_version": 1}),
    )
    assert "is at version 1, by Alice" in told(server, 2)
    assert told(server) == "Remembered, as version 2."
    assert run.status == "succeeded"
    assert kept(alice) == "aisle"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"namespace": [""], "key": "k", "value": 1}, "1 to 200 characters"),
        ({"namespace": [], "key": "k", "value": "a" * 70_000}, "cannot be kept"),
        ({"namespace": [], "key": "k", "value": 1, "days": 0}, "days"),
        ({"scope": "board", "namespace": [], "key": "k", "value": 1}, "scope"),
    ],
)
def test_what_does_not_fit_is_told_to_the_agent_and_keeps_nothing(
    ask, server, arguments, said
):
    run = ask(("memory_put", {"scope": "user", **arguments}))
    assert said in told(server)
    assert (run.status, versions()) == ("succeeded", [])


def test_a_run_of_a_program_has_the_workspaces_memory_and_nobodys_own(
    ask, server, alice, workspace
):
    admin = UserPrincipal(alice.user_id, workspace.pk, Role.ADMIN, False, "Alice")
    with as_owner():
        token, _ = tokens.make(
            workspace.pk, name="nightly", scopes=[Token.START], lasts=None, by=admin
        )
    program = ServicePrincipal(
        token.pk, workspace.pk, "nightly", frozenset({Token.START})
    )
    entries.put(alice, Scope.WORKSPACE, SEAT, "ours")
    entries.put(alice, Scope.USER, SEAT, "hers")
    ask(("memory_get", HERS), ("memory_get", OURS), by=program, visibility="workspace")
    assert "acts for a program" in told(server, 2)
    assert json.loads(told(server))["value"] == "ours"


# By meaning


def test_where_vectors_are_made_an_agent_finds_by_meaning_and_hears_when_it_did_not(
    ask, server, alice, settings
):
    settings.EMBEDDING_MODEL = "scripted-embedding-1"
    entries.put(alice, Scope.USER, SEAT, "Marsh calls a taxi, never a bus")
    entries.put(alice, Scope.USER, name([], "other"), "two suitcases")
    wanted = {"query": "cab or rail", "scope": "user", "namespace": []}
    ask(("memory_search", wanted))
    answer = json.loads(told(server))
    assert (answer["found"][0]["key"], "note" in answer) == ("seat", False)
    server.embedding_fault("503")
    ask(("memory_search", {**wanted, "query": "suitcases"}))
    answer = json.loads(told(server))
    assert [one["key"] for one in answer["found"]] == ["other"]
    assert "searched by words alone" in answer["note"]
    settings.EMBEDDING_MODEL = None
    ask(("memory_search", wanted))
    assert json.loads(told(server)) == {"found": []}


# Approval


def test_what_is_kept_for_everyone_asks_first_and_is_not_there_before(
    ask, server, work, alice, bob
):
    run = ask(("memory_put", {**OURS, "value": "aisle"}), waits=True)
    (asked,) = pending(run)
    assert (run.status, asked.rule) == ("waiting", "memory of the whole workspace")
    assert kept(alice, Scope.WORKSPACE) is None
    decide.approve(asked, seen=asked.as_shown(), by=bob)
    server.will_say("Done.")
    work()
    assert kept(alice, Scope.WORKSPACE) == "aisle"
    assert kinds(run)[-2:] == ["tool", "model"]


# Exactly once


@pytest.mark.parametrize("point", ["after intent", "after effect"])
def test_a_worker_that_dies_around_a_write_has_written_once(
    workers, server, alice, tmp_path, point
):
    server.will_call("c0", "memory_put", **HERS, value="aisle")
    server.will_say("Done.")
    run = start.start_run(agent=rememberer.name, by=alice, message="Remember it.")
    workers.start(
        2, HOLDPOINT_FAILPOINTS=point, HOLDPOINT_FAILPOINTS_REACHED=str(tmp_path)
    )
    wait_until(lambda: ended(run))
    assert (tmp_path / point).exists()
    assert run.status == "succeeded"
    assert told(server) == "Remembered, as version 1."
    call = ToolCall.objects.get(run=run)
    assert (call.attempts, call.status) == (2, "succeeded")
    assert [row.version for row in versions()] == [1]
    assert kept(alice) == "aisle"


def test_a_second_try_gives_the_firsts_version_though_others_wrote_since(
    ask, server, alice
):
    """A worker froze before it wrote the result, and wakes up when all has gone on."""
    run = ask(("memory_put", {**HERS, "value": "aisle"}))
    entries.put(alice, Scope.USER, SEAT, "window", expected=1)
    call = ToolCall.objects.get(run=run)
    principal = RunPrincipal(run.pk, run.workspace_id, run.thread_id, run.grant_id)
    again = memory_put.execute(
        {**HERS, "value": "aisle"},
        key=str(call.pk),
        context=ToolContext({}, run=principal),
    )
    assert again == "Remembered, as version 1."
    assert kept(alice) == "window"


# Forks


def test_a_fork_gets_the_recorded_result_and_writes_nothing_again(
    ask, server, work, alice
):
    run = ask(("memory_put", {**HERS, "value": "aisle"}))
    entries.delete(alice, Scope.USER, SEAT)
    server.will_call("c0", "memory_put", **HERS, value="aisle")
    server.will_say("Again.")
    first = Checkpoint.objects.get(branch=run.branch, step=0)
    branch = start.fork_run(
        first, edits=ForkEdits(system="Be brief."), name="", by=alice
    )
    work()
    forked = Run.objects.get(branch=branch)
    assert forked.status == "succeeded"
    assert told(server) == "Remembered, as version 1."
    assert ToolCall.objects.filter(run=forked, recorded_from__run=run).exists()
    assert kept(alice) is None
    assert [row.deleted for row in versions()] == [False, True]


def test_a_fork_does_not_see_what_the_other_branch_is_yet_to_save(
    ask, server, work, alice, bob
):
    run = ask(("memory_put", {**OURS, "value": "aisle"}), waits=True)
    (asked,) = pending(run)
    server.will_call("c0", "memory_get", **OURS)
    server.will_say("Nothing there.")
    first = Checkpoint.objects.get(branch=run.branch, step=0)
    start.fork_run(first, edits=ForkEdits(system="Look first."), name="", by=alice)
    work()
    assert told(server) == "Nothing is remembered under that name."
    decide.reject(asked, seen=asked.as_shown(), by=bob, reason="Not for everyone.")
    server.will_say("All right.")
    work()
    assert versions() == []
