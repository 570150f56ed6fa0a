"""Boards: whose they are, what a run keeps there for itself, locks, and many at once."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import IntegrityError, connection, transaction

from checkpoints import entries, entries_care, entry_locks
from checkpoints.access import Board, RunPrincipal
from checkpoints.clock import now
from checkpoints.entries import Scope
from checkpoints.errors import (
    EntryConflict,
    EntryLocked,
    InvalidEntry,
    LockLost,
    NotPermitted,
)
from checkpoints.grants import grant_for
from checkpoints.models import AuditEvent, Deletion, Entry, EntryLock, EntryVersion
from checkpoints.pure.names import Name, name
from tests.conftest import as_owner

PLAN = name(["trip"], "plan")
MINUTE = timedelta(minutes=1)

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("everything_visible"),
]


@pytest.fixture
def branch(alice, make_thread):
    """Where the work began: the board is its own."""
    return make_thread(owner=alice)


@pytest.fixture
def join_in(alice, branch, make_thread):
    """A run that shares the board, on a branch of its own or on the board's."""

    def join_in(of=branch, *, line: UUID | None = None) -> RunPrincipal:
        grant = grant_for(alice, of.thread_id)
        board = Board(of.pk, line or uuid4())
        return RunPrincipal(
            uuid4(), alice.workspace_id, of.thread_id, grant.pk, board=board
        )

    return join_in


def public(run: RunPrincipal) -> Board:
    assert run.board is not None  # `join_in` gives it one
    return run.board.public


def put(run: RunPrincipal, value: Any, expected: int = 0, *, of: Name = PLAN, **more):
    return entries.put(run, public(run), of, value, expected=expected, **more)


def value(by, board: Board, of: Name = PLAN) -> Any:
    found = entries.get(by, board, of)
    return found and found.value


def shared(run: RunPrincipal, of: Name = PLAN) -> Any:
    return value(run, public(run), of)


# Whose


def test_what_one_run_writes_the_others_of_its_board_read(join_in, branch, alice):
    researcher, planner = join_in(), join_in()
    row = put(researcher, "by train")
    assert shared(planner) == "by train"
    assert (row.run, row.by, row.entry.owner) == (researcher.run_id, None, branch.pk)
    assert put(planner, "by night train", 1).version == 2
    kept = entries.history(alice, row.entry)
    assert [(one.value, one.row.run) for one in kept] == [
        ("by night train", planner.run_id),
        ("by train", researcher.run_id),
    ]


def test_who_was_late_is_told_the_newer_version_and_wrote_nothing(join_in):
    researcher, planner = join_in(), join_in()
    put(researcher, "by train")
    with pytest.raises(EntryConflict, match="is at version 1, by run") as lost:
        put(planner, "by air")
    assert lost.value.version == 1
    assert put(planner, "by air", lost.value.version).version == 2


def test_what_a_run_keeps_for_itself_no_other_line_reads_or_writes(join_in):
    one, another = join_in(), join_in()
    entries.put(one, one.board, PLAN, "mine")
    entries.put(another, another.board, PLAN, "another's")
    assert value(one, one.board) == "mine"
    assert value(another, another.board) == "another's"
    assert shared(another) is None
    for use in (
        lambda: entries.get(another, one.board, PLAN),
        lambda: entries.listed(another, one.board),
        lambda: entries.search(another, one.board, "mine", most=5),
        lambda: entries.put(another, one.board, PLAN, "stolen", expected=1),
        lambda: entries.delete(another, one.board, PLAN),
    ):
        with pytest.raises(NotPermitted, match="another agent keeps"):
            use()
    theirs = Entry.objects.get(line=one.board.line)
    assert entries.history(another, theirs) == []
    later = replace(one, run_id=uuid4())  # another run on the same branch
    assert value(later, one.board) == "mine"


def test_equal_names_of_two_boards_or_lines_have_nothing_in_common(
    join_in, make_thread, alice
):
    one, another = join_in(), join_in()
    elsewhere = join_in(make_thread(owner=alice))
    put(one, 1)
    put(elsewhere, 2)
    entries.put(one, one.board, PLAN, 3)
    entries.put(another, another.board, PLAN, 4)
    entries.put(one, Scope.WORKSPACE, PLAN, 5)
    rows = Entry.objects.all()
    assert len({bytes(row.blind_index) for row in rows}) == 5
    assert len({bytes(row.namespace[0]) for row in rows}) == 5
    assert (shared(one), shared(elsewhere)) == (1, 2)


