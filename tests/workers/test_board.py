"""The board that agents share while they work: versions, locks, and what forks have of it."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import uuid4

import pytest

from agents.models import Run, ToolCall
from agents.runs import start
from agents.runs.edits import ForkEdits
from agents.runs.fork_calls import recorded_calls
from agents.tools import ToolContext
from agents.tools.board import board_lock, board_of, board_unlock, board_write
from checkpoints import entries, entry_locks
from checkpoints.access import Board, RunPrincipal
from checkpoints.models import Branch, Checkpoint, Entry, EntryLock, EntryVersion
from checkpoints.pure.names import name
from tests.workers.conftest import ended, wait_until
from tests.workers.desk.agents import boarder

pytestmark = pytest.mark.django_db(transaction=True)

PLAN = name(["trip"], "plan")
AT = {"namespace": ["trip"], "key": "plan"}
MINE = {**AT, "private": True}
ALL: dict[str, Any] = {"namespace": []}


@pytest.fixture
def ask(server, alice, work):
    """A run in which the agent makes these calls, one after another, worked on; on a
    branch of its own, or the next one `on` a branch."""

    numbers = count(1)

    def ask(*calls: tuple[str, dict[str, Any]], on: Branch | None = None) -> Run:
        for n, (tool, arguments) in enumerate(calls):
            server.will_call(f"c{n}", tool, **arguments)
        server.will_say("Done.")
        # Another each time: the scripted model knows threads by what they begin with.
        said = f"Request {next(numbers)}."
        if on is not None:
            start.send_message(on, message=said, by=alice)
        else:
            start.start_run(agent=boarder.name, by=alice, message=said)
        work()
        run = Run.objects.latest("created_at")
        assert run.status == "succeeded"
        return run

    return ask


@pytest.fixture
def fork(server, alice, work):
    """A fork from the first message of a run, that makes these calls."""

    def fork(
        run: Run, *calls: tuple[str, dict[str, Any]], how: str = "recorded"
    ) -> Run:
        for n, (tool, arguments) in enumerate(calls):
            server.will_call(f"c{n}", tool, **arguments)
        server.will_say("Done, too.")
        first = Checkpoint.objects.get(branch=run.branch, step=0)
        edits = ForkEdits(system="Be brief.")
        branch = start.fork_run(first, edits=edits, name="", by=alice, calls=how)
        work()
        forked = Run.objects.get(branch=branch)
        assert forked.status == "succeeded"
        return forked

    return fork


def told(server, back: int = 1) -> str:
    """What the model was last told of a call."""
    return server.requests[-back]["messages"][-1]["content"]


def on_board(by, run: Run) -> Any:
    found = entries.get(by, Board(board_of(run)), PLAN)
    return found and found.value


def another(run: Run) -> RunPrincipal:
    """Another agent that shares the run's board, on a branch of its own."""
    board = Board(board_of(run), uuid4())
    return RunPrincipal(uuid4(), run.workspace_id, run.thread_id, run.grant_id, board)


def versions() -> list[int]:
    return [row.version for row in EntryVersion.objects.order_by("created_at")]


def test_what_is_written_is_read_with_its_version_and_its_writer(ask, server, alice):
    run = ask(
        ("board_write", {**AT, "value": "by train"}),
        ("board_read", AT),
        ("board_list", ALL),
        ("board_list", {**ALL, "words": "train"}),
    )
    assert told(server, 4) == "Written, as version 1."
    read = json.loads(told(server, 3))
    assert (read["value"], read["version"]) == ("by train", 1)
    assert read["by"] == f"test-boarder, run {str(run.pk)[-4:]}"
    assert json.loads(told(server, 2)) == {"entries": [read]}
    assert json.loads(told(server)) == {"entries": [read]}
    row = EntryVersion.objects.get()
    call = ToolCall.objects.get(tool="board_write")
    assert (row.run, row.request_key) == (run.pk, call.pk)
    assert call.result_checkpoint is not None
    assert call.result_checkpoint.step == 2
    assert on_board(alice, run) == "by train"


