"""Archives that were changed, cut, mixed up or made elsewhere bring nothing back."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zstandard

from checkpoints import gate
from checkpoints.access import SystemPrincipal
from checkpoints.blobs import put, read
from checkpoints.errors import BadArchive, CheckpointsError, MissingObject
from checkpoints.log import archive, expire, source
from checkpoints.log.pack import pack_branch
from checkpoints.log.restore import restore
from checkpoints.log.source import Source
from checkpoints.models import Archive, Blob, CheckpointDelta
from checkpoints.pure.archived import Lines
from tests.checkpoints.archives import grow, say, states, stored
from tests.checkpoints.packing import segments

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