def test_a_run_has_no_board_but_its_own(join_in, make_thread, alice):
    mine = join_in()
    put(mine, "ours")
    others = join_in(make_thread(owner=alice))
    without = replace(mine, board=None)
    for run in (others, without):
        with pytest.raises(NotPermitted, match="board of other work"):
            value(run, mine.board.public)
        assert not entries.seen(run).filter(scope=Scope.BOARD).exists()
        assert not EntryLock.objects.for_run(run).exists()
    with pytest.raises(NotPermitted):
        entry_locks.take(without, PLAN, lasts=MINUTE)


def test_people_have_the_boards_of_what_they_see(
    join_in, make_thread, alice, bob, viewer, auditor, other
):
    thread = make_thread(owner=alice, visibility="private")
    run = join_in(thread, line=thread.pk)
    row = put(run, "by train")
    entries.put(run, run.board, PLAN, "mine")
    entry_locks.take(run, PLAN, lasts=MINUTE)
    assert value(alice, run.board.public) == "by train"
    assert (
        value(alice, run.board) == "mine"
    )  # nothing is hidden from who sees the thread
    for who in (bob, viewer, other):
        with pytest.raises(NotPermitted):
            value(who, run.board.public)
        assert entries.history(who, row.entry) == []
        assert not EntryLock.objects.for_user(who).exists()
    with pytest.raises(InvalidEntry, match="no value"):
        entries.restore(bob, row.entry, 1, expected=1)
    with pytest.raises(NotPermitted, match="audit log"):
        entries.history(auditor, row.entry)


def test_a_person_restores_a_version_and_a_viewer_does_not(join_in, alice, bob, viewer):
    run = join_in()
    row = put(run, "by train")
    put(run, "by air", 1)
    with pytest.raises(EntryConflict):
        entries.restore(bob, row.entry, 1, expected=1)
    assert entries.restore(bob, row.entry, 1, expected=2).version == 3
    assert shared(run) == "by train"
    with pytest.raises(NotPermitted, match="Viewers read"):
        entries.restore(viewer, row.entry, 2, expected=3)


# Locks


def test_while_a_run_holds_a_name_it_alone_writes_there(join_in, alice):
    holder, another = join_in(), join_in()
    row = put(another, 1)
    lock = entry_locks.take(holder, PLAN, lasts=MINUTE)
    for write in (
        lambda: put(another, 2, 1),
        lambda: entries.delete(another, another.board.public, PLAN),
        lambda: entries.restore(alice, row.entry, 1, expected=1),
    ):
        with pytest.raises(EntryLocked, match=f"by run {str(holder.run_id)[-4:]}"):
            write()
    assert shared(another) == 1  # it is read as ever
    put(another, "elsewhere", of=name(["trip"], "hotels"))
    assert put(holder, 2, 1, fence=lock.fence).version == 2
    assert put(holder, 3, 2).version == 3


def test_a_name_that_another_holds_is_told_with_who_and_until(join_in):
    holder, another = join_in(), join_in()
    lock = entry_locks.take(holder, PLAN, lasts=MINUTE)
    with pytest.raises(EntryLocked) as held:
        entry_locks.take(another, PLAN, lasts=MINUTE)
    assert held.value.until == lock.until
    [shown] = entry_locks.held(another, another.board)
    assert (shown.name, shown.lock.run) == (PLAN, holder.run_id)
    assert entry_locks.release(another, lock, fence=lock.fence) is False
    assert entry_locks.release(holder, lock, fence=lock.fence) is True
    assert entry_locks.held(another, another.board) == []
    assert entry_locks.take(another, PLAN, lasts=MINUTE).fence == lock.fence + 1


def lapse(lock: EntryLock) -> None:
    """As if its time had been up a moment ago."""
    rows = EntryLock.objects.filter(pk=lock.pk)
    rows.update(until=now() - timedelta(seconds=1))


