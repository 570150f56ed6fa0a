"""Archiving, pruning and shredding, while somebody else is at the same thread."""

from __future__ import annotations

import pytest
from django.db import transaction

from checkpoints import gate
from checkpoints.access import Role
from checkpoints.db import locks
from checkpoints.errors import BeingArchived, Fenced, NotPermitted, Pruned
from checkpoints.keys.rotation import rotate_thread_keys
from checkpoints.log import (
    archive,
    archive_care,
    expire,
    holds,
    retention,
    source,
    tasks,
)
from checkpoints.log.append import NewStep, commit, writer
from checkpoints.log.expire import NO_WORK
from checkpoints.log.pack import pack_branch
from checkpoints.log.restore import restore
from checkpoints.log.threads import fork
from checkpoints.models import (
    Archive,
    Branch,
    CheckpointDelta,
    RetentionTask,
    Segment,
    Thread,
    ThreadInput,
)
from checkpoints.pure import ops
from checkpoints.stores import configured
from tests.checkpoints import packing
from tests.checkpoints.archives import age, graced, say, states, stored
from tests.conftest import as_owner
from tests.elsewhere import Elsewhere, uncommitted

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("everything_visible"),
]


@pytest.fixture(autouse=True)
def usual_settings(settings):
    settings.RETENTION_DAYS = 30
    settings.RETENTION_GRACE_HOURS = 24


@pytest.fixture
def branch(make_thread, alice) -> Branch:
    return say(make_thread(owner=alice), "one", "two")


def kept() -> set[str]:
    return {name.rpartition("/")[0] for name in configured().names("archive/")}


def test_a_thread_is_archived_by_one_process_at_a_time(branch, alice):
    thread = age(branch.thread)
    with locks.alone(locks.ARCHIVE, str(thread.pk)):  # another process is at it
        begun = Archive.objects.create(
            workspace=thread.workspace, thread=thread, store="local", object_name="a/b"
        )
        source.Parts(configured(), begun.object_name).close()
        with pytest.raises(BeingArchived):
            archive.write(thread.pk)
        assert not retention.sweep(NO_WORK)
        tasks.ask("archive", by=alice, thread=thread)
        assert tasks.work_off(NO_WORK) == 0
        assert list(configured().names("a/b"))  # what it has written is left alone
    assert RetentionTask.objects.get().outcome == "open"
    assert tasks.work_off(NO_WORK) == 1
    assert RetentionTask.objects.get().outcome == "done"


def test_of_four_that_archive_a_thread_at_once_one_does(branch):
    there = [Elsewhere(lambda: archive.write(branch.thread_id)) for _ in range(4)]
    made = []
    for each in there:
        try:
            made.append(each.result())
        except BeingArchived:
            pass
    assert made
    [archived] = Archive.objects.all()
    assert {each.pk for each in made} == {archived.pk}
    assert archived.status == "verified"
    assert kept() == {archived.object_name}


@pytest.mark.parametrize("status", ["writing", "verified"])
def test_who_looked_too_early_discards_nothing(branch, status):
    """The only copy of a thread's content: its archive since it was pruned."""
    before = states(branch.thread_id)
    archived = archive.write(branch.thread_id)
    seen = Archive.objects.get()
    seen.status = status
    assert expire.prune(archived)
    assert not archive_care.discard(seen)
    assert not archive_care.begin_anew(seen)
    restore(stored(archived))
    assert states(branch.thread_id) == before


def test_no_key_is_written_beside_an_archive_that_was_shredded(branch):
    archived = archive.write(branch.thread_id)
    configured().delete(source.keys_name(archived.object_name))
    expire.shred(branch.thread_id)
    archive_care.write_keys_anew(archived)
    assert kept() == set()


def test_who_was_about_to_append_when_the_content_went_appends_nothing(branch):
    at = writer(branch)
    expire.prune(archive.write(branch.thread_id))
    with pytest.raises(Fenced):
        commit(at, NewStep("edit", [ops.put("", "goal", "late")], "late"))
    assert not CheckpointDelta.objects.exists()


