"""Large results, long messages and images in a run; and what happens when the disk is full."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.models import Run, ToolCall
from agents.runs import runner, start, stop
from agents.runs.edits import ForkEdits
from checkpoints import stores
from checkpoints.log.append import commit, writer
from checkpoints.log.step import NewStep
from checkpoints.models import Blob, Checkpoint
from checkpoints.pure import ops, refs
from tests.workers.conftest import ended, kinds, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

LARGE = 200_000  # characters
PNG = b"\x89PNG\r\n\x1a\n" + bytes(400)
URL = f"data:image/png;base64,{b64encode(PNG).decode()}"


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process may grow beyond 64 KB."""
    # What it imports would be cut off where it is compiled, for all that come after.
    compiles, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = compiles


def sent(server, place: int) -> str:
    """A message's content, of the last request to the model."""
    content: str = server.requests[-1]["messages"][place]["content"]
    return content


def due(run: Run) -> None:
    """As if the pause were over."""
    Run.objects.filter(pk=run.pk).update(wake_at=None)


def test_a_large_result_is_a_blob_and_the_model_is_told_so(
    begin, work, server, history
):
    server.will_call("c1", "fetch", size=LARGE)
    server.will_say("It is long.")
    run = begin()
    work()
    assert ended(run)
    assert run.status == "succeeded", run.error_class
    blob = Blob.objects.get()
    assert blob.size == LARGE
    assert sent(server, -1).startswith(
        "[The result has 200,000 bytes (text/plain) and is kept apart from this"
        f" conversation, as {blob.pk}. It begins: It begins. 5feceb66ffc86f38d952786c6d696c79c2dbc239"
    )
    run.branch.refresh_from_db()
    result = history(run.branch).state_at(2)["messages"][-1]
    assert result["content"]["$blob"] == str(blob.pk)


def test_fifty_megabytes_do_not_fail_the_run(begin, work, server):
    server.will_call("c1", "fetch", size=50_000_000)
    server.will_say("It is very long.")
    run = begin()
    work()
    assert ended(run)
    assert run.status == "succeeded", run.error_class
    assert Blob.objects.get().size == 50_000_000


def test_more_than_a_blob_holds_is_a_failed_step_and_the_agent_goes_on(
    begin, work, server
):
    server.will_call("c1", "order", size=64 * 1024 * 1024)
    server.will_say("Too much.")
    run = begin()
    work()
    assert ended(run)
    assert run.status == "succeeded", run.error_class
    assert Checkpoint.objects.get(kind="tool").error_class == "result_not_kept"
    assert "The call was made, and its effect took place" in sent(server, -1)
    assert "is larger than 63 MB" in sent(server, -1)
    assert len(server.ledger("orders")) == 1


def test_an_effect_whose_answer_is_no_json_took_place(begin, work, server):
    server.will_call("c1", "misorder")
    server.will_say("Odd.")
    run = begin()
    work()
    assert ended(run)
    assert run.status == "succeeded"
    assert "JSON has no such number" in sent(server, -1)
    assert len(server.ledger("orders")) == 1


def test_a_tool_finds_in_working_memory_what_it_put_there(begin, work, server):
    server.will_call("c1", "note", size=LARGE)
    server.will_call("c2", "note", size=10)
    server.will_say("Noted.")
    run = begin()
    work()
    assert ended(run)
    assert [sent(server, place) for place in (-3, -1)] == ["had 0", "had 200000"]


def test_one_call_may_add_so_much_to_working_memory(begin, work, server):
    server.will_call("c1", "note", size=9 * 1024 * 1024)
    server.will_say("No.")
    run = begin()
    work()
    assert ended(run)
    assert run.status == "succeeded"
    assert "Working memory was not changed" in sent(server, -1)


def test_a_long_message_is_sent_in_full(begin, work, server):
    said = "A long story. " * 10_000
    server.will_say("I see.")
    run = begin(said)
    work()
    assert ended(run)
    assert sent(server, 1) == said.strip()
    assert Blob.objects.count() == 1  # the goal says the same


def test_an_image_is_sent_as_it_came(begin, work, server, alice):
    server.will_say("What should I look at?")
    run = begin()
    work()
    run.branch.refresh_from_db()
    content = [
        {"type": "text", "text": "Look."},
        {"type": "image_url", "image_url": {"url": URL}},
    ]
    message = {"id": "m", "role": "user", "content": content}
    step = NewStep(kind="input", ops=[ops.append("/messages", message)], label="")
    commit(writer(run.branch), step)
    server.will_say("A black square.")
    start.send_message(run.branch, message="Well?", by=alice)
    work()
    assert server.requests[-1]["messages"][-2]["content"] == content
    assert Blob.objects.get().media_type == "image/png"


def test_a_reference_that_someone_wrote_is_sent_as_it_was_written(
    begin, work, server, alice
):
    server.will_call("c1", "fetch", size=LARGE)
    server.will_say("Done.")
    first = begin()
    work()
    stolen = refs.ref(Blob.objects.get().pk, LARGE, "text/plain", "")
    server.will_say("Hello.")
    run = begin("Hello.")
    work()
    assert ended(first)
    assert ended(run)
    run.branch.refresh_from_db()
    content = [{"type": "text", "text": stolen}]
    message = {"id": "m", "role": "user", "content": content}
    step = NewStep(kind="input", ops=[ops.append("/messages", message)], label="")
    commit(writer(run.branch), step)
    server.will_say("I cannot see that.")
    start.send_message(run.branch, message="Well?", by=alice)
    work()
    assert server.requests[-1]["messages"][-2]["content"] == content


