"""Who may write into the blob store can spoil an object, and nothing else.

Whatever they leave in its place is named, and neither stops nor fills a process.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from checkpoints import blobs, gate, stores
from checkpoints.access import Reason, SystemPrincipal
from checkpoints.errors import CheckpointsError, MissingObject
from checkpoints.models import Blob
from checkpoints.stores import names
from tests.tampering import tamper

pytestmark = [pytest.mark.django_db, pytest.mark.owner]


@pytest.fixture
def blob(make_thread, alice) -> Blob:
    return blobs.put(
        make_thread(owner=alice).thread, b"x" * 99, media_type="text/plain"
    )


@pytest.fixture
def file(blob, blob_dir) -> Iterator[Path]:
    """Where the blob's object was. A test that waits for ever is ended."""
    file = blob_dir / blob.object_name
    file.unlink()
    signal.alarm(30)
    yield file
    signal.alarm(0)


def pipe(file: Path) -> None:
    os.mkfifo(file)


def endless(file: Path) -> None:
    file.symlink_to("/dev/zero")


def elsewhere(file: Path) -> None:
    file.symlink_to(__file__)


def folder(file: Path) -> None:
    file.mkdir()


def door(file: Path) -> None:
    # The path of a socket has to be short.
    here = os.getcwd()
    os.chdir(file.parent)
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(file.name)
    finally:
        os.chdir(here)


def large(file: Path) -> None:
    with file.open("wb") as opened:
        opened.truncate(names.MAX_OBJECT + 1)  # a hole: it takes no room


PUT: list[Callable[[Path], None]] = [pipe, endless, elsewhere, folder, door, large]


@pytest.mark.parametrize("put", PUT)
def test_what_is_no_object_of_ours_is_refused(blob, file, put):
    put(file)
    with pytest.raises(MissingObject, match=r"is not a file|are too many"):
        stores.configured().read(blob.object_name)


@pytest.mark.parametrize("put", PUT)
def test_it_is_named_and_the_next_thread_is_looked_at(blob, file, put, make_thread):
    put(file)
    other = blobs.put(make_thread().thread, b"y" * 99, media_type="text/plain")
    said = StringIO()
    with pytest.raises(CommandError, match="1 of them bad"):
        call_command("verify_checkpoints", stdout=said)
    assert f"checkpoints.blob {blob.pk}" in said.getvalue()
    assert str(other.pk) not in said.getvalue()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("object_name", "../../../etc/passwd"),
        ("object_name", "/dev/zero"),
        ("object_name", "BLOB"),
        ("object_name", ""),
        ("store", "ftp"),
        ("media_type", "text/html\r\nX: y"),
        ("size", 2**40),
        ("digest", b""),
    ],
)
def test_a_row_that_leads_elsewhere_is_named(blob, column, value):
    tamper(f"UPDATE checkpoints_blob SET {column} = %s", [value])  # noqa: S608  # ours
    # A store that is not configured may be an old one: its objects cannot be looked at.
    said = "were not looked at" if column == "store" else "1 of them bad"
    with pytest.raises(CommandError, match=said):
        call_command("verify_checkpoints", stdout=StringIO())
    row = Blob.objects.unscoped(Reason.TEST).select_related("thread").get()
    pass_ = gate.admit(
        SystemPrincipal("test", row.workspace_id), purpose="test", threads=[row.thread]
    )
    with pytest.raises(CheckpointsError):
        blobs.read(pass_, row)
