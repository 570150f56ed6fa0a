"""Object stores: a directory and an S3 bucket behave alike."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from checkpoints import stores
from checkpoints.errors import MissingObject, StoreFull, StoreUnavailable
from checkpoints.stores import names
from tests.checkpoints.stores import *  # noqa: F403  # fixtures


@pytest.fixture
def local() -> stores.Store:
    return stores.configured()


@pytest.mark.parametrize("data", [b"", b"\x00\xff" * 5, os.urandom(3_000_000)])
def test_what_is_written_is_read(store, data):
    name = stores.new_name("blob")
    store.write(name, data)
    assert store.read(name) == data
    assert stores.of(store.kind).read(name) == data


def test_nothing_is_ever_overwritten(store):
    name = stores.new_name("blob")
    store.write(name, b"first")
    with pytest.raises(FileExistsError):
        store.write(name, b"second")
    assert store.read(name) == b"first"


def test_names_are_random_and_short_enough_for_their_column():
    made = {stores.new_name("archive") for _ in range(1000)}
    assert len(made) == 1000
    assert all(len(name) <= names.MAX_NAME for name in made)
    with pytest.raises(ValueError, match="is not a kind"):
        stores.new_name("../blob")


def test_names_are_listed_by_prefix_and_age(store):
    blobs = sorted(stores.new_name("blob") for _ in range(3))
    for name in [*blobs, stores.new_name("archive")]:
        store.write(name, b"x")
    assert sorted(store.names("blob/")) == blobs
    assert len(list(store.names())) == 4
    assert list(store.names(older_than=timedelta(hours=1))) == []


def test_what_is_deleted_is_gone(store):
    name = stores.new_name("blob")
    store.write(name, b"x")
    assert store.delete(name)
    assert not store.delete(name)
    with pytest.raises(MissingObject, match=name):
        store.read(name)


def test_a_store_that_works_passes_its_check_and_keeps_nothing_of_it(store):
    store.check()
    assert list(store.names()) == []


@pytest.mark.parametrize(
    "name", ["../x", "/etc/passwd", "a/../b", "", "a//b", "A", "a/", "x" * 101, ".x"]
)
def test_a_name_leads_nowhere_else(store, name):
    for use in (store.read, store.delete, lambda name: store.write(name, b"")):
        with pytest.raises(ValueError, match="not a name"):
            use(name)


def test_an_object_has_a_largest_size(store, monkeypatch):
    monkeypatch.setattr(names, "MAX_OBJECT", 10)
    with pytest.raises(ValueError, match="11 bytes are too many"):
        store.write(stores.new_name("blob"), b"x" * 11)


def test_objects_are_private_to_their_owner(local, tmp_path):
    name = stores.new_name("blob")
    local.write(name, b"x")
    file = tmp_path / "blobs" / name
    assert file.stat().st_mode & 0o077 == 0
    assert file.parent.stat().st_mode & 0o077 == 0


def test_a_full_disk_is_said_and_leaves_nothing_behind(local, small_files):
    name = stores.new_name("blob")
    with pytest.raises(StoreFull, match=r"no room left in the directory .*Free some"):
        local.write(name, b"x" * 100_000)
    assert list(local.names()) == []
    local.write(name, b"x" * 1000)  # the name is not used up


def test_a_directory_that_may_not_be_written_is_said(settings, tmp_path):
    (tmp_path / "file").write_text("")
    settings.BLOB_DIR = tmp_path / "file"  # root may write any directory
    with pytest.raises(StoreUnavailable, match=r"cannot be used \("):
        stores.configured().check()


def test_a_directory_that_is_not_there_has_no_objects(local, blob_dir):
    with pytest.raises(MissingObject, match=str(blob_dir)):
        local.read(stores.new_name("blob"))
    assert list(local.names()) == []


def test_what_a_killed_writer_left_is_listed_for_the_sweep(local, tmp_path):
    name = stores.new_name("blob")
    local.write(name, b"x")
    left = f"{name}.part-0123456789abcdef"
    (tmp_path / "blobs" / left).write_bytes(b"half")
    assert list(local.names("blob/")) == [name, left]
    assert local.delete(left)


def test_an_object_stays_in_the_store_that_it_was_written_to(local, settings, use_s3):
    settings.BLOB_STORE = None
    name = stores.new_name("blob")
    stores.configured().write(name, b"x")
    settings.BLOB_STORE = ("holdpoint", "")
    assert stores.configured().kind == "s3"
    assert stores.of("local").read(name) == b"x"


def test_a_store_that_is_not_configured_is_named(settings):
    settings.BLOB_STORE = None
    with pytest.raises(StoreUnavailable, match="the store 's3', which is not config"):
        stores.of("s3")


def test_a_bucket_that_is_not_there_is_said(use_s3, settings):
    settings.BLOB_STORE = ("elsewhere", "")
    with pytest.raises(StoreUnavailable, match=r"refused \(NoSuchBucket\)"):
        stores.configured().check()


def test_a_server_that_does_not_answer_is_said(use_s3, settings):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        settings.BLOB_S3_ENDPOINT = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(StoreUnavailable, match="does not answer"):
        stores.configured().read(stores.new_name("blob"))


@pytest.fixture
def loses_answers(s3_server) -> Iterator[str]:
    """The address of an S3 server that does what it is asked, and fails to say so once."""
    lost: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            behind = HTTPConnection(s3_server.removeprefix("http://"))
            behind.request(self.command, self.path, body, dict(self.headers.items()))
            answer = behind.getresponse()
            content, status = answer.read(), answer.status
            behind.close()
            if self.command == "PUT" and not lost:
                lost.append(self.path)
                status = 500
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_PUT = do_GET  # noqa: N815

        def log_message(self, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_an_answer_that_was_lost_is_no_name_that_is_taken(
    use_s3, settings, loses_answers
):
    settings.BLOB_S3_ENDPOINT = loses_answers
    name = stores.new_name("blob")
    stores.configured().write(name, b"first")
    assert stores.configured().read(name) == b"first"
    with pytest.raises(FileExistsError):
        stores.configured().write(name, b"second")
    assert stores.configured().read(name) == b"first"


def test_an_odd_endpoint_is_said(use_s3, settings):
    settings.BLOB_S3_ENDPOINT = "not an address"
    with pytest.raises(StoreUnavailable, match="cannot be made"):
        stores.configured().check()


def test_without_boto3_a_bucket_names_what_to_install():
    code = (
        "import sys; sys.modules['boto3'] = None\n"
        "from checkpoints.stores.s3 import S3Store\n"
        "S3Store('b', '', endpoint=None, region=None).check()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install -r requirements-s3.txt" in done.stderr
