"""Sub-agents work on the board of the run that called them; forks of any on their own."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents.approvals import decide
from agents.demo.model import wire
from agents.models import Run
from agents.runs import start
from agents.runs.edits import ForkEdits
from agents.tools.board import board_of
from checkpoints import entries, entries_care, entry_locks
from checkpoints.access import Board, RunPrincipal, UserPrincipal
from checkpoints.errors import NotPermitted
from checkpoints.models import (
    Branch,
    Checkpoint,
    Deletion,
    Entry,
    EntryLock,
    EntryVersion,
    Thread,
)
from checkpoints.pure.names import name
from tests.conftest import as_owner
from tests.workers.conftest import ended, pending, wait_until
from tests.workers.desk.agents import chief, foreman

pytestmark = pytest.mark.django_db(transaction=True)

PLAN = name(["trip"], "plan")
Call = tuple[str, str, dict[str, Any]]  # id, tool, arguments
AT: dict[str, Any] = {"namespace": ["trip"], "key": "plan"}
MINE = {**AT, "private": True}


@pytest.fixture
def work_at(server, alice, work):
    """A foreman's run, worked on, that puts a plan on the board, has a scout write there
    and then reads it: (its run, the scout's)."""

    def work_at(**more: Any) -> tuple[Run, Run]:
        server.will_call("f1", "board_write", **AT, value="by train")
        server.will_call("f2", "scout", task="Which train?")
        server.will_call("s1", "board_read", **AT)
        server.will_call(
            "s2", "board_write", **AT, value="by night train", expected_version=1
        )
        server.will_call("s3", "board_write", **MINE, value="doubtful")
        server.will_say("The night train.")
        server.will_call("f3", "board_read", **AT)
        server.will_say("Take it.")
        more.setdefault("by", alice)
        start.start_run(agent=foreman.name, message="Plan a trip.", **more)
        work()
        caller = Run.objects.get(parent=None)
        assert caller.status == "succeeded"
        return caller, Run.objects.get(parent=caller)

    return work_at


@pytest.fixture
def ask(server, alice, work):
    """What an agent is told of each of these calls, which it makes on a branch."""

    def ask(
        on: Branch, *calls: tuple[str, dict[str, Any]], by: UserPrincipal = alice
    ) -> list[str]:
        server.reset()
        for n, (tool, arguments) in enumerate(calls):
            server.will_call(f"a{n}", tool, **arguments)
        server.will_say("Done.")
        start.send_message(on, message="Go on.", by=by)
        work()
        return told(server)[-len(calls) :]

    return ask


@pytest.fixture
def fork(server, alice, work):
    """A fork of a run from its first message, that makes these calls; and its results."""

    def fork(run: Run, *calls: tuple[str, dict[str, Any]]) -> tuple[Run, list[str]]:
        server.reset()
        for n, (tool, arguments) in enumerate(calls):
            server.will_call(f"f{n}", tool, **arguments)
        server.will_say("Done, too.")
        first = Checkpoint.objects.get(branch=run.branch, step=0)
        edits = ForkEdits(system="Be brief.")
        branch = start.fork_run(first, edits=edits, name="", by=alice)
        work()
        return Run.objects.get(branch=branch), told(server)[-len(calls) :]

    return fork


def told(server: Any) -> list[str]:
    """What the model was last told of its calls, in order."""
    sent = server.requests[-1]["messages"]
    return [each["content"] for each in sent if each["role"] == "tool"]


def principal(run: Run) -> RunPrincipal:
    """The run, with the board that its tools work on."""
    board = Board(board_of(run), run.branch_id)
    return RunPrincipal(run.pk, run.workspace_id, run.thread_id, run.grant_id, board)


def plan(by: UserPrincipal, board: UUID, line: UUID | None = None) -> Any:
    found = entries.get(by, Board(board, line), PLAN)
    return found and found.value


def browser(by: UserPrincipal) -> Client:
    client = Client()
    with as_owner():
        client.force_login(User.objects.get(pk=by.user_id))
    return client


def board_page(run: Run) -> str:
    return f"/threads/{run.thread_id}/board/?branch={run.branch_id}"


def test_a_sub_agent_reads_and_writes_its_callers_board(work_at, server, alice):
    caller, child = work_at()
    assert child.thread_id != caller.thread_id
    assert board_of(child) == board_of(caller) == caller.branch_id
    read = json.loads(told(server)[-1])
    assert (read["value"], read["version"]) == ("by night train", 2)
    assert read["by"] == f"test-scout, run {str(child.pk)[-4:]}"
    writers = EntryVersion.objects.filter(entry__line=None).order_by("version")
    assert list(writers.values_list("run", flat=True)) == [caller.pk, child.pk]
    # Its private part is on the same board, and of its own branch.
    assert plan(alice, caller.branch_id, child.branch_id) == "doubtful"
    assert plan(alice, caller.branch_id, caller.branch_id) is None
    assert set(Entry.objects.values_list("owner", flat=True)) == {caller.branch_id}


def test_what_a_sub_agent_keeps_for_itself_its_caller_does_not_read(work_at, ask):
    caller, child = work_at()
    [read] = ask(caller.branch, ("board_read", MINE))
    assert read == "Nothing is on the board under that name."
    # What runs on its branch later has it, and the caller's board, still.
    own, shared = ask(child.branch, ("board_read", MINE), ("board_read", AT))
    assert json.loads(own)["value"] == "doubtful"
    assert json.loads(shared)["value"] == "by night train"


def test_three_agents_in_a_line_share_the_firsts_board(server, alice, work):
    server.will_call("c1", "foreman", task="Have it found out.")
    server.will_call("f1", "scout", task="Find it out.")
    server.will_call("s1", "board_write", **AT, value="by train")
    server.will_say("It is there.")
    server.will_call("f2", "board_read", **AT)
    server.will_say("It is there, too.")
    server.will_call("c2", "board_read", **AT)
    server.will_say("Done.")
    first = start.start_run(agent=chief.name, message="Plan it.", by=alice)
    work()
    assert json.loads(told(server)[-1])["value"] == "by train"
    runs = Run.objects.order_by("created_at")
    assert [board_of(run) for run in runs] == [first.branch_id] * 3


def test_sub_agents_that_write_at_once_in_two_processes_write_on_one_board(
    server, alice, workers
):
    both: list[Call] = [
        ("f0", "scout", {"task": "East?"}),
        ("f1", "scout", {"task": "West?"}),
    ]
    read: list[Call] = [("f2", "board_read", AT)]
    server.always(saying(*both), match="Look around", turn=0)
    server.always(saying(*read), match="Look around", turn=1)
    server.always("Done.", match="Look around", turn=2)
    for side in ("East", "West"):
        found: list[Call] = [
            ("s0", "board_write", {"namespace": ["found"], "key": side, "value": side}),
            ("s1", "board_write", {**AT, "value": side}),
        ]
        server.always(saying(*found), match=side, turn=0)
        server.always("Found.", match=side, turn=1)
    run = start.start_run(agent=foreman.name, message="Look around.", by=alice)
    workers.start(2)
    wait_until(lambda: ended(run))
    assert run.status == "succeeded"
    # The plan is of one of them: the other was told that it was late.
    assert plan(alice, run.branch_id) in ("East", "West")
    assert Entry.objects.filter(owner=run.branch_id, line=None).count() == 3
    writers = EntryVersion.objects.values_list("run", flat=True)
    children = Run.objects.filter(parent=run).values_list("pk", flat=True)
    assert len(writers) == 3
    assert set(writers) == set(children)


def saying(*calls: Call) -> dict[str, Any]:
    """A reply with these calls."""
    return wire.use([wire.call(tool, said, id) for id, tool, said in calls], None)


# Locks


def test_a_name_that_the_caller_locked_is_locked_for_its_sub_agent(server, alice, work):
    server.will_call("f1", "board_lock", **AT)
    server.will_call("f2", "scout", task="Write it down.")
    server.will_call("s1", "board_write", **AT, value="by air")
    server.will_say("It is locked.")
    server.will_call("f3", "board_write", **AT, value="by train", fence=1)
    server.will_say("Done.")
    run = start.start_run(agent=foreman.name, message="Plan a trip.", by=alice)
    work()
    said = [each["messages"][-1]["content"] for each in server.requests]
    assert f"locked by run {str(run.pk)[-4:]} until" in said[3]
    assert plan(alice, run.branch_id) == "by train"


# Forks


def test_a_fork_of_a_sub_agents_thread_has_a_board_of_its_own(work_at, fork, alice):
    caller, child = work_at()
    write = ("board_write", {**AT, "value": "by air"})
    forked, [read, mine, wrote] = fork(
        child, ("board_read", AT), ("board_read", MINE), write
    )
    assert read == mine == "Nothing is on the board under that name."
    assert wrote == "Written, as version 1."
    assert forked.thread_id == child.thread_id
    assert board_of(forked) == forked.branch_id
    assert plan(alice, caller.branch_id) == "by night train"
    assert plan(alice, forked.branch_id) == "by air"


def test_a_fork_of_the_caller_and_its_sub_agents_have_a_board_of_their_own(
    work_at, fork, server, alice, bob, work
):
    caller, child = work_at()
    write = ("board_write", {**AT, "value": "by air"})
    forked, _ = fork(caller, write)
    assert board_of(forked) == forked.branch_id
    # A sub-agent that the fork calls anew works on the fork's.
    server.reset()
    server.will_call("g1", "scout", task="And by sea?")
    start.send_message(forked.branch, message="Look again.", by=alice)
    work()
    [asked] = pending(Run.objects.get(branch=forked.branch, status="waiting"))
    decide.approve(asked, seen=asked.as_shown(), by=bob)
    server.will_call("s1", "board_write", **AT, value="by sea", expected_version=1)
    server.will_say("Done.")
    server.will_say("Done, too.")
    work()
    again = Run.objects.exclude(parent=None).exclude(pk=child.pk).get()
    assert board_of(again) == forked.branch_id
    assert plan(alice, forked.branch_id) == "by sea"
    assert plan(alice, caller.branch_id) == "by night train"


# Who sees it


def test_the_page_of_a_sub_agents_board_leads_to_the_one_it_works_on(work_at, alice):
    caller, child = work_at()
    client = browser(alice)
    answer = client.get(board_page(child))
    assert (answer.status_code, answer["Location"]) == (302, board_page(caller))
    shown = client.get(answer["Location"]).content.decode()
    assert "by night train" in shown
    assert f"test-scout, run {str(child.pk)[-4:]}, step " in shown
    assert f"test-scout {str(child.branch_id)[-4:]}, private" in shown


def test_who_sees_the_sub_agents_thread_alone_sees_nothing_of_the_board(
    work_at, ask, alice, bob
):
    caller, child = work_at(visibility=Thread.Visibility.PRIVATE)
    # As its owner shares it, so that others decide what it asks for.
    Thread.objects.filter(pk=child.thread_id).update(
        visibility=Thread.Visibility.WORKSPACE
    )
    assert browser(bob).get(f"/threads/{child.thread_id}/").status_code == 200
    answer = browser(bob).get(board_page(child))
    assert answer.status_code == 403
    assert "which is not shared with you" in answer.content.decode()
    for line in (None, child.branch_id):
        with pytest.raises(NotPermitted):
            plan(bob, caller.branch_id, line)
    # Nor does an agent that they set to work there.
    read, wrote, lock = ask(
        child.branch,
        ("board_read", AT),
        ("board_write", {**AT, "value": "by air", "expected_version": 2}),
        ("board_lock", AT),
        by=bob,
    )
    for said in (read, wrote, lock):
        assert "does not see the thread whose board" in said
    assert plan(alice, caller.branch_id) == "by night train"
    assert not EntryLock.objects.exists()
    # One that its owner sets to work does.
    [read] = ask(child.branch, ("board_read", AT))
    assert json.loads(read)["value"] == "by night train"


def test_what_a_sub_agent_keeps_is_seen_by_those_who_see_both_threads(
    work_at, alice, bob
):
    caller, child = work_at(visibility=Thread.Visibility.PRIVATE)
    Thread.objects.filter(pk=caller.thread_id).update(
        visibility=Thread.Visibility.WORKSPACE
    )
    assert plan(bob, caller.branch_id) == "by night train"
    with pytest.raises(NotPermitted):
        plan(bob, caller.branch_id, child.branch_id)
    assert "private" not in browser(bob).get(board_page(caller)).content.decode()
    assert plan(alice, caller.branch_id, child.branch_id) == "doubtful"


def test_what_a_sub_agent_kept_goes_with_its_thread_and_what_it_shared_stays(
    work_at, alice, workspace
):
    caller, child = work_at()
    lock = entry_locks.take(principal(child), PLAN, lasts=timedelta(minutes=1))
    Deletion.objects.create(
        workspace=workspace,
        thread_id=child.thread_id,
        what=Deletion.What.SHREDDED,
        steps=1,
    )
    assert entries_care.sweep() == 1
    assert plan(alice, caller.branch_id) == "by night train"
    assert not Entry.objects.exclude(line=None).exists()
    assert EntryLock.objects.get() == lock
