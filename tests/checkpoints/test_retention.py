"""Retention: what goes when, what protects it, and what is said afterwards."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db.models import Exists, OuterRef, Value

from checkpoints import gate
from checkpoints.access import Role
from checkpoints.clock import now
from checkpoints.db.session import DatabaseRole, acting_as, enter
from checkpoints.errors import NotPermitted, Pruned, Shredded
from checkpoints.log import archive, expire, retention, rules, source, tasks
from checkpoints.log.expire import NO_WORK, Work
from checkpoints.log.hydrate import read, state
from checkpoints.log.restore import restore
from checkpoints.models import (
    Archive,
    AuditEvent,
    Checkpoint,
    CheckpointDelta,
    DataKey,
    Deletion,
    Membership,
    RetentionPolicy,
    RetentionTask,
    Segment,
    Thread,
    ThreadInput,
)
from checkpoints.stores import configured
from tests.checkpoints.archives import age, graced, grow, say, states, stored
from tests.checkpoints.holding import take
from tests.conftest import as_owner
from tests.tampering import tamper

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("everything_visible"),
]


@pytest.fixture(autouse=True)
def usual_settings(settings):
    settings.RETENTION_DAYS = 30
    settings.RETENTION_GRACE_HOURS = 24


@pytest.fixture
def old(make_thread, alice) -> Thread:
    return age(grow(make_thread(owner=alice))[0].thread)


def here(thread: Thread) -> bool:
    thread.refresh_from_db()
    rows = CheckpointDelta.objects.filter(thread=thread).exists()
    assert rows == (thread.pruned_at is None)
    return rows


def test_an_old_thread_is_archived_and_after_its_grace_its_content_goes(old):
    assert retention.sweep(NO_WORK) == retention.Done(archived=1)
    assert here(old)
    assert not retention.sweep(NO_WORK)
    graced()
    assert retention.sweep(NO_WORK) == retention.Done(pruned=1)
    assert not here(old)
    assert not retention.sweep(NO_WORK)
    assert AuditEvent.objects.filter(action="prune", object_id=old.pk).count() == 1


def test_a_young_thread_stays(make_thread):
    age(make_thread().thread, days=29)
    assert not retention.sweep(NO_WORK)


def test_a_dry_run_changes_nothing(old):
    [report] = rules.forecast(old.workspace_id, NO_WORK)
    assert report.due == [old.pk]
    assert rules.size_of(report.due) > 1000
    assert not Archive.objects.exists()
    assert here(old)


@pytest.mark.parametrize(
    ("column", "reason"), [("pinned", expire.PINNED), ("legal_hold", expire.HELD)]
)
def test_pins_and_holds_protect_before_and_after_archiving(old, column, reason):
    Thread.objects.filter(pk=old.pk).update(**{column: True})
    assert not retention.sweep(NO_WORK)
    [report] = rules.forecast(old.workspace_id, NO_WORK)
    assert (report.due, report.kept) == ([], {reason: 1})
    Thread.objects.filter(pk=old.pk).update(**{column: False})
    retention.sweep(NO_WORK)
    graced()
    Thread.objects.filter(pk=old.pk).update(**{column: True})
    assert not retention.sweep(NO_WORK)
    assert here(old)
    with pytest.raises(NotPermitted, match=reason):
        expire.prune(Archive.objects.get())
    with pytest.raises(NotPermitted, match=reason):
        expire.shred(old.pk)
    assert here(old)


def test_what_is_not_over_protects(old, make_thread):
    said = ThreadInput.objects.filter(thread=OuterRef("pk"))
    work = Work(agent=Value(""), busy=Exists(said))
    branch = old.branches.earliest("created_at")
    message = ThreadInput(workspace=old.workspace, thread=old, branch=branch)
    message.content = gate.seal(message, "content", "wait")
    message.save()
    assert not retention.sweep(work)
    [report] = rules.forecast(old.workspace_id, work)
    assert report.kept == {expire.BUSY: 1}
    assert retention.sweep(NO_WORK)


def test_a_branch_that_is_held_protects(old):
    archived = archive.write(old.pk)
    branch = old.branches.earliest("created_at")
    take(branch)
    with pytest.raises(NotPermitted, match="not over"):
        expire.prune(archived)


def test_the_agents_own_policy_wins(old, make_thread):
    other = age(make_thread(title="other").thread)
    title = Value("desk")
    work = Work(agent=title, busy=Value(False))
    with as_owner():
        RetentionPolicy.objects.create(workspace=old.workspace, agent="desk")
        RetentionPolicy.objects.create(workspace=old.workspace, keep_days=1)
    assert not retention.sweep(work)
    assert retention.sweep(NO_WORK).archived == 2
    assert here(other)


def test_a_thread_that_goes_on_in_its_grace_keeps_everything(old):
    retention.sweep(NO_WORK)
    say(old.branches.earliest("created_at"), "one more")
    graced()
    assert retention.sweep(NO_WORK) == retention.Done(removed=1)
    assert here(old)
    assert not list(stored_names())


def test_an_archive_that_was_lost_or_damaged_in_its_grace_removes_nothing(
    old, settings
):
    archived = archive.write(old.pk)
    [part] = settings.BLOB_DIR.rglob("*.zst")
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    assert not expire.prune(archived)
    assert here(old)
    archived = archive.write(old.pk)
    source.delete(archived.store, archived.object_name)
    assert not expire.prune(archived)
    assert here(old)


def stored_names() -> Any:
    return configured().names("archive/")


def test_reading_says_when_and_by_whom_it_went(old, alice):
    branch = old.branches.earliest("created_at")
    archived = archive.write(old.pk, by=alice)
    expire.prune(archived, by=alice)
    pass_ = gate.admit(alice, purpose="test", threads=[old])
    for look in (read, state):
        with pytest.raises(Pruned, match=r"was archived on 20.* by Alice; .* restore"):
            look(pass_, branch)


def test_a_restored_thread_counts_from_then(old):
    archived = archive.write(old.pk)
    expire.prune(archived)
    restore(stored(archived))
    assert not retention.sweep(NO_WORK)


def test_shredding_is_for_good_for_one_thread_and_its_archives(
    old, make_thread, alice, bob
):
    other = grow(make_thread(title="other"))[0].thread
    before = states(other.pk)
    archived = archive.write(old.pk)
    stolen = list(stored(archived).packed())
    gone = expire.shred(old.pk, by=bob, reason="the traveller asked for it")
    assert expire.shred(old.pk, by=alice) == gone
    assert (gone.what, gone.by_id) == ("shredded", bob.user_id)
    assert not here(old)
    assert not list(stored_names())
    assert stolen
    archived.refresh_from_db()
    assert archived.status == "deleted"
    for key in DataKey.objects.filter(thread=old):
        assert key.wrapped is None
    pass_ = gate.admit(alice, purpose="test", threads=[old])
    assert pass_.open(gone, "reason") == "the traveller asked for it"
    for look in (
        lambda: read(pass_, old.branches.earliest("created_at")),
        lambda: pass_.open(old, "title"),
        lambda: archive.write(old.pk),
    ):
        with pytest.raises((Shredded, NotPermitted), match=r"by Bob|is not here"):
            look()
    assert states(other.pk) == before


def test_no_archive_brings_back_what_was_shredded(old, settings, tmp_path):
    archived = archive.write(old.pk)
    kept = tmp_path / "kept.jsonl.zst"
    source.export(archived.store, archived.object_name, kept)
    expire.shred(old.pk)
    with pytest.raises(Shredded, match="the retention policy"):
        restore(source.filed(kept))
    assert not here(old)


def test_a_policy_may_delete_at_once_or_after_the_archives_time(old, make_thread):
    with as_owner():
        RetentionPolicy.objects.create(
            workspace=old.workspace, keep_days=10, then="archive", archive_days=90
        )
    retention.sweep(NO_WORK)
    graced()
    assert retention.sweep(NO_WORK).pruned == 1
    Archive.objects.update(pruned_at=now() - timedelta(days=91))
    assert retention.sweep(NO_WORK).shredded == 1
    with as_owner():
        RetentionPolicy.objects.update(then="delete")
    second = age(make_thread().thread)
    assert retention.sweep(NO_WORK).shredded == 1
    assert not here(second)
    assert set(Deletion.objects.values_list("what", flat=True)) == {
        "archived",
        "shredded",
    }


def test_a_damaged_thread_keeps_its_rows_and_stops_no_other(old, make_thread):
    other = age(make_thread().thread, days=35)
    victim = CheckpointDelta.objects.filter(thread=old).earliest("step")
    assert tamper(
        "UPDATE checkpoints_checkpointdelta SET record = %s WHERE checkpoint_id = %s",
        [bytes(victim.record)[:-1] + b"x", victim.pk],
    )
    assert retention.sweep(NO_WORK) == retention.Done(archived=1, failed=1)
    assert not retention.sweep(NO_WORK)
    graced()
    retention.sweep(NO_WORK)
    assert here(old)
    assert not here(other)


@pytest.fixture
def admin(join):
    return join("ada", Role.ADMIN)


def test_a_worker_does_what_a_person_asked_for(old, alice, admin):
    before = states(old.pk)
    assert tasks.ask("archive", by=alice, thread=old)
    assert tasks.ask("restore", by=alice, thread=old) is None  # one at a time
    assert tasks.work_off(NO_WORK) == 1
    assert not here(old)
    assert tasks.ask("restore", by=alice, thread=old)
    tasks.work_off(NO_WORK)
    assert states(old.pk) == before
    tasks.ask("shred", by=admin, thread=old, reason="by request")
    tasks.work_off(NO_WORK)
    assert not here(old)
    assert [task.outcome for task in RetentionTask.objects.order_by("asked_at")] == [
        "done"
    ] * 3
    pass_ = gate.admit(admin, purpose="test", threads=[old])
    gone = Deletion.objects.get(what="shredded")
    assert pass_.open(gone, "reason") == "by request"


def test_who_may_not_any_more_is_refused(old, alice, admin, viewer):
    for who, what in ((viewer, "archive"), (alice, "shred"), (alice, "sweep")):
        with pytest.raises(NotPermitted):
            tasks.ask(what, by=who, thread=old)
    tasks.ask("shred", by=admin, thread=old)
    with as_owner():
        Membership.objects.filter(user_id=admin.user_id).update(role="viewer")
    tasks.work_off(NO_WORK)
    task = RetentionTask.objects.get()
    assert (task.outcome, task.answer) == (
        "refused",
        "Only an admin of the workspace does this.",
    )
    assert here(old)


@pytest.mark.parametrize("what", ["shred", "archive", "restore"])
def test_what_an_admin_asks_of_another_workspaces_thread_is_refused(old, other, what):
    """Whoever runs SQL as the web role is held by row security to the task's workspace."""
    with acting_as(DatabaseRole.WEB):
        enter(other.workspace_id)
        RetentionTask.objects.bulk_create(
            [
                RetentionTask(
                    workspace_id=other.workspace_id,
                    thread_id=old.pk,
                    what=what,
                    by_id=other.user_id,
                )
            ]
        )
    tasks.work_off(NO_WORK)
    task = RetentionTask.objects.get()
    assert task.outcome == "refused"
    assert "not in the workspace" in task.answer
    assert here(old)


@pytest.mark.parametrize("bad", ["longer", "shorter", "gone"])
def test_a_restore_that_is_asked_for_looks_at_the_archive_first(old, alice, bad):
    """A worker would read a file that unpacks to very much, and do nothing else."""
    tasks.ask("archive", by=alice, thread=old)
    tasks.work_off(NO_WORK)
    [file] = settings.BLOB_DIR.rglob("*.zst")
    data = file.read_bytes()
    file.unlink()
    if bad != "gone":
        file.write_bytes(data[:-1] if bad == "shorter" else data + data)
    tasks.ask("restore", by=alice, thread=old)
    tasks.work_off(NO_WORK)
    task = RetentionTask.objects.get(what="restore")
    assert task.outcome == "refused"
    assert task.answer == "Its archive is not what was written, or is missing."


def test_an_admin_runs_retention_now(old, admin):
    tasks.ask("sweep", by=admin)
    tasks.work_off(NO_WORK)
    assert RetentionTask.objects.get().answer == "1 archived."
    assert Checkpoint.objects.exists()
    assert not Segment.objects.exists()