def test_a_board_is_of_the_work_and_not_of_the_agent(ask, server):
    run = ask(("board_write", {**AT, "value": "by train"}))
    ask(("board_read", AT), on=run.branch)
    assert json.loads(told(server))["value"] == "by train"
    ask(("board_read", AT), ("board_list", ALL))
    assert told(server, 2) == "Nothing is on the board under that name."
    assert json.loads(told(server)) == {"entries": []}


def test_who_was_late_is_told_the_newer_version_and_writes_again(ask, server, alice):
    run = ask(("board_write", {**AT, "value": "by train"}))
    entries.put(another(run), Board(board_of(run)), PLAN, "by air", expected=1)
    ask(
        ("board_write", {**AT, "value": "by night train", "expected_version": 1}),
        ("board_read", AT),
        ("board_write", {**AT, "value": "by night train", "expected_version": 2}),
        on=run.branch,
    )
    assert "It is at version 2, by run" in told(server, 3)
    assert json.loads(told(server, 2))["value"] == "by air"
    assert told(server) == "Written, as version 3."
    assert on_board(alice, run) == "by night train"


def test_what_is_private_is_of_the_runs_on_one_branch(ask, server):
    run = ask(("board_write", {**MINE, "value": "doubtful"}), ("board_read", AT))
    assert told(server) == "Nothing is on the board under that name."
    ask(("board_read", MINE), on=run.branch)
    assert json.loads(told(server))["value"] == "doubtful"
    run_beside = another(run)
    assert run_beside.board is not None
    assert entries.listed(run_beside, run_beside.board).found == []
    assert entries.listed(run_beside, run_beside.board.public).found == []


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("board_write", {"namespace": [""], "key": "k", "value": 1}, "1 to 200"),
        ("board_write", {**AT, "value": "a" * 70_000}, "cannot be kept"),
        ("board_write", {**AT, "value": 1, "fence": 3}, "nobody ever locked"),
        ("board_write", {**MINE, "value": 1, "fence": 3}, "share on a board"),
        ("board_lock", {**AT, "seconds": 4000}, "3600"),
        ("board_read", {"namespace": ["a"] * 20, "key": "k"}, "at most 16 parts"),
    ],
)
def test_what_does_not_fit_is_told_to_the_agent(ask, server, tool, arguments, said):
    ask((tool, arguments))
    assert said in told(server)
    assert versions() == []


# Locks


def test_an_agent_locks_writes_under_the_lock_and_unlocks(ask, server, alice):
    run = ask(
        ("board_lock", AT),
        ("board_list", ALL),
        ("board_write", {**AT, "value": "by train", "fence": 1}),
        ("board_unlock", {**AT, "fence": 1}),
        ("board_unlock", {**AT, "fence": 1}),
    )
    assert json.loads(told(server, 5))["fence"] == 1
    [locked] = json.loads(told(server, 4))["locked"]
    assert locked["key"] == "plan"
    assert locked["by"] == f"test-boarder, run {str(run.pk)[-4:]}"
    assert told(server, 3) == "Written, as version 1."
    assert told(server, 2) == "Unlocked."
    assert "nothing to unlock" in told(server)
    assert entry_locks.held(alice, Board(board_of(run))) == []


def test_a_name_that_another_agent_holds_is_told_and_the_agent_goes_on(ask, server):
    run = ask(("board_list", ALL))
    holder = another(run)
    entry_locks.take(holder, PLAN, lasts=timedelta(minutes=5))
    ask(
        ("board_lock", AT),
        ("board_write", {**AT, "value": "mine"}),
        ("board_write", {**AT, "key": "hotels", "value": "meanwhile"}),
        on=run.branch,
    )
    for back in (3, 2):
        assert f"locked by run {str(holder.run_id)[-4:]} until" in told(server, back)
    assert told(server) == "Written, as version 1."


