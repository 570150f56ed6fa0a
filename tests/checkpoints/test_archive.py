"""Archives: written, read back, and restored, here and into an empty database."""

from __future__ import annotations

import pytest

from checkpoints.access import Reason, unscoped
from checkpoints.log import archive, expire, source
from checkpoints.log.restore import restore
from checkpoints.models import (
    Archive,
    Checkpoint,
    CheckpointDelta,
    Deletion,
    Segment,
    Thread,
    Workspace,
)
from tests.checkpoints.archives import empty_database, grow, looking_at, states

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def everything_visible(settings, tmp_path):
    settings.BLOB_DIR = tmp_path / "blobs"
    with unscoped(Reason.TEST):
        yield


@pytest.fixture
def thread(make_thread, alice) -> Thread:
    return grow(make_thread(owner=alice))[0].thread


def of(archived: Archive) -> source.Source:
    return source.stored(archived.store, archived.object_name)


def test_an_archive_is_verified_and_changes_nothing(thread):
    before = states(thread.pk)
    archived = archive.write(thread.pk)
    assert archived.status == "verified"
    assert archived.steps == Checkpoint.objects.count()
    assert archived.size > 0
    assert states(thread.pk) == before
    assert archive.write(thread.pk) == archived


def test_content_goes_and_comes_back_as_it_was(thread):
    before = states(thread.pk)
    rows = Checkpoint.objects.count()
    archived = archive.write(thread.pk)
    assert expire.prune(archived)
    assert not CheckpointDelta.objects.exists()
    assert not Segment.objects.exists()
    assert Checkpoint.objects.count() == rows
    thread.refresh_from_db()
    assert thread.pruned_at is not None
    [gone] = Deletion.objects.all()
    assert (gone.what, gone.steps) == ("archived", rows)

    restored = restore(of(archived))
    assert (restored.is_new, restored.steps) == (False, rows)
    thread.refresh_from_db()
    assert thread.pruned_at is None
    assert states(thread.pk) == before
    archived.refresh_from_db()
    assert archived.status == "restored"
    assert restore(of(archived)).was_here


@pytest.mark.owner  # `archive restore` makes a workspace and people
def test_an_empty_database_that_has_the_key_gets_everything_back(thread, alice):
    before = states(thread.pk)
    archived = archive.write(thread.pk)
    with empty_database() as name, looking_at(name):
        assert not Workspace.objects.exists()
        restored = restore(of(archived))
        assert restored.is_new
        assert states(thread.pk) == before
        there = Thread.objects.get(pk=thread.pk)
        assert there.pruned_at is None
        owner = there.owner
        assert owner is not None
        assert (owner.username, owner.is_active) == ("alice", False)
        assert not owner.has_usable_password()
        assert restore(of(archived)).was_here
