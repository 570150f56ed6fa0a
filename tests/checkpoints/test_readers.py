"""Opening is written down before it happens, and readers do not wait for each other."""

from __future__ import annotations

import threading

import psycopg
import pytest
from django.db import connection, transaction

from checkpoints import audit_chain, gate
from checkpoints.errors import DecryptionError
from checkpoints.log import hydrate
from tests.conftest import STATE

pytestmark = pytest.mark.django_db(transaction=True)

READERS = 50


@pytest.fixture
def branch(make_thread, alice):
    return make_thread(owner=alice, title="A trip")


def written() -> int:
    """Openings that another connection sees: what was committed."""
    database = connection.settings_dict
    with psycopg.connect(
        host=database["HOST"],
        port=database["PORT"] or None,
        dbname=database["NAME"],
        user=database["USER"],
        password=database["PASSWORD"] or None,
    ) as other:
        rows = other.execute(
            "SELECT count(*) FROM checkpoints_auditevent WHERE action = 'open'"
        ).fetchone()
    assert rows
    return rows[0]


def test_no_plaintext_before_the_row_is_committed(branch, alice):
    assert written() == 0
    opened = gate.admit(alice, purpose="read thread", threads=[branch.thread])
    assert written() == 1
    assert hydrate.read(opened, branch).state_at(0) == STATE


def test_the_row_survives_whatever_comes_after_it(branch, alice):
    opened = gate.admit(alice, purpose="read thread", threads=[branch.thread])
    with transaction.atomic():
        opened.open(branch.thread, "title")
        transaction.set_rollback(True)
    branch.thread.title = b"\0" * 200
    with pytest.raises(DecryptionError):
        opened.open(branch.thread, "title")
    assert written() == 1


def read(branch, person) -> None:
    opened = gate.admit(person, purpose="read thread", threads=[branch.thread])
    assert hydrate.read(opened, branch).state_at(0) == STATE


def at_once(readers: int, act) -> None:
    """As many threads do it, each over a connection of its own."""
    errors: list[BaseException] = []
    begin = threading.Barrier(readers + 1)

    def one() -> None:
        try:
            connection.ensure_connection()
            begin.wait(30)
            act()
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=one) for _ in range(readers)]
    for thread in threads:
        thread.start()
    begin.wait(30)
    for thread in threads:
        thread.join(60)
    assert not errors, errors


def test_fifty_readers_at_once_are_all_written_down(branch, alice):
    at_once(READERS, lambda: read(branch, alice))
    assert written() == READERS
    audit_chain.link_pending()
    assert audit_chain.verify_audit(alice.workspace_id).head.number == READERS


def test_a_reader_who_takes_long_holds_up_nobody(branch, alice):
    """One has been admitted and has not finished: 49 others open, and nothing waits."""
    opened = gate.admit(alice, purpose="slow page", threads=[branch.thread])
    with transaction.atomic():
        opened.open(branch.thread, "title")  # and the page goes on to render
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND mode ~"
                " 'Exclusive' AND relation::regclass::text LIKE 'checkpoints_%'"
            )
            assert cursor.fetchone() == (0,)
        at_once(READERS - 1, lambda: read(branch, alice))
    assert written() == READERS


def test_readers_do_not_wait_for_the_linker(branch, alice):
    with transaction.atomic():
        assert audit_chain._alone(alice.workspace_id)  # it links, and takes its time
        at_once(READERS, lambda: read(branch, alice))
        assert written() == READERS
    assert audit_chain.link_pending() == READERS


def test_fifty_readers_are_in_the_middle_of_reading_at_once(branch, alice):
    """None lets go of what it holds before all the others have read, too."""
    all_have_read = threading.Barrier(READERS)

    def read_and_stay() -> None:
        opened = gate.admit(alice, purpose="read thread", threads=[branch.thread])
        with transaction.atomic():
            opened.open(branch.thread, "title")
            assert hydrate.read(opened, branch).state_at(0) == STATE
            assert hydrate.state(opened, branch) == STATE
            all_have_read.wait(60)  # broken, if one has to wait for another

    at_once(READERS, read_and_stay)
    assert written() == READERS