def test_a_write_to_a_lost_lock_is_told_and_writes_nothing(ask, server, alice):
    run = ask(("board_lock", AT))
    lock = EntryLock.objects.get()
    assert lock.run == run.pk
    # A run that ended holds on until its time is up; then it is another's.
    EntryLock.objects.update(until=lock.updated_at)
    entry_locks.take(another(run), PLAN, lasts=timedelta(minutes=5))
    ask(("board_write", {**AT, "value": "late", "fence": 1}), on=run.branch)
    assert "The lock with the fence 1 was lost" in told(server)
    assert "holds it now, with the fence 2" in told(server)
    assert on_board(alice, run) is None


# Exactly once


@pytest.mark.parametrize("point", ["after intent", "after effect"])
def test_a_worker_that_dies_around_a_write_has_written_once(
    workers, server, alice, tmp_path, point
):
    server.will_call("c0", "board_write", **AT, value="by train")
    server.will_say("Done.")
    run = start.start_run(agent=boarder.name, by=alice, message="Write it down.")
    workers.start(
        2, HOLDPOINT_FAILPOINTS=point, HOLDPOINT_FAILPOINTS_REACHED=str(tmp_path)
    )
    wait_until(lambda: ended(run))
    assert (tmp_path / point).exists()
    assert run.status == "succeeded"
    assert told(server) == "Written, as version 1."
    assert versions() == [1]


def test_a_call_that_is_made_again_does_what_it_did(ask):
    run = ask(("board_lock", AT), ("board_write", {**AT, "value": "by train"}))
    by_tool = {call.tool: str(call.pk) for call in ToolCall.objects.filter(run=run)}
    principal = RunPrincipal(run.pk, run.workspace_id, run.thread_id, run.grant_id)
    context = ToolContext({}, run=principal)
    entries.put(principal_with(run), Board(board_of(run)), PLAN, "newer", expected=1)
    lock = EntryLock.objects.get()
    again = board_write.execute(
        {**AT, "value": "by train"}, key=by_tool["board_write"], context=context
    )
    assert again == "Written, as version 1."
    again = board_lock.execute(dict(AT), key=by_tool["board_lock"], context=context)
    assert json.loads(again)["fence"] == lock.fence
    assert EntryLock.objects.get().until == lock.until
    board_unlock.execute({**AT, "fence": lock.fence}, key=str(uuid4()), context=context)
    assert EntryLock.objects.get().run is None


def principal_with(run: Run) -> RunPrincipal:
    """The run, with its board, as its tools have it."""
    board = Board(board_of(run), run.branch_id)
    return RunPrincipal(run.pk, run.workspace_id, run.thread_id, run.grant_id, board)


# Forks


@pytest.mark.parametrize("how", ["recorded", "simulate"])
def test_a_fork_has_a_board_of_its_own_and_disturbs_nothing(
    ask, fork, server, alice, how
):
    write = ("board_write", {**AT, "value": "by train"})
    hide = ("board_write", {**MINE, "value": "doubtful"})
    run = ask(write, hide)
    forked = fork(run, ("board_read", AT), ("board_read", MINE), write, how=how)
    assert told(server, 3) == "Nothing is on the board under that name."
    assert told(server, 2) == "Nothing is on the board under that name."
    # Neither a recorded result nor a pretended one, and nobody is asked: its own board.
    assert told(server) == "Written, as version 1."
    assert not ToolCall.objects.filter(run=forked).exclude(recorded_from=None).exists()
    fork_board, source_board = board_of(forked), board_of(run)
    assert fork_board != source_board
    ask(
        ("board_write", {**AT, "value": "by air", "expected_version": 1}),
        on=forked.branch,
    )
    assert on_board(alice, forked) == "by air"
    assert on_board(alice, run) == "by train"
    assert Entry.objects.filter(owner=source_board).count() == 2
    # So the page of a fork does not speak of them either.
    assert not recorded_calls(run.branch_id, 0, alice).exists()


def test_a_fork_neither_waits_for_its_sources_lock_nor_takes_it_away(ask, fork, server):
    run = ask(("board_lock", AT))
    fork(run, ("board_lock", AT), ("board_write", {**AT, "value": 1, "fence": 1}))
    assert told(server) == "Written, as version 1."
    held = EntryLock.objects.order_by("updated_at")
    assert [lock.fence for lock in held] == [1, 1]
    assert held[0].run == run.pk