def test_a_write_to_a_lost_lock_is_refused(join_in):
    slow, quick = join_in(), join_in()
    lock = entry_locks.take(slow, PLAN, lasts=MINUTE)
    lapse(lock)
    with pytest.raises(LockLost, match="its time was up"):
        put(slow, "late", fence=lock.fence)
    newer = entry_locks.take(quick, PLAN, lasts=MINUTE)
    assert newer.fence == lock.fence + 1
    with pytest.raises(LockLost, match=f"fence {newer.fence}"):
        put(slow, "late", fence=lock.fence)
    put(quick, "in time", fence=newer.fence)
    entry_locks.release(quick, newer, fence=newer.fence)
    with pytest.raises(LockLost, match="it was released"):
        put(slow, "late", 1, fence=lock.fence)
    assert shared(slow) == "in time"


def test_the_same_run_that_lost_its_lock_and_has_it_again_names_the_new_one(join_in):
    run = join_in()
    old = entry_locks.take(run, PLAN, lasts=MINUTE)
    lapse(old)
    new = entry_locks.take(run, PLAN, lasts=MINUTE)
    with pytest.raises(LockLost):
        put(run, 1, fence=old.fence)
    assert put(run, 1, fence=new.fence).version == 1


def test_a_fence_of_a_name_that_was_never_locked_is_refused(join_in):
    run = join_in()
    with pytest.raises(LockLost, match="nobody ever locked"):
        put(run, 1, fence=1)
    with pytest.raises(InvalidEntry, match="share on a board"):
        entries.put(run, run.board, PLAN, 1, fence=1)
    with pytest.raises(InvalidEntry, match="share on a board"):
        entries.put(run, Scope.WORKSPACE, PLAN, 1, fence=1)


def test_a_lock_that_is_taken_again_by_its_holder_lasts_longer(join_in):
    run, key = join_in(), uuid4()
    lock = entry_locks.take(run, PLAN, lasts=MINUTE, request_key=key)
    again = entry_locks.take(run, PLAN, lasts=10 * MINUTE, request_key=key)
    assert (again.fence, again.until) == (lock.fence, lock.until)  # the same call
    longer = entry_locks.take(run, PLAN, lasts=10 * MINUTE, request_key=uuid4())
    assert longer.fence == lock.fence
    assert longer.until is not None
    assert lock.until is not None
    assert longer.until > lock.until + 5 * MINUTE


@pytest.mark.parametrize("lasts", [timedelta(0), -MINUTE, timedelta(hours=2)])
def test_a_lock_lasts_an_hour_at_most(join_in, lasts):
    with pytest.raises(InvalidEntry, match="lasts 1 to"):
        entry_locks.take(join_in(), PLAN, lasts=lasts)


def test_no_more_locks_than_the_most(join_in, monkeypatch):
    monkeypatch.setattr(entry_locks, "MOST", 1)
    run = join_in()
    entry_locks.take(run, PLAN, lasts=MINUTE)
    entry_locks.take(run, PLAN, lasts=MINUTE)
    with pytest.raises(InvalidEntry, match="1 locks"):
        entry_locks.take(run, name([], "other"), lasts=MINUTE)


def test_an_operator_takes_a_lock_away_and_its_holder_notices(
    join_in, bob, viewer, other
):
    run = join_in()
    lock = entry_locks.take(run, PLAN, lasts=MINUTE)
    with pytest.raises(NotPermitted, match="Viewers read"):
        entry_locks.release(viewer, lock, fence=lock.fence)
    assert entry_locks.release(other, lock, fence=lock.fence) is False
    assert entry_locks.release(bob, lock, fence=lock.fence + 1) is False
    assert entry_locks.release(bob, lock, fence=lock.fence) is True
    assert entry_locks.release(bob, lock, fence=lock.fence) is False
    with pytest.raises(LockLost, match="it was released"):
        put(run, 1, fence=lock.fence)
    actions = AuditEvent.objects.filter(action__startswith="board_")
    assert [event.action for event in actions.order_by("position")] == [
        "board_lock",
        "board_release",
    ]


def test_of_many_that_lock_at_once_one_holds_it(join_in):
    runs = [join_in() for _ in range(6)]
    took, refused = [], []

    def lock(run: RunPrincipal) -> None:
        try:
            took.append(entry_locks.take(run, PLAN, lasts=MINUTE).run)
        except EntryLocked as held:
            refused.append(held)
        finally:
            connection.close()

    at_once(lock, runs)
    assert (len(took), len(refused)) == (1, 5)
    assert EntryLock.objects.get().run == took[0]


