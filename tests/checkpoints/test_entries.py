"""The store: who sees what, versions that are never lost, ends, and what is left behind."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from threading import Barrier, Thread
from typing import Any
from uuid import uuid4

import pytest
from django.db import IntegrityError, connection, transaction

from checkpoints import entries, entries_care, gate
from checkpoints.access import Reason, RunPrincipal, UserPrincipal, unscoped
from checkpoints.clock import now
from checkpoints.entries import Scope
from checkpoints.errors import (
    DecryptionError,
    EntryConflict,
    InvalidEntry,
    NotPermitted,
    Unscoped,
)
from checkpoints.grants import grant_for
from checkpoints.models import AuditEvent, Entry, EntryLock, EntryVersion, Grant
from checkpoints.pure.names import Name, name
from tests.conftest import as_owner

USER, WORKSPACE = Scope.USER, Scope.WORKSPACE
SEAT = name(["travellers", "marsh"], "seat")

pytestmark = pytest.mark.django_db(transaction=True)


def value(by, scope=USER, of: Name = SEAT):
    found = entries.get(by, scope, of)
    return found and found.value


def names(listed) -> list[str]:
    return [one.name.path for one in listed.found]


def running(by: UserPrincipal, branch) -> RunPrincipal:
    """A run that acts for this person on the branch's thread."""
    grant = grant_for(by, branch.thread_id)
    return RunPrincipal(uuid4(), by.workspace_id, branch.thread_id, grant.pk)


def events(action: str) -> list[dict[str, Any]]:
    found = AuditEvent.objects.unscoped(Reason.TEST).filter(action=action)
    return [event.detail for event in found.order_by("position")]


# Versions


def test_what_is_put_is_got_and_each_put_is_a_version(alice):
    first = entries.put(alice, USER, SEAT, "aisle")
    second = entries.put(alice, USER, SEAT, {"row": 12}, expected=1)
    assert (first.version, second.version) == (1, 2)
    assert value(alice) == {"row": 12}
    kept = entries.history(alice, second.entry)
    assert [(one.row.version, one.value) for one in kept] == [
        (2, {"row": 12}),
        (1, "aisle"),
    ]
    assert [entries.who(one.row) for one in kept] == ["Alice", "Alice"]


@pytest.mark.parametrize("expected", [0, 1, 3])
def test_who_has_not_seen_the_newest_version_writes_nothing(alice, bob, expected):
    entries.put(alice, WORKSPACE, SEAT, "aisle")
    entries.put(bob, WORKSPACE, SEAT, "window", expected=1)
    with pytest.raises(EntryConflict, match="is at version 2, by Bob") as lost:
        entries.put(alice, WORKSPACE, SEAT, "galley", expected=expected)
    assert (lost.value.version, lost.value.who) == (2, "Bob")
    assert value(alice, WORKSPACE) == "window"


def test_a_version_of_what_was_never_there_is_a_conflict_that_leaves_nothing(alice):
    with pytest.raises(EntryConflict, match="There is no such entry; version 4"):
        entries.put(alice, USER, SEAT, "aisle", expected=4)
    assert not Entry.objects.unscoped(Reason.TEST).exists()


