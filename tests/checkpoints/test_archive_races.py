"""Two at once: archives of one thread, and an archive of a thread that is shredded."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction

from checkpoints.access import Reason, unscoped
from checkpoints.clock import now
from checkpoints.errors import CheckpointsError, NotPermitted
from checkpoints.keys import hierarchy
from checkpoints.log import archive, expire, retention
from checkpoints.log.expire import NO_WORK
from checkpoints.models import Archive, Branch, Thread
from tests.checkpoints.archives import grow
from tests.conftest import as_owner

pytestmark = pytest.mark.django_db(transaction=True)

PATIENCE = 20.0  # seconds


@pytest.fixture(autouse=True)
def everything_visible(settings) -> Iterator[None]:
    settings.RETENTION_DAYS = 30
    with unscoped(Reason.TEST):
        yield


@pytest.fixture
def thread(make_thread, alice) -> Thread:
    """Long due."""
    thread = grow(make_thread(owner=alice))[0].thread
    then = now() - timedelta(days=40)
    Thread.objects.filter(pk=thread.pk).update(created_at=then)
    Branch.objects.filter(thread=thread).update(updated_at=then)
    return thread


class Beside(threading.Thread):
    """Does something on a connection of its own; what became of it is in `outcome`."""

    def __init__(self, act: Callable[[], Any]) -> None:
        super().__init__()
        self._act = act
        self.outcome: Any = None
        self.start()

    def run(self) -> None:
        try:
            with unscoped(Reason.TEST):
                self.outcome = self._act()
        except CheckpointsError as error:
            self.outcome = error
        finally:
            connection.close()

    def ended(self) -> Any:
        self.join(PATIENCE)
        assert not self.is_alive()
        return self.outcome


@contextmanager
def keys_are_waited_for() -> Iterator[None]:
    """Whoever reads workspace keys in this block goes on after it."""
    with as_owner(), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE checkpoints_workspacekey IN ACCESS EXCLUSIVE MODE")
        yield


def waiting(number: int = 1) -> None:
    """Until so many others wait for a lock."""
    until = time.monotonic() + PATIENCE
    with connection.cursor() as cursor:
        while time.monotonic() < until:
            cursor.execute(
                "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted"
                " AND locktype IN ('relation', 'tuple', 'transactionid')"
            )
            if cursor.fetchone()[0] >= number:
                return
            time.sleep(0.02)
    raise AssertionError("nobody waits")


def keys_in(store: Path) -> list[Path]:
    return list(store.rglob("keys.json"))


def test_no_copy_of_a_key_is_written_after_it_was_destroyed(thread, blob_dir):
    with keys_are_waited_for():
        writer = Beside(lambda: archive.write(thread.pk))
        waiting()
        shredder = Beside(lambda: expire.shred(thread.pk))
        shredder.join(1.0)
    assert shredder.ended().what == "shredded"
    writer.ended()  # before the thread went, or refused
    assert keys_in(blob_dir) == []
    assert [kept.status for kept in Archive.objects.all()] == ["deleted"]


def test_an_archive_that_begins_while_its_thread_goes_is_not_written(thread, blob_dir):
    with transaction.atomic():
        expire.shred(thread.pk)
        writer = Beside(lambda: archive.write(thread.pk))
        waiting()
    assert isinstance(writer.ended(), NotPermitted)
    assert keys_in(blob_dir) == []


def test_keys_are_not_written_anew_beside_an_archive_that_goes(thread, blob_dir):
    made = archive.write(thread.pk)
    for file in keys_in(blob_dir):
        file.unlink()
    with transaction.atomic():
        expire.shred(thread.pk)
        hierarchy.forget()
        writer = Beside(lambda: archive.write_keys_anew(made))
        writer.join(1.0)
    writer.ended()
    assert keys_in(blob_dir) == []


def test_two_that_archive_one_thread_leave_one_archive(thread):
    with keys_are_waited_for():
        first = Beside(lambda: archive.write(thread.pk))
        waiting()
        second = Beside(lambda: archive.write(thread.pk))
        sweep = Beside(lambda: retention.sweep(NO_WORK))
        second.join(1.0)
        sweep.join(1.0)
    refused = second.ended()
    assert isinstance(refused, NotPermitted)
    assert "archived by another process" in str(refused)
    assert not sweep.ended()  # and it does not leave the thread alone for a day
    assert first.ended().status == "verified"
    assert [kept.status for kept in Archive.objects.all()] == ["verified"]
