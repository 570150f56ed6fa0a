"""Archives that were changed, cut, mixed up or made elsewhere bring nothing back."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
import zstandard
from django.db.models import Model

from checkpoints import gate
from checkpoints.access import SystemPrincipal
from checkpoints.blobs import put, read
from checkpoints.errors import BadArchive, CheckpointsError, MissingObject
from checkpoints.keys import hierarchy
from checkpoints.log import archive, expire, rows, source
from checkpoints.log.pack import pack_branch
from checkpoints.log.restore import restore
from checkpoints.log.source import Source
from checkpoints.models import (
    Archive,
    Blob,
    CheckpointDelta,
    DataKey,
    Deletion,
    Thread,
    ThreadInput,
    WorkspaceKey,
)
from checkpoints.pure.archived import Lines
from tests.checkpoints.archives import grow, say, states, stored
from tests.checkpoints.packing import segments
from tests.conftest import as_owner
from tests.tampering import tamper

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("everything_visible"),
]

Change = Callable[[list[bytes]], list[bytes]]


@pytest.fixture
def archived(make_thread, alice) -> Archive:
    """An archived thread whose content went."""
    thread = grow(make_thread(owner=alice))[0].thread
    made = archive.write(thread.pk)
    assert expire.prune(made)
    return made


def changed(archived: Archive, change: Change) -> Source:
    """The archive with other lines."""
    whole = stored(archived)
    packed = b"".join(part.read() for part in whole.packed())
    text = zstandard.ZstdDecompressor().stream_reader(
        io.BytesIO(packed), read_across_frames=True
    )
    lines = change(text.read().splitlines(keepends=True))
    again = zstandard.ZstdCompressor().compress(b"".join(lines))

    def parts() -> Iterator[io.BytesIO]:
        yield io.BytesIO(again)

    return dataclasses.replace(whole, packed=parts)


def rewritten(
    lines: list[bytes], change: Callable[[str, dict[str, Any]], None]
) -> list[bytes]:
    """As somebody without the key would write it: every digest fits, but not the MAC."""
    made, writer = [], Lines()
    for line in lines:
        found = json.loads(line)
        change(found["table"], found["row"])
        made.append(writer.line(found["table"], found["row"]))
    return made


def rename(table: str, row: dict[str, Any]) -> None:
    if table == "checkpoints.workspace":
        row["name"] = "Forged"


def newer(table: str, row: dict[str, Any]) -> None:
    if table == "archive":
        row["version"] = 2


def unknown(table: str, row: dict[str, Any]) -> None:
    if table == "archive":
        row["format"] = "something else"


CHANGES: dict[str, tuple[Change, str]] = {
    "cut": (lambda lines: lines[:-1], "cut off"),
    "cut in a line": (lambda lines: [*lines[:-1], lines[-1][:20]], "cut off"),
    "nothing": (lambda lines: [], "cut off"),
    "a line less": (lambda lines: lines[:4] + lines[5:], "Line 5"),
    "a line twice": (lambda lines: [*lines[:4], lines[3], *lines[4:]], "Line 5"),
    "two lines swapped": (
        lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]],
        "Line 5",
    ),
    "a letter": (
        lambda lines: [*lines[:4], lines[4].replace(b"e", b"f", 1), *lines[5:]],
        "Line 5",
    ),
    "more": (lambda lines: [*lines, lines[-1]], "goes on"),
    "no JSON": (lambda lines: [b"hello\n"], "Line 1"),
    "rewritten": (lambda lines: rewritten(lines, rename), "keys of its thread"),
    "a later release": (lambda lines: rewritten(lines, newer), "format version 2"),
    "another format": (lambda lines: rewritten(lines, unknown), "not an archive"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_archive_is_refused(archived, name):
    change, says = CHANGES[name]
    with pytest.raises(BadArchive, match=says):
        restore(changed(archived, change))
    assert not CheckpointDelta.objects.exists()
    assert restore(stored(archived)).steps == archived.steps


def test_every_flipped_byte_of_the_file_is_noticed(archived, settings):
    [part] = settings.BLOB_DIR.rglob("*.zst")
    good = part.read_bytes()
    for at in range(0, len(good), max(1, len(good) // 60)):
        bad = bytearray(good)
        bad[at] ^= 0x10
        part.write_bytes(bytes(bad))
        with pytest.raises(CheckpointsError):
            restore(stored(archived))
        assert not CheckpointDelta.objects.exists()
    part.write_bytes(good)
    assert restore(stored(archived)).steps


def test_what_is_no_archive_and_one_without_keys_say_so(archived, tmp_path):
    file = tmp_path / "hello.txt"
    file.write_text("hello")
    with pytest.raises(BadArchive, match="not an archive"):
        restore(source.filed(file))
    kept = tmp_path / "kept.zst"
    source.export(archived.store, archived.object_name, kept)
    source.keys_path(kept).unlink()
    with pytest.raises(MissingObject, match="wrapped keys"):
        source.filed(kept).keys()
    # Its own database has the keys.
    assert restore(source.filed(kept)).steps


def test_an_archive_of_another_workspaces_thread_is_refused(archived, alice):
    from tests.conftest import make_workspace

    other = make_workspace("else")

    def move(table: str, row: dict[str, Any]) -> None:
        if table == "archive":
            row["workspace"] = str(other.pk)

    with pytest.raises(BadArchive, match="belongs to another"):
        restore(changed(archived, lambda lines: rewritten(lines, move)))


def test_blobs_and_segments_come_back_too(make_thread, alice):
    branch = make_thread(owner=alice)
    say(branch, *(f"m{number}" for number in range(80)))
    pack_branch(branch.pk)
    assert segments(branch)
    thread = branch.thread
    blob = put(thread, b"x" * 300_000, media_type="text/plain")
    before = states(thread.pk)
    made = archive.write(thread.pk)
    assert expire.prune(made)
    assert not Blob.objects.exists()
    restore(stored(made))
    assert states(thread.pk) == before
    pass_ = gate.admit(
        SystemPrincipal("test", thread.workspace_id), purpose="test", threads=[thread]
    )
    assert read(pass_, Blob.objects.get(pk=blob.pk)) == b"x" * 300_000


def put_first(*more: tuple[str, Any]) -> Change:
    """Lines of a forger's own after the manifest; every digest fits."""

    def change(lines: list[bytes]) -> list[bytes]:
        writer = Lines()
        found = [json.loads(line) for line in lines]
        made = [(line["table"], line["row"]) for line in found]
        made[-1][1]["lines"] += len(more)
        return [writer.line(*line) for line in [made[0], *more, *made[1:]]]

    return change