def test_a_repeated_write_gives_the_firsts_version_though_the_lock_is_lost(join_in):
    run, key = join_in(), uuid4()
    lock = entry_locks.take(run, PLAN, lasts=MINUTE)
    first = put(run, 1, fence=lock.fence, request_key=key)
    lapse(lock)
    again = put(run, 1, fence=lock.fence, request_key=key)
    assert again.pk == first.pk


def test_the_database_lets_no_fence_count_down_and_no_entry_change_its_line(join_in):
    run = join_in()
    lock = entry_locks.take(run, PLAN, lasts=MINUTE)
    row = put(run, 1, of=name([], "other"))
    locks = EntryLock.objects.filter(pk=lock.pk)
    heads = Entry.objects.filter(pk=row.entry_id)
    for change in (
        lambda: locks.update(fence=0),
        lambda: locks.update(fence=3),
        lambda: locks.update(owner=uuid4()),
        lambda: locks.update(run=None),  # without its end
        lambda: heads.update(version=2, line=uuid4()),
        lambda: heads.update(version=2, owner=uuid4()),
    ):
        with as_owner(), transaction.atomic(), pytest.raises(IntegrityError):
            change()


def test_names_of_locks_are_nowhere_in_clear(join_in):
    run = join_in()
    secret = name(["zqspace"], "zqkey")
    lock = entry_locks.take(run, secret, lasts=MINUTE)
    put(run, "zqvalue", of=secret, fence=lock.fence)
    entries.put(run, run.board, secret, "zqvalue")
    with connection.cursor() as cursor:
        for table in ("entry", "entryversion", "entrylock", "auditevent"):
            cursor.execute(f"SELECT t::text FROM checkpoints_{table} t")  # noqa: S608  # our own names
            for (row,) in cursor.fetchall():
                assert "zq" not in row
                assert b"zq".hex() not in row


# What goes


def test_the_board_of_a_thread_that_was_deleted_for_good_goes_with_it(
    join_in, branch, make_thread, alice, workspace
):
    run, stays = join_in(), join_in(make_thread(owner=alice))
    for each in (run, stays):
        put(each, 1)
        entries.put(each, each.board, PLAN, 2)
        entry_locks.take(each, PLAN, lasts=MINUTE)
    assert entries_care.sweep() == 0
    Deletion.objects.create(
        workspace=workspace,
        thread_id=branch.thread_id,
        what=Deletion.What.SHREDDED,
        steps=1,
    )
    assert entries_care.sweep() == 2
    assert {row.owner for row in Entry.objects.all()} == {stays.board.of}
    assert {lock.owner for lock in EntryLock.objects.all()} == {stays.board.of}


def test_a_lock_that_nobody_took_for_long_is_removed(join_in):
    lock = entry_locks.take(join_in(), PLAN, lasts=MINUTE)
    entries_care.sweep()
    assert EntryLock.objects.exists()
    long_ago = now() - entries_care.UNLOCKED_FOR - MINUTE
    EntryLock.objects.filter(pk=lock.pk).update(updated_at=long_ago)
    entries_care.sweep()
    assert not EntryLock.objects.exists()


# At once

AGENTS, TIMES = 20, 100
COUNTER = name([], "counter")


@pytest.mark.unmeasured
def test_twenty_agents_that_count_one_counter_up_a_hundred_times_lose_nothing(join_in):
    runs = [join_in() for _ in range(AGENTS)]

    def count(run: RunPrincipal) -> None:
        at, version = 0, 0
        left = TIMES
        while left:
            try:
                row = put(run, at + 1, version, of=COUNTER)
            except EntryConflict:
                # Away from the others, who are at it now, too.
                time.sleep(random.random() * 2)
                found = entries.get(run, public(run), COUNTER)
                assert found is not None  # another wrote it
                at, version = found.value, found.row.version
            else:
                at, version, left = at + 1, row.version, left - 1
        connection.close()

    at_once(count, runs)
    assert shared(runs[0], COUNTER) == AGENTS * TIMES
    written = EntryVersion.objects.values_list("run", flat=True)
    assert Counter(written) == {run.run_id: TIMES for run in runs}


def at_once(act, runs: list[RunPrincipal]) -> None:
    threads = [Thread(target=act, args=[run]) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_the_code_of_the_documentation_does_what_it_says(join_in):
    page = Path(__file__).parents[2] / "docs" / "board.md"
    [_, code] = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    exec(code, {"planner": join_in(), "auditor": join_in()})  # noqa: S102  # our own page