def test_of_many_at_once_one_writes_each_version(alice):
    barrier, lost = Barrier(4), []

    def write(n: int) -> None:
        barrier.wait()
        try:
            entries.put(alice, USER, SEAT, n)
        except EntryConflict as conflict:
            lost.append(conflict)
        finally:
            connection.close()

    threads = [Thread(target=write, args=[n]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lost) == 3
    assert {conflict.version for conflict in lost} == {1}
    assert value(alice) in range(4)


def test_a_form_that_is_sent_twice_writes_once(alice):
    key = uuid4()
    first = entries.put(alice, USER, SEAT, "aisle", request_key=key)
    entries.put(alice, USER, SEAT, "window", expected=1)
    assert entries.put(alice, USER, SEAT, "aisle", request_key=key).pk == first.pk
    assert value(alice) == "window"
    with pytest.raises(NotPermitted, match="something else"):
        entries.put(alice, USER, name([], "other"), 1, request_key=key)


# Gone, and back


def test_deleted_is_a_version_and_is_restored_by_another(alice):
    row = entries.put(alice, USER, SEAT, "aisle")
    gone = entries.delete(alice, USER, SEAT, expected=1)
    assert (gone.version, value(alice)) == (2, None)
    assert entries.listed(alice, USER).found == []
    assert names(entries.listed(alice, USER, gone=True)) == ["travellers/marsh/seat"]
    back = entries.restore(alice, row.entry, 1, expected=2)
    assert (back.version, value(alice)) == (3, "aisle")
    assert entries.listed(alice, USER, gone=True).found == []


def test_a_deleted_name_may_be_put_anew_and_counts_on(alice):
    entries.put(alice, USER, SEAT, "aisle")
    entries.delete(alice, USER, SEAT)
    with pytest.raises(EntryConflict, match="deleted with version 2, by Alice") as lost:
        entries.put(alice, USER, SEAT, "window", expected=1)
    assert lost.value.gone
    assert entries.put(alice, USER, SEAT, "window").version == 3


def test_what_is_not_there_cannot_be_deleted(alice):
    with pytest.raises(InvalidEntry, match="no such entry"):
        entries.delete(alice, USER, SEAT)
    entries.put(alice, USER, SEAT, "aisle")
    with pytest.raises(EntryConflict):
        entries.delete(alice, USER, SEAT, expected=7)
    entries.delete(alice, USER, SEAT)
    with pytest.raises(InvalidEntry, match="deleted already"):
        entries.delete(alice, USER, SEAT, expected=2)


@pytest.mark.parametrize("version", [2, 9])
def test_a_version_without_a_value_cannot_be_restored(alice, version):
    row = entries.put(alice, USER, SEAT, "aisle")
    entries.delete(alice, USER, SEAT)
    with pytest.raises(InvalidEntry, match="no value"):
        entries.restore(alice, row.entry, version, expected=2)


def lapse(row: EntryVersion, ago: timedelta) -> None:
    """As if its end had been so long ago."""
    with as_owner(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE checkpoints_entry DISABLE TRIGGER stands")
        Entry.objects.unscoped(Reason.TEST).filter(pk=row.entry_id).update(
            expires_at=now() - ago
        )
        cursor.execute("ALTER TABLE checkpoints_entry ENABLE TRIGGER stands")


def test_what_has_expired_is_not_there_from_that_moment(alice):
    row = entries.put(alice, USER, SEAT, "aisle", expires_at=now() + timedelta(hours=1))
    assert value(alice) == "aisle"
    lapse(row, timedelta(seconds=1))
    assert value(alice) is None
    assert entries.listed(alice, USER).found == []
    assert entries.search(alice, USER, "aisle", most=5).found == []
    assert entries_care.sweep() == 0  # it can be restored, for a day
    assert entries.put(alice, USER, SEAT, "window").version == 2


def test_an_end_that_has_passed_is_refused(alice):
    with pytest.raises(InvalidEntry, match="passed"):
        entries.put(alice, USER, SEAT, 1, expires_at=now() - timedelta(seconds=1))


def test_what_expired_long_ago_is_removed_with_its_history(alice):
    ends = now() + timedelta(hours=1)
    row = entries.put(alice, USER, SEAT, "aisle", expires_at=ends)
    entries.put(alice, USER, name([], "stays"), "here")
    lapse(row, entries_care.EXPIRED_FOR + timedelta(minutes=1))
    assert entries_care.sweep() == 1
    assert names(entries.listed(alice, USER)) == ["stays"]
    versions = EntryVersion.objects.unscoped(Reason.TEST)
    assert versions.filter(entry=row.entry_id).count() == 0


def test_what_was_deleted_long_ago_is_removed(alice):
    row = entries.put(alice, USER, SEAT, "aisle")
    entries.delete(alice, USER, SEAT)
    assert entries_care.sweep() == 0
    with as_owner(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE checkpoints_entry DISABLE TRIGGER stands")
        Entry.objects.unscoped(Reason.TEST).filter(pk=row.entry_id).update(
            updated_at=now() - entries_care.DELETED_FOR - timedelta(minutes=1)
        )
        cursor.execute("ALTER TABLE checkpoints_entry ENABLE TRIGGER stands")
    assert entries_care.sweep() == 1


# Whose


def test_a_persons_own_is_nobody_elses_and_the_workspaces_is_every_members(
    alice, bob, viewer, other
):
    entries.put(alice, USER, SEAT, "hers")
    entries.put(alice, WORKSPACE, SEAT, "everyone's")
    assert value(bob) is None
    assert value(bob, WORKSPACE) == value(viewer, WORKSPACE) == "everyone's"
    assert value(other, WORKSPACE) is None
    assert entries.search(bob, USER, "hers", most=5).found == []
    theirs = Entry.objects.unscoped(Reason.TEST).get(scope=USER)
    assert entries.history(bob, theirs) == []
    with pytest.raises(InvalidEntry, match="no value"):
        entries.restore(bob, theirs, 1, expected=1)


def test_a_viewer_reads_and_an_auditor_does_not_even(alice, viewer, auditor):
    entries.put(alice, WORKSPACE, SEAT, "aisle")
    for change in (
        lambda: entries.put(viewer, WORKSPACE, SEAT, "mine", expected=1),
        lambda: entries.delete(viewer, WORKSPACE, SEAT),
        lambda: entries.put(viewer, USER, SEAT, "mine"),
    ):
        with pytest.raises(NotPermitted, match="Viewers read"):
            change()
    for look in (
        lambda: entries.get(auditor, WORKSPACE, SEAT),
        lambda: entries.listed(auditor, WORKSPACE),
        lambda: entries.search(auditor, WORKSPACE, "seat", most=5),
        lambda: entries.put(auditor, WORKSPACE, SEAT, 1),
    ):
        with pytest.raises(NotPermitted, match="audit log"):
            look()


def test_a_run_has_what_its_person_has_and_says_that_it_wrote(alice, bob, make_thread):
    run = running(alice, make_thread(owner=alice))
    row = entries.put(run, USER, SEAT, "aisle")
    assert (row.run, row.by) == (run.run_id, None)
    assert value(alice) == "aisle"
    assert value(bob) is None
    found = entries.get(alice, USER, SEAT)
    assert found is not None
    assert entries.who(found.row).startswith("run ")


def test_a_run_whose_grant_ended_has_nothing(alice, make_thread):
    run = running(alice, make_thread(owner=alice))
    entries.put(alice, WORKSPACE, SEAT, "aisle")
    with unscoped(Reason.TEST):
        Grant.objects.filter(pk=run.grant_id).update(revoked_at=now())
    for use in (
        lambda: entries.get(run, WORKSPACE, SEAT),
        lambda: entries.put(run, WORKSPACE, SEAT, 1, expected=1),
        lambda: entries.get(run, USER, SEAT),
    ):
        with pytest.raises(NotPermitted):
            use()


@pytest.mark.parametrize("scope", [Scope.GROUP, Scope.BOARD, "everything", ""])
def test_a_scope_that_nobody_has_yet_is_refused(alice, scope):
    with pytest.raises(InvalidEntry):
        entries.put(alice, scope, SEAT, 1)


def test_a_query_that_forgets_whose_it_is_is_an_error(alice):
    for model in (Entry, EntryLock, EntryVersion):
        with pytest.raises(Unscoped):
            list(model.objects.all())


# What is kept


def test_a_value_that_is_too_large_or_no_json_is_refused(alice):
    entries.put(alice, USER, SEAT, "a" * (entries.LARGEST - 2))
    for wrong in ("a" * entries.LARGEST, {1: 2}, float("nan"), object(), "\ud800"):
        with pytest.raises(InvalidEntry, match="cannot be kept"):
            entries.put(alice, USER, SEAT, wrong, expected=1)


def test_each_reading_and_writing_is_recorded_by_ids_and_numbers(alice):
    entries.put(alice, USER, SEAT, "aisle")
    entries.put(alice, USER, SEAT, "window", expected=1)
    value(alice)
    entries.delete(alice, USER, SEAT)
    assert [one["version"] for one in events("memory_put")] == [1, 2]
    assert [one["version"] for one in events("memory_delete")] == [3]
    opens = AuditEvent.objects.unscoped(Reason.TEST).filter(action="open")
    assert [one.purpose for one in opens] == ["memory"]


def test_names_and_values_are_nowhere_in_clear(alice):
    entries.put(alice, USER, name(["zqspace"], "zqkey"), "zqvalue")
    with connection.cursor() as cursor:
        for table in ("entry", "entryversion", "auditevent"):
            cursor.execute(f"SELECT t::text FROM checkpoints_{table} t")  # noqa: S608  # our own names
            for (row,) in cursor.fetchall():
                assert "zq" not in row
                assert b"zq".hex() not in row


def test_a_version_never_changes_and_an_entry_counts_by_one(alice):
    row = entries.put(alice, USER, SEAT, "aisle")
    versions = EntryVersion.objects.unscoped(Reason.TEST).filter(pk=row.pk)
    heads = Entry.objects.unscoped(Reason.TEST).filter(pk=row.entry_id)
    for change in (
        lambda: versions.update(deleted=True),
        lambda: heads.update(version=5),
        lambda: heads.update(version=2, scope=WORKSPACE, user=None),
        lambda: heads.update(version=2, namespace=[]),
    ):
        with as_owner(), transaction.atomic(), pytest.raises(IntegrityError):
            change()


def test_a_version_that_was_moved_to_another_entry_does_not_open_there(alice):
    entries.put(alice, USER, SEAT, "aisle")
    there = entries.put(alice, USER, name([], "visa"), "UAE")
    with as_owner(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE checkpoints_entryversion DISABLE TRIGGER stands")
        cursor.execute(
            "UPDATE checkpoints_entryversion SET version = 9 WHERE id = %s", [there.pk]
        )
        cursor.execute(
            "UPDATE checkpoints_entryversion SET entry_id = %s WHERE entry_id <> %s",
            [there.entry_id, there.entry_id],
        )
        cursor.execute("ALTER TABLE checkpoints_entryversion ENABLE TRIGGER stands")
    found = entries.get(alice, USER, name([], "visa"))
    assert found is not None
    assert isinstance(found.damage, DecryptionError)
    assert (found.name, found.value) == (None, None)


def test_no_more_entries_than_the_most(alice, monkeypatch):
    monkeypatch.setattr(entries, "MOST", 2)
    for key in "ab":
        entries.put(alice, USER, name([], key), 1)
    with pytest.raises(InvalidEntry, match="2 entries"):
        entries.put(alice, USER, name([], "c"), 1)
    entries.put(alice, WORKSPACE, name([], "c"), 1)
    entries.put(alice, USER, name([], "a"), 2, expected=1)


def test_more_than_a_list_opens_is_said(alice, monkeypatch):
    monkeypatch.setattr(entries, "LISTED", 2)
    for key in "abc":
        entries.put(alice, USER, name([], key), 1)
    listed = entries.listed(alice, USER)
    assert (names(listed), listed.total, listed.is_whole) == (["b", "c"], 3, False)


def test_a_search_finds_by_words_of_name_and_value_below_a_prefix(alice):
    entries.put(alice, USER, SEAT, "never near the galley")
    entries.put(alice, USER, name(["travellers", "osei"], "seat"), "window")
    found = entries.search(alice, USER, "Seat of MARSH", most=1)
    assert names(found) == ["travellers/marsh/seat"]
    found = entries.search(alice, USER, "seat", ("travellers", "osei"), most=5)
    assert names(found) == ["travellers/osei/seat"]
    assert names(entries.search(alice, USER, "galleys", most=5)) == [SEAT.path]
    assert entries.search(alice, USER, "train", most=5).found == []


def test_the_gate_alone_opens_it(alice, other):
    row = entries.put(alice, USER, SEAT, "aisle")
    with pytest.raises(NotPermitted):
        gate.admit(other, purpose="test").open(row, "content")


def test_the_code_of_the_documentation_does_what_it_says(alice, bob):
    page = Path(__file__).parents[2] / "docs" / "memory.md"
    [_, code] = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    exec(code, {"alice": alice, "bob": bob})  # noqa: S102  # our own page