DEEP = b"[" * 900 + b"]" * 900

HOSTILE: dict[str, Change] = {
    "no table": put_first((None, {})),  # type: ignore[arg-type]
    "a table that is a list": put_first(([], {})),  # type: ignore[arg-type]
    "a table of Django's": put_first(("auth.user", {"id": 1, "username": "x"})),
    "a table that is not there": put_first(("os.system", {})),
    "a row that is a list": put_first(("checkpoints.thread", [])),
    "a row without an id": put_first(("checkpoints.workspace", {"slug": "x"})),
    "chunks of a word": put_first(("checkpoints.thread", {"title": {"chunks": "x"}})),
    "chunks before the first": put_first(
        ("chunk", {"text": "x"}), ("checkpoints.thread", {"title": {"chunks": -1}})
    ),
    "chunks that are not there": put_first(
        ("checkpoints.thread", {"title": {"chunks": 2**70}})
    ),
    "a number too large": put_first(("checkpoints.checkpoint", {"step": 2**80})),
    "NUL": put_first(("checkpoints.thread", {"title": "AAAA", "kind": "\0"})),
    "deep": lambda lines: [
        lines[0],
        b'{"digest": "", "row": %b, "table": "x"}\n' % DEEP,
        *lines[1:],
    ],
    "a long line": lambda lines: [lines[0], b'"' + b"x" * 20_000_000 + b'"\n'],
    "a second manifest": put_first(("archive", {"format": "holdpoint archive"})),
    "an early end": put_first(("end", {"lines": 1, "mac": "x"})),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("is_here", [True, False])
def test_hostile_lines_are_refused_in_words(archived, name, is_here):
    hostile = changed(archived, HOSTILE[name])
    if not is_here:
        lose(archived.thread_id)
    with pytest.raises(BadArchive):
        restore(hostile)
    assert not CheckpointDelta.objects.exists()
    assert Thread.objects.filter(pk=archived.thread_id).exists() == is_here


def test_a_file_that_unpacks_to_very_much_is_refused_while_little_is_held(archived):
    def bomb(lines: list[bytes]) -> list[bytes]:
        writer, text = Lines(), {"text": "x" * 3_900_000}
        first = writer.line("archive", json.loads(lines[0])["row"])
        more = [writer.line("chunk", text) for _ in range(30)]
        return [first, *more, writer.end(b"no key")]

    small = changed(archived, bomb)
    packed = sum(len(part.read()) for part in small.packed())
    assert packed < 1_000_000
    tracemalloc.start()
    try:
        with pytest.raises(BadArchive, match="keys of its thread"):
            restore(small)
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()


def test_what_is_read_a_second_time_is_not_believed_for_the_first(
    archived, make_thread, alice
):
    """Who owns the blob store may hand out one archive and then another."""
    other = make_thread(owner=alice, title="Another")
    said = ThreadInput(
        workspace_id=other.workspace_id, thread=other.thread, branch=other
    )
    said.content = gate.seal(said, "content", "And a hotel.")
    said.save(force_insert=True)
    emptied = ("checkpoints.threadinput", {"id": str(said.pk), "content": None})
    good, bad = stored(archived), changed(archived, put_first(emptied))
    reads = [good.packed, good.packed, bad.packed]
    turning = dataclasses.replace(good, packed=lambda: reads.pop(0)())
    with pytest.raises(BadArchive, match="keys of its thread"):
        restore(turning)
    said.refresh_from_db()
    assert said.content is not None
    assert not CheckpointDelta.objects.filter(thread=archived.thread_id).exists()


# The wrapped keys, which no MAC covers


def lose(thread_id: UUID) -> None:
    """The thread and all that speaks of it, as in a database that never had it."""
    models: tuple[type[Model], ...] = (DataKey, Archive, Deletion)
    for model in (*rows.models_of_threads(), *models):
        column = "id" if model is Thread else "thread_id"
        table = model._meta.db_table
        tamper(f"DELETE FROM {table} WHERE {column} = %s", [thread_id])  # noqa: S608


def with_keys(archived: Archive, change: Callable[[dict[str, Any]], object]) -> Source:
    """The archive with another file of keys beside it."""
    whole = stored(archived)
    document = json.loads(whole.keys())
    change(document)
    other = json.dumps(document).encode()
    return dataclasses.replace(whole, keys=lambda: other)


def one_more(table: str, **values: Any) -> Callable[[dict[str, Any]], object]:
    """A copy of the table's first key, but for these columns."""
    return lambda document: document[table].append(
        {**document[table][0], "id": str(uuid4()), "version": 99, **values}
    )


WORKSPACE, DATA = "checkpoints.workspacekey", "checkpoints.datakey"
RUBBISH = base64.b64encode(b"\x9dHP\x01" + bytes(140)).decode()


@pytest.mark.parametrize(
    "change",
    [
        one_more(WORKSPACE, wrapped=RUBBISH),
        one_more(WORKSPACE, kek="kek:keyring:nobody:1"),
        one_more(DATA, wrapped=RUBBISH),
        one_more(DATA),  # of another row
        one_more(DATA, version=2**40),
        one_more(DATA, purpose="x" * 50),
        one_more(DATA, purpose="\0"),
        one_more(DATA, wrapped=None),
        lambda document: document[DATA].append([]),
        lambda document: document[DATA].append({}),
        lambda document: document.update({DATA: "x"}),
        lambda document: document.update({DATA: []}),
        lambda document: document.update({"version": {}}),
        lambda document: document.clear(),
    ],
)
def test_a_changed_file_of_keys_brings_nothing(archived, change):
    forged = with_keys(archived, change)
    lose(archived.thread_id)
    known = set(WorkspaceKey.objects.values_list("pk", flat=True))
    with as_owner(), pytest.raises(CheckpointsError):
        restore(forged)
    assert not Thread.objects.filter(pk=archived.thread_id).exists()
    assert set(WorkspaceKey.objects.values_list("pk", flat=True)) == known


def test_no_file_of_keys_reaches_another_thread_or_workspace(
    archived, make_thread, alice
):
    """A newer key that does not open would stand in the way of all that it writes."""
    from tests.conftest import make_workspace

    other = make_thread(owner=alice, title="Another")
    elsewhere = make_workspace("else")
    forged = [
        with_keys(archived, one_more(DATA, thread_id=str(other.thread_id))),
        with_keys(archived, one_more(DATA, workspace_id=str(elsewhere.pk))),
        with_keys(archived, one_more(WORKSPACE, workspace_id=str(elsewhere.pk))),
    ]
    lose(archived.thread_id)
    for source_ in forged:
        with as_owner(), pytest.raises(BadArchive, match="workspace alone"):
            restore(source_)
    hierarchy.forget()
    say(other, "it goes on")
    assert make_thread(workspace=elsewhere)


def test_an_untouched_file_of_keys_brings_the_thread_back(archived):
    whole = stored(archived)
    lose(archived.thread_id)
    assert restore(whole).steps == archived.steps
    assert restore(whole).was_here
