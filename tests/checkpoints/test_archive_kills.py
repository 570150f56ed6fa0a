"""Killed anywhere while archiving, pruning, shredding or restoring, it goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from checkpoints.access import Reason, unscoped
from checkpoints.blobs import care, put
from checkpoints.log import archive, source
from checkpoints.log.source import keys_path as keys_of
from checkpoints.models import (
    Archive,
    Blob,
    CheckpointDelta,
    DataKey,
    Deletion,
    RetentionPolicy,
    Thread,
)
from checkpoints.stores import configured
from tests.checkpoints.archives import (
    ROOT,
    database,
    empty_database,
    grow,
    looking_at,
    manage,
    states,
)
from tests.conftest import as_owner

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def command(settings, tmp_path) -> Command:
    """Runs manage.py on the test's database; at each of `points` it dies, once."""
    settings.BLOB_DIR = tmp_path / "blobs"

    def command(
        *words: str, points: tuple[str, ...] = (), on: str = "", dies: bool = False
    ) -> subprocess.CompletedProcess[str]:
        name = on or str(connection.settings_dict["NAME"])
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=ROOT,
            env={
                **os.environ,
                "DATABASE_URL": database(name),
                "BLOB_DIR": str(settings.BLOB_DIR),
                "HOLDPOINT_FAILPOINTS": ",".join(points),
                "HOLDPOINT_FAILPOINTS_REACHED": str(tmp_path),
            },
            text=True,
            capture_output=True,
        )
        expected = -signal.SIGKILL if dies else 0
        assert done.returncode == expected, done.stdout + done.stderr
        return done

    return command


@pytest.fixture
def thread(make_thread, alice) -> Iterator[Thread]:
    with unscoped(Reason.TEST):
        yield grow(make_thread(owner=alice))[0].thread


ARCHIVING = (
    "archive: keys written",
    "archive: written",
    "archive: read back",
    "prune: before commit",
    "prune: committed",
)
RESTORING = (
    "restore: before skeleton",
    "restore: skeleton",
    "restore: verified",
    "restore: inserted",
    "restore: before commit",
)


@pytest.mark.unmeasured
def test_archiving_goes_on_wherever_it_was_killed(thread, command):
    before = states(thread.pk)
    archive_it = ("archive", "thread", str(thread.pk), "--prune")
    for _ in ARCHIVING[:-1]:
        command(*archive_it, points=ARCHIVING, dies=True)
        assert states(thread.pk) == before
    command(*archive_it, points=ARCHIVING, dies=True)
    command(*archive_it, points=ARCHIVING)
    assert not CheckpointDelta.objects.exists()
    [archived] = Archive.objects.exclude(status="deleted")
    assert archived.status == "pruned"
    assert Deletion.objects.count() == 1
    # What the killed attempts had written is not left lying about.
    names = {name.rpartition("/")[0] for name in configured().names("archive/")}
    assert names == {archived.object_name}
    command("archive", "restore", str(thread.pk))
    assert states(thread.pk) == before


@pytest.mark.unmeasured
def test_restoring_into_an_empty_database_goes_on_wherever_it_was_killed(
    thread, command, tmp_path
):
    before = states(thread.pk)
    archived = archive.write(thread.pk)
    kept = tmp_path / "kept.jsonl.zst"
    source.export(archived.store, archived.object_name, kept)
    restore_it = ("archive", "restore", str(kept))
    with empty_database() as name:
        for _ in RESTORING:
            command(*restore_it, points=RESTORING, on=name, dies=True)
        assert "steps restored" in command(*restore_it, on=name).stdout
        assert "is here already" in command(*restore_it, on=name).stdout
        with looking_at(name):
            assert states(thread.pk) == before
        assert "1 threads" in command("verify_checkpoints", on=name).stdout


SHREDDING = ("shred: before commit", "shred: committed", "discard: objects gone")
RESTORING_HERE = ("restore: verified", "restore: inserted", "restore: before commit")


@pytest.fixture
def blob(thread) -> Blob:
    return put(thread, b"x" * 100_000, media_type="text/plain")


def swept() -> list[str]:
    """Objects of blobs, after those that nobody refers to were swept."""
    list(care.sweep(older_than=timedelta()))
    return list(configured().names("blob/"))