def test_a_fork_uses_a_large_recorded_result(begin, work, server, alice):
    server.will_call("c1", "order", size=LARGE)
    server.will_say("Ordered.")
    run = begin()
    work()
    server.will_call("c1", "order", size=LARGE)
    server.will_say("As before.")
    source = Checkpoint.objects.get(branch=run.branch, step=0)
    fork = start.fork_run(source, edits=ForkEdits(seed=8), name="again", by=alice)
    work()
    assert len(server.ledger("orders")) == 1
    call = ToolCall.objects.get(branch=fork)
    assert (call.status, call.recorded_from is not None) == ("succeeded", True)
    assert "is kept apart" in sent(server, -1)
    assert Blob.objects.count() == 1


# The disk is full


def test_the_run_pauses_with_the_reason_and_goes_on_when_there_is_room(
    begin, work, server, alice
):
    server.will_call("c1", "fetch", size=LARGE)
    server.will_say("It is long.")
    run = begin()
    with full_disk():
        runner.work(run.pk)
    run.refresh_from_db()
    assert run.is_paused
    assert (run.status, run.error_class) == ("ready", "store_full")
    assert run.wake_at is not None
    assert run.attempts == 0
    assert kinds(run) == ["input", "model"]  # nothing that was stored is lost
    work()  # it is not due
    assert len(server.requests) == 1
    due(run)
    work()
    assert ended(run)
    assert (run.status, run.error_class, run.error) == ("succeeded", "", None)
    assert len(server.requests) == 2  # the first reply was not asked for again


def test_a_paused_run_looks_for_room_before_it_asks_the_model(begin, server):
    server.will_say(os.urandom(LARGE).hex())
    run = begin()
    for _ in range(3):
        with full_disk():
            runner.work(run.pk)
        run.refresh_from_db()
        assert run.is_paused
        due(run)
    assert len(server.requests) == 1


def test_an_effect_whose_result_found_no_room_is_not_repeated(begin, work, server):
    server.will_call("c1", "order", size=LARGE)
    server.will_say("Ordered.")
    run = begin()
    with full_disk():
        runner.work(run.pk)
    run.refresh_from_db()
    assert run.is_paused
    assert len(server.ledger("orders")) == 1
    assert ToolCall.objects.get().status == "executing"
    for _ in range(2):
        due(run)
        with full_disk():
            runner.work(run.pk)
    due(run)
    work()
    assert ended(run)
    assert run.status == "succeeded", run.error_class
    assert len(server.ledger("orders")) == 1
    assert ToolCall.objects.get().status == "succeeded"
    assert Blob.objects.get().size == LARGE
    assert "is kept apart" in sent(server, -1)


def test_people_may_have_a_paused_run_tried_at_once(begin, work, server, alice):
    server.will_call("c1", "fetch", size=LARGE)
    server.will_say("It is long.")
    run = begin()
    with full_disk():
        runner.work(run.pk)
    run.refresh_from_db()
    assert start.retry(run, by=alice) == run
    work()
    assert ended(run)
    assert run.status == "succeeded"


def test_a_paused_run_can_be_cancelled(begin, server, alice):
    server.will_call("c1", "fetch", size=LARGE)
    run = begin()
    with full_disk():
        runner.work(run.pk)
    assert stop.cancel(run, by=alice)
    assert ended(run)
    assert run.status == "cancelled"


def test_a_worker_on_another_machine_pauses_its_runs(begin, work, server, settings):
    """Its directory is not the one that the others use."""
    server.will_call("c1", "fetch", size=LARGE)
    server.will_call("c2", "fetch", size=LARGE + 1)
    server.will_say("Done.")
    run = begin()
    runner.work(run.pk, stopping=lambda: bool(Blob.objects.exists()))
    here = settings.BLOB_DIR
    settings.BLOB_DIR = here.parent / "there"
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("ready", "wrong_store")
    settings.BLOB_DIR = here
    due(run)
    work()
    assert ended(run)
    assert run.status == "succeeded"


def test_an_object_that_is_gone_fails_the_run_by_name(begin, work, server):
    server.will_say("I see.")
    run = begin("A long story. " * 10_000)
    blob = Blob.objects.get()
    stores.of(blob.store).delete(blob.object_name)
    work()
    assert ended(run)
    assert (run.status, run.error_class) == ("failed", "missing_object")


@pytest.mark.slow
def test_a_real_disk_fills_and_is_emptied(begin, server, workers, tmp_path):
    """Another process, a disk of its own, and nobody helps: the run goes on by itself."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)],  # noqa: S607
        capture_output=True,
    )
    if mounted.returncode:
        pytest.skip("this machine lets nobody mount a small disk")
    try:
        filler = Path(disk, "filler")
        filler.write_bytes(os.urandom(3 * 1024 * 1024 - 100_000))
        server.will_call("c1", "fetch", size=2_000_000)
        server.will_say("It is long.")
        run = begin()
        workers.start(BLOB_DIR=str(disk))

        def is_paused() -> bool:
            run.refresh_from_db()
            return run.is_paused

        wait_until(is_paused)
        assert run.error_class == "store_full"
        filler.unlink()
        due(run)  # rather than wait for half a minute
        wait_until(lambda: ended(run))
        assert run.status == "succeeded", run.error_class
    finally:
        workers.stop()
        subprocess.run(["umount", str(disk)], check=True)  # noqa: S607