def test_a_fork_waits_for_what_goes_and_is_refused(branch):
    first = branch.checkpoints.get(step=1)
    archived = archive.write(branch.thread_id)
    with uncommitted(lambda: expire.prune(archived)):
        forking = Elsewhere(
            lambda: fork(first, name="late", by_id=None, ops=[ops.put("", "goal", "x")])
        )
        forking.wait_until_it_waits()
    with pytest.raises(Pruned, match="was archived on"):
        forking.result()
    assert Branch.objects.count() == 1
    assert not CheckpointDelta.objects.exists()


def test_what_was_forked_meanwhile_keeps_the_content(branch):
    first = branch.checkpoints.get(step=1)
    archived = archive.write(branch.thread_id)
    with uncommitted(lambda: fork(first, name="just now", by_id=None)):
        pruning = Elsewhere(lambda: expire.prune(archived))
        pruning.wait_until_it_waits()
    assert pruning.result() is False
    assert len({name for name, _ in states(branch.thread_id)}) == 2


def test_a_message_that_comes_while_content_goes_locks_nobody_out(branch, alice):
    """It holds the branch, and its row names the thread: as pruning, the other way."""
    archived = archive.write(branch.thread_id)
    said = ThreadInput(
        workspace_id=branch.workspace_id, thread_id=branch.thread_id, branch=branch
    )
    said.content = gate.seal(said, "content", "And a hotel.")
    with transaction.atomic():
        Branch.objects.select_for_update(no_key=True).get(pk=branch.pk)
        pruning = Elsewhere(lambda: expire.prune(archived))
        pruning.wait_until_it_waits()
        said.save(force_insert=True)
    assert pruning.result() is False  # the thread went on
    assert CheckpointDelta.objects.exists()


@pytest.mark.parametrize("rewrite", [False, True])
def test_what_is_packed_while_content_goes_does_not_come_back(branch, rewrite):
    packing.grow(branch, 70)
    if rewrite:
        pack_branch(branch.pk)
        rotate_thread_keys(branch.thread_id)
    before = states(branch.thread_id)
    archived = archive.write(branch.thread_id)
    with uncommitted(lambda: expire.prune(archived)):
        packer = Elsewhere(lambda: pack_branch(branch.pk, rewrite=rewrite))
        packer.wait_until_it_waits()
    assert packer.result() == 0
    assert not Segment.objects.exists()
    restore(stored(archived))
    assert states(branch.thread_id) == before


def test_a_hold_that_comes_too_late_is_none(branch, join):
    admin = join("ada", Role.ADMIN)
    thread = branch.thread  # as it was read before
    expire.prune(archive.write(thread.pk))
    assert not holds.hold(thread, by=admin, reason="a lawsuit")
    thread.refresh_from_db()
    assert not thread.legal_hold


@pytest.mark.parametrize("column", ["pinned", "legal_hold"])
def test_threads_that_are_kept_keep_no_others_from_going(branch, make_thread, column):
    kept, other = age(branch.thread), make_thread(title="other").thread
    retention.sweep(NO_WORK)
    age(other)
    retention.sweep(NO_WORK)
    graced()
    Thread.objects.filter(pk=kept.pk).update(**{column: True})
    assert retention.sweep(NO_WORK, limit=1).pruned == 1
    other.refresh_from_db()
    assert other.pruned_at is not None
    with pytest.raises(NotPermitted):
        expire.prune(Archive.objects.get(thread=kept))


def test_a_task_whose_store_is_away_holds_up_no_other(branch, make_thread, alice):
    archived = archive.write(branch.thread_id)
    expire.prune(archived)
    with as_owner():
        Archive.objects.update(store="s3")  # not configured here
    other = make_thread(title="other").thread
    tasks.ask("restore", by=alice, thread=branch.thread)
    tasks.ask("archive", by=alice, thread=other)
    with pytest.raises(Exception, match="is not configured here"):
        tasks.work_off(NO_WORK)
    outcomes = RetentionTask.objects.order_by("asked_at").values_list("outcome")
    assert list(outcomes) == [("open",), ("done",)]