@pytest.mark.unmeasured
def test_shredding_goes_on_wherever_it_was_killed(thread, blob, command):
    before = states(thread.pk)
    archive.write(thread.pk)
    words = ("destroy", str(thread.pk), "--by", "alice", "--reason", "Asked for.")
    shred_it = ("keys", *words, "--yes")
    command(*shred_it, points=SHREDDING, dies=True)  # before the commit: nothing went
    assert states(thread.pk) == before
    assert not Deletion.objects.exists()
    for _ in SHREDDING[1:]:
        command(*shred_it, points=SHREDDING, dies=True)
        assert not CheckpointDelta.objects.exists()
        assert not DataKey.objects.filter(thread=thread, destroyed_at=None).exists()
    assert "was shredded on" in command(*shred_it, points=SHREDDING).stdout
    gone = Deletion.objects.get()
    assert (gone.what, gone.steps) == ("shredded", thread.checkpoints.count())
    assert Archive.objects.get().status == "deleted"
    assert list(configured().names("archive/")) == []
    assert swept() == []


@pytest.mark.unmeasured
def test_a_policy_shreds_wherever_it_was_killed(thread, command):
    with as_owner():
        RetentionPolicy.objects.create(
            workspace=thread.workspace, keep_days=0, then="delete"
        )
    points = SHREDDING[:2]
    for _ in points:
        command("retention", "run", points=points, dies=True)
    command("retention", "run", points=points)
    assert Deletion.objects.get().what == "shredded"
    assert not CheckpointDelta.objects.exists()


@pytest.mark.unmeasured
def test_restoring_where_it_came_from_goes_on_wherever_it_was_killed(
    thread, blob, command
):
    before = states(thread.pk)
    command("archive", "thread", str(thread.pk), "--prune")
    restore_it = ("archive", "restore", str(thread.pk))
    for _ in RESTORING_HERE:
        command(*restore_it, points=RESTORING_HERE, dies=True)
        thread.refresh_from_db()
        assert thread.pruned_at is not None
        assert not CheckpointDelta.objects.exists()
        assert not Blob.objects.exists()
    assert "steps restored" in command(*restore_it, points=RESTORING_HERE).stdout
    assert states(thread.pk) == before
    assert Archive.objects.get().status == "restored"
    # Killed attempts had written the blob's object, too.
    assert swept() == [Blob.objects.get().object_name]
    command("verify_checkpoints")


def test_an_archive_is_listed_and_exported(thread, command, tmp_path):
    command("archive", "thread", str(thread.pk))
    kept = tmp_path / "kept.jsonl.zst"
    command("archive", "export", str(thread.pk), str(kept))
    assert Path(f"{kept}.keys").read_text().startswith("{")
    assert "restored" not in command("archive", "list").stdout
    assert (
        Archive.objects.get().object_name
        in command("archive", "list", "--store").stdout
    )


def test_an_export_is_its_owners_alone_and_can_be_begun_again(
    thread, command, tmp_path
):
    command("archive", "thread", str(thread.pk))
    kept = tmp_path / "kept.jsonl.zst"
    theirs = tmp_path / "kept.jsonl.zst.part"
    theirs.write_text("somebody's own")
    export_it = ("archive", "export", str(thread.pk), str(kept))
    command(*export_it)
    assert [file.stat().st_mode & 0o077 for file in (kept, keys_of(kept))] == [0, 0]
    assert theirs.read_text() == "somebody's own"
    kept.unlink()  # as if it was cut short between the two
    command(*export_it)
    assert kept.exists()
    for there in (kept, keys_of(kept)):
        (tmp_path / "other").mkdir(exist_ok=True)
        other = tmp_path / "other" / there.name
        other.write_text("x")
        refused = manage(
            *("archive", "export", str(thread.pk), str(tmp_path / "other" / kept.name)),
            database=str(connection.settings_dict["NAME"]),
            code=1,
            BLOB_DIR=str(settings.BLOB_DIR),
        )
        assert f"{other} is there already." in refused.stderr
        assert other.read_text() == "x"
        other.unlink()


def test_an_export_onto_a_full_disk_says_so_and_leaves_nothing(thread, tmp_path):
    archived = archive.write(thread.pk)
    folder = tmp_path / "full"
    folder.mkdir()
    done = subprocess.run(
        [
            # -B: what it compiled would be cut off, too, and break whoever comes next.
            *("prlimit", "--fsize=64", sys.executable, "-B", "manage.py"),
            *("archive", "export", str(archived.pk), str(folder / "kept")),
        ],
        cwd=ROOT,
        env={
            **os.environ,
            "DATABASE_URL": database(str(connection.settings_dict["NAME"])),
            "BLOB_DIR": str(settings.BLOB_DIR),
        },
        text=True,
        capture_output=True,
    )
    assert done.returncode == 1
    assert "cannot be written (File too large). Make room" in done.stderr
    assert list(folder.iterdir()) == []
