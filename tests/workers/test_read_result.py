"""An agent reads on in a result that was too large to be sent to it."""

from __future__ import annotations

import re

import pytest

from agents.models import Run
from agents.runs import start
from agents.runs.edits import ForkEdits
from checkpoints.log.append import commit, writer
from checkpoints.log.step import NewStep
from checkpoints.models import Blob, Checkpoint
from checkpoints.pure import ops, refs
from tests.workers.conftest import ended
from tests.workers.desk.agents import _pages

pytestmark = pytest.mark.django_db(transaction=True)

LARGE = 200_000  # characters
TEXT = _pages(LARGE)


@pytest.fixture
def fetched(begin, work, server) -> Run:
    """A run that got a large result, and is over."""
    server.will_call("c1", "fetch", size=LARGE)
    server.will_say("It is long.")
    run: Run = begin()
    work()
    assert ended(run)
    return run


@pytest.fixture
def read(fetched, work, server, alice):
    """What the agent is told when it asks for a part of it."""

    def read(result: str = "", **asked) -> str:
        told = server.requests[-1]["messages"]
        said = " ".join(message.get("content", "") for message in told)
        named = re.findall(
            r"kept apart from this conversation, as ([0-9a-f-]{36})\.", said
        )
        server.will_call("c2", "read_result", result=result or named[0], **asked)
        server.will_say("Read.")
        start.send_message(fetched.branch, message="Read on.", by=alice)
        work()
        content: str = server.requests[-1]["messages"][-1]["content"]
        return content

    return read


def test_the_id_that_its_line_gives_is_enough(read):
    assert read() == (
        f"[Characters 0 to 4,000 of 200,000; go on with start=4000.]\n{TEXT[:4000]}"
    )


def test_a_part_in_the_middle_and_the_end(read):
    assert read(start=100_000, most=12_000).endswith(f"\n{TEXT[100_000:112_000]}")
    assert read(start=199_990) == (
        f"[Characters 199,990 to 200,000 of 200,000, its end.]\n{TEXT[-10:]}"
    )


def test_words_are_found_with_what_comes_before(read):
    words = TEXT[150_000:150_040]
    assert read(find=words, most=300).endswith(f"\n{TEXT[149_800:150_100]}")
    assert "those words do not stand in the result" in read(find=words, start=150_001)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"start": -1}, "start is 0 or more"),
        ({"most": 0}, "most is 1 to 12,000"),
        ({"most": 12_001}, "most is 1 to 12,000"),
        ({"start": LARGE}, "200,000 is past its end"),
        ({"result": "the long one"}, "Give the one that stands in the result's line"),
    ],
)
def test_what_cannot_be_read_is_said_with_the_way_on(read, asked, told):
    assert told in read(**asked)


def test_a_part_is_never_kept_apart_itself(read):
    read(most=12_000)
    assert Blob.objects.count() == 1


def test_a_part_is_no_longer_than_what_is_not_kept_apart(read, settings):
    settings.BLOB_BYTES = 5_000
    assert read(most=12_000).startswith(
        "[Characters 0 to 4,000 of 200,000; go on with start=4000.]\n"
    )


def test_a_reference_to_another_threads_blob_that_someone_wrote_reads_nothing(
    begin, fetched, work, server, alice
):
    server.will_say("Hello.")
    other = begin("Hello.")
    work()
    other.branch.refresh_from_db()
    stolen = refs.ref(Blob.objects.get().pk, LARGE, "text/plain", "")
    message = {"id": "m", "role": "user", "content": [{"type": "text", "text": stolen}]}
    step = NewStep(kind="input", ops=[ops.append("/messages", message)], label="")
    commit(writer(other.branch), step)
    server.will_call("c1", "read_result", result=stolen["$blob"])
    server.will_say("No.")
    start.send_message(other.branch, message="Read it.", by=alice)
    work()
    told = server.requests[-1]["messages"][-1]["content"]
    assert told == "Nothing is kept under that id any more."


def test_a_fork_reads_what_its_source_fetched(fetched, work, server, alice):
    server.will_call("c2", "read_result", result=str(Blob.objects.get().pk), most=10)
    server.will_say("Read.")
    source = Checkpoint.objects.get(branch=fetched.branch, kind="tool")
    edits = ForkEdits(system="You read what you fetched.")
    start.fork_run(source, edits=edits, name="again", by=alice)
    work()
    assert server.requests[-1]["messages"][-1]["content"].endswith(f"\n{TEXT[:10]}")
