"""Orphans are swept, missing objects named, and the command says how things stand."""

from __future__ import annotations

import os
import time
from io import StringIO
from pathlib import Path
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command

from checkpoints import blobs, stores
from checkpoints.blobs import care
from checkpoints.models import Blob, Branch, StoreMark
from tests.checkpoints.stores import *  # noqa: F403  # fixtures
from tests.tampering import tamper

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("everything_visible")]


@pytest.fixture
def branch(make_thread, alice) -> Branch:
    return make_thread(owner=alice)


@pytest.fixture
def blob(branch) -> Blob:
    return blobs.put(branch.thread, b"kept", media_type="text/plain")


def age(directory: Path, days: float = 2) -> None:
    """As if everything had been written days ago."""
    then = time.time() - days * 24 * 60 * 60
    for path in directory.rglob("*"):
        os.utime(path, (then, then))


def said(*arguments: str) -> str:
    out = StringIO()
    call_command("blobs", *arguments, stdout=out)
    return out.getvalue()


def test_old_objects_without_a_row_go_and_nothing_else(blob, blob_dir):
    store = stores.configured()
    orphan, archive = stores.new_name("blob"), stores.new_name("archive")
    left = f"{orphan}.part-0123456789abcdef"
    for name in (orphan, archive, left):
        store.write(name, b"x")
    age(blob_dir)
    young = stores.new_name("blob")
    store.write(young, b"x")  # its row may come yet
    assert sum(care.sweep(dry_run=True), care.Swept()) == care.Swept(3, 2)
    assert sum(care.sweep(), care.Swept()) == care.Swept(3, 2)
    assert set(store.names("blob/")) == {blob.object_name, young}
    assert list(store.names("archive/")) == [archive]


def test_a_turn_looks_at_one_part(blob, blob_dir, monkeypatch):
    store = stores.configured()
    orphans = ["blob/aa/aa1", "blob/bb/bb1"]
    for name in orphans:
        store.write(name, b"x")
    age(blob_dir)
    monkeypatch.setattr("secrets.token_hex", lambda size: "aa")
    assert care.sweep_some() == care.Swept(1, 1)
    assert set(store.names("blob/")) == {blob.object_name, "blob/bb/bb1"}


def test_another_databases_objects_are_not_swept(blob, blob_dir):
    age(blob_dir)
    tamper("DELETE FROM checkpoints_blob")
    StoreMark.objects.update(mark=uuid4(), claimed_at=None)
    with pytest.raises(CommandError, match="belongs to another database"):
        call_command("blobs", "sweep")
    assert len(list(stores.configured().names("blob/"))) == 1


def test_the_command_says_how_things_stand(store, blob):
    status = said("status")
    assert f"{store.kind}: 1 blobs, 4 bytes," in status
    assert f"New objects go to {store.where}." in status
    assert "can be written and read" in status


def test_the_command_sweeps(blob, blob_dir):
    stores.configured().write(stores.new_name("blob"), b"x")
    age(blob_dir)
    assert "1 of them belong to no blob and would be" in said("sweep", "--dry-run")
    assert "2 objects a day old or older; 1 of them" in said("sweep")
    assert "1 objects a day old or older; 0 of them" in said("sweep")


def test_the_command_takes_over_a_store_that_was_moved(blob, settings, tmp_path):
    settings.BLOB_DIR = settings.BLOB_DIR.rename(tmp_path / "moved")
    said("status")  # the mark moved with it
    settings.BLOB_DIR = tmp_path / "empty"
    with pytest.raises(CommandError, match="it has no mark"):
        said("status")
    assert str(tmp_path / "empty") in said("adopt")
    assert "can be written and read" in said("status")


def test_a_worker_that_does_not_reach_the_store_does_not_start(
    blob, settings, tmp_path
):
    settings.BLOB_DIR = tmp_path / "another machine's"
    with pytest.raises(CommandError, match="Mount the shared directory here"):
        call_command("worker")
