"""An agent's files in runs: kept with each step, whole after any kill, apart in every fork."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from agents.demo.agents import HANDBOOKS, handbook_editor
from agents.demo.stories import FILES_AT, HANDBOOK
from agents.models import Run, ToolCall
from agents.runs import start
from agents.runs.edits import ForkEdits
from checkpoints.models import Blob, Checkpoint
from tests.workers.conftest import PATIENCE, ended, kinds, wait_until
from tests.workers.desk.agents import filing

pytestmark = pytest.mark.django_db(transaction=True)

KILLS = 6
LONG = "\n".join(f"line {n}" for n in range(20_000))  # a blob


@pytest.fixture
def files(history):
    """The files after each step of a run's branch."""

    def files(run: Run) -> list[dict[str, Any]]:
        run.branch.refresh_from_db()
        read = history(run.branch)
        return [
            read.state_at(step).get("files", {}) for step in range(len(read.records))
        ]

    return files


@pytest.fixture
def begin(server, alice):
    def begin(message: str = "Work on the files.", agent: str = filing.name) -> Run:
        return start.start_run(agent=agent, message=message, by=alice)

    return begin


@pytest.fixture
def fork(alice):
    def fork(run: Run, step: int, *, system: str) -> Run:
        source = Checkpoint.objects.get(branch=run.branch, step=step)
        branch = start.fork_run(
            source, edits=ForkEdits(system=system), name="", by=alice
        )
        return Run.objects.get(branch=branch)

    return fork


def told(server, place: int = -1) -> str:
    """A message's content, of the last request to the model."""
    content: str = server.requests[-1]["messages"][place]["content"]
    return content


def test_calls_of_one_reply_find_each_others_files(begin, work, server, files):
    server.will_call_all(
        ("c1", "write_file", {"path": "a.md", "content": "one"}),
        ("c2", "edit_file", {"path": "a.md", "old": "one", "new": "two"}),
        ("c3", "move_file", {"path": "a.md", "to": "b.md"}),
    )
    server.will_say("Done.")
    run = begin()
    work()
    assert files(run) == [
        {},
        {},
        {"a.md": "one"},
        {"a.md": "two"},
        *[{"b.md": "two"}] * 2,
    ]


def test_what_is_refused_changes_nothing_and_the_agent_is_told_why(
    begin, work, server, files
):
    server.will_call("c1", "write_file", path="../../etc/passwd", content="root")
    server.will_call("c2", "draw", path="big.bin", size=1024**2 + 1)
    server.will_say("So be it.")
    run = begin()
    work()
    assert ended(run)
    assert run.status == "succeeded"
    assert "Nothing outside the files can be named" in told(server, -3)
    assert "a file has 1,048,576 at most" in told(server)
    assert not any(files(run))
    calls = ToolCall.objects.filter(run=run)
    assert set(calls.values_list("status", flat=True)) == {"failed"}


def test_a_long_file_and_one_that_is_no_text_are_blobs_and_are_read_again(
    begin, work, server, files
):
    server.will_call("c1", "write_file", path="long.txt", content=LONG)
    server.will_call("c2", "draw", path="zeros.bin", size=10)
    server.will_call("c3", "edit_file", path="long.txt", old="line 9\n", new="nine\n")
    server.will_call("c4", "read_file", path="long.txt", offset=9, limit=2)
    server.will_call("c5", "read_file", path="zeros.bin")
    server.will_say("Read.")
    run = begin()
    work()
    assert ended(run)
    assert run.status == "succeeded", run.error_class
    kept = files(run)[-1]
    assert set(kept["long.txt"]) == {"$blob", "size", "media_type", "digest"}
    assert set(kept["zeros.bin"]["file_data"]) == set(kept["long.txt"])
    assert Blob.objects.count() == 3
    assert told(server, -3).endswith(" of 20,000; go on with offset=11:\nline 8\nnine")
    assert told(server) == "zeros.bin is not text. It has 10 bytes."


def test_a_fork_never_sees_the_files_of_the_other_branch(
    begin, work, server, files, fork
):
    server.will_call("c1", "write_file", path="shared.md", content="both")
    server.will_call("c2", "write_file", path="mine.md", content="main's alone")
    server.will_say("Done.")
    run = begin()
    work()
    before = files(run)

    server.will_call("f1", "list_files")
    server.will_call("f2", "delete_file", path="shared.md")
    server.will_call("f3", "write_file", path="theirs.md", content="the fork's")
    server.will_say("Done otherwise.")
    forked = fork(run, 2, system="Do otherwise.")
    work()
    assert told(server, -5) == "1 file, 4 bytes:\nshared.md  4"
    assert files(forked)[2] == {"shared.md": "both"}
    assert files(forked)[-1] == {"theirs.md": "the fork's"}
    assert files(run) == before


@pytest.mark.slow
@pytest.mark.unmeasured
def test_killed_at_random_a_run_and_its_fork_have_the_files_of_every_step(
    workers, begin, work, server, files, fork, history
):
    """The demo's handbook by real workers, beside one that nobody disturbed."""
    euros = f"{HANDBOOKS}\nPrices in euros."

    def write() -> Run:
        return begin(HANDBOOK.ask, handbook_editor.name)

    calm = write()
    work()
    calm_fork = fork(calm, FILES_AT, system=euros)
    work()

    server.fault("slow", times=None, seconds=0.05)
    supervisor = workers.start()
    run = write()
    kills = rage(workers, supervisor, run)
    forked = fork(run, FILES_AT, system=euros)
    kills += rage(workers, supervisor, forked)
    assert kills >= KILLS / 2

    assert (run.status, forked.status) == ("succeeded", "succeeded")
    for disturbed, undisturbed in ((run, calm), (forked, calm_fork)):
        assert kinds(disturbed) == kinds(undisturbed)
        assert files(disturbed) == files(undisturbed)
    assert files(forked)[FILES_AT] == files(run)[FILES_AT] != files(run)[-1]
    assert kinds(run) == ["input", *["model", "tool"] * 7, "model"]
    # A change and its result are one step: each has both.
    for record in history(forked.branch).records:
        if record.kind == "tool":
            *changes, result = record.ops
            assert changes
            assert all(op[1].startswith("/files") for op in changes)
            assert result[:2] == ["append", "/messages"]


def rage(workers: Any, supervisor: Any, run: Run) -> int:
    """Kill whoever works on the run, at any moment, until it is over; how often."""
    seen, kills, deadline = 0, 0, time.monotonic() + PATIENCE
    while kills < KILLS and time.monotonic() < deadline and not ended(run):
        # A run that several workers in a row got nowhere with is given up, so each
        # gets to store something.
        if (steps := len(kinds(run))) > seen and run.attempts < 3:
            time.sleep(random.uniform(0, 0.15))
            seen = steps
            kills += workers.kill_child(supervisor)
        time.sleep(0.01)
    wait_until(lambda: ended(run))
    return kills
