"""Archives: written, read back, and restored, here and into an empty database."""

from __future__ import annotations

import secrets

import pytest

from checkpoints import gate
from checkpoints.log import archive, expire
from checkpoints.log.restore import restore
from checkpoints.models import (
    Checkpoint,
    CheckpointDelta,
    Deletion,
    Segment,
    Thread,
    Workspace,
)
from tests.checkpoints.archives import empty_database, grow, looking_at, states, stored

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("everything_visible"),
]


@pytest.fixture
def thread(make_thread, alice) -> Thread:
    return grow(make_thread(owner=alice))[0].thread


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

    restored = restore(stored(archived))
    assert (restored.is_new, restored.steps) == (False, rows)
    thread.refresh_from_db()
    assert thread.pruned_at is None
    assert states(thread.pk) == before
    archived.refresh_from_db()
    assert archived.status == "restored"
    assert restore(stored(archived)).was_here


@pytest.mark.owner  # `archive restore` makes a workspace and people
def test_an_empty_database_that_has_the_key_gets_everything_back(thread, alice):
    before = states(thread.pk)
    archived = archive.write(thread.pk)
    with empty_database() as name, looking_at(name):
        assert not Workspace.objects.exists()
        restored = restore(stored(archived))
        assert restored.is_new
        assert states(thread.pk) == before
        there = Thread.objects.get(pk=thread.pk)
        assert there.pruned_at is None
        owner = there.owner
        assert owner is not None
        assert (owner.username, owner.is_active) == ("alice", False)
        assert not owner.has_usable_password()
        assert restore(stored(archived)).was_here


def test_two_long_values_of_one_row_are_each_put_together_again(thread):
    for column in ("title", "hold_reason"):  # in another order than their names'
        long = gate.seal(thread, column, secrets.token_hex(300_000))
        Thread.objects.filter(pk=thread.pk).update(**{column: long})
    assert archive.write(thread.pk).status == "verified"
