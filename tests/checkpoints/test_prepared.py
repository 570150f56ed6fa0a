"""Statements that are planned once a connection."""

from __future__ import annotations

import dataclasses
import signal
import socket
import time
from datetime import timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from django.db import (
    DEFAULT_DB_ALIAS,
    DataError,
    OperationalError,
    connection,
    connections,
    transaction,
)
from django.db.transaction import TransactionManagementError

from checkpoints.db import arrays
from checkpoints.db.prepared import Answer, Prepared
from checkpoints.db.session import DatabaseRole, acting_as, idle_at_most
from checkpoints.errors import Fenced
from checkpoints.ids import uuid7
from checkpoints.log.append import NewStep, StepMeta, commit, writer

pytestmark = pytest.mark.django_db

METAS = [
    StepMeta(),
    StepMeta(run=uuid7(), tokens_in=3, tokens_out=70_000, cost=Decimal("0.01")),
    StepMeta(name="search", temperature=0.5, seed=2**40, latency_ms=12),
]
ADD = Prepared("SELECT %(one)s::int + %(two)s::int, %(one)s::text")


def prepared_statements() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_prepared_statements")
        return int(cursor.fetchone()[0])


def plans_of_a_step() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_prepared_statements"
            " WHERE statement LIKE '%INSERT INTO checkpoints_checkpointdelta%'"
        )
        return int(cursor.fetchone()[0])


@pytest.fixture
def afresh():
    """As on a new connection, and without a trace on the next one."""
    with connection.cursor() as cursor:
        cursor.execute("DEALLOCATE ALL")
    connection.connection._prepared.clear()
    yield
    connection.connection._prepared.clear()


def test_the_steps_statement_is_planned_once_whatever_the_step_holds(
    make_thread, afresh
):
    at = writer(make_thread())
    for meta in METAS:
        for lease in (None, timedelta(days=1, seconds=5)):
            at = dataclasses.replace(at, lease=lease)
            at = commit(at, NewStep("model", [], "said", meta=meta))
    assert plans_of_a_step() == 1


def test_once_planned_a_step_asks_psycopg_for_no_cursor(
    make_thread, afresh, monkeypatch
):
    at = commit(writer(make_thread()), NewStep("model", [], "said"))
    with transaction.atomic(), monkeypatch.context() as patched:
        at = commit(at, NewStep("tool", [], "did"))
        patched.setattr(psycopg.RawCursor, "execute", None)
        at = commit(at, NewStep("tool", [], "did"))
        with pytest.raises(Fenced):
            commit(dataclasses.replace(at, fence=7), NewStep("tool", [], "did"))
        at = commit(at, NewStep("model", [], "said"))
        with pytest.raises(DataError), transaction.atomic():
            commit(at, NewStep("much too long a word", [], "said"))
    assert commit(at, NewStep("model", [], "said")).step == 5


def test_a_plan_that_psycopg_takes_back_is_made_again(make_thread, afresh):
    at = commit(writer(make_thread()), NewStep("model", [], "said"))
    at = commit(at, NewStep("tool", [], "did"))
    with pytest.raises(DataError), transaction.atomic():
        commit(at, NewStep("much too long a word", [], "said"))
    connection.connection._prepared.clear()  # as after a ROLLBACK
    at = commit(at, NewStep("tool", [], "did"))
    at = commit(at, NewStep("tool", [], "did"))
    assert (at.step, plans_of_a_step()) == (4, 1)


def test_values_are_named_and_may_be_used_twice():
    assert ADD.execute({"one": 70_000, "two": 2}).fetchone() == (70_002, "70000")
    assert ADD.execute({"one": 7, "two": None}).fetchone() == (None, "7")


EACH = Prepared(
    "SELECT n, %(id)s::uuid AS id, nullif(n, 2), convert_to(repeat('x', n), 'UTF8')"
    " FROM generate_series(1, %(most)s::int) AS n",
    binary=True,
)


def test_rows_are_those_of_a_cursor_without_one(afresh, monkeypatch):
    values = {"id": uuid7(), "most": 3}
    by_cursor = EACH.execute(values).fetchall()
    assert by_cursor[1] == (2, values["id"], None, b"xx")
    assert EACH.rows(values) == by_cursor
    monkeypatch.setattr(psycopg.RawCursor, "execute", None)
    assert EACH.rows(values) == by_cursor
    assert EACH.rows({**values, "most": 0}) == []
    with pytest.raises(DataError), transaction.atomic():
        EACH.rows({**values, "most": "many"})


@pytest.mark.parametrize("text", ["", "NULL", "a,b", '"', "\\", r"\"x", "{}", " ä\n"])
def test_an_array_is_read_as_it_was_given(text):
    ids = [uuid7(), uuid7()]
    found = ARRAYS.execute(
        {
            "texts": arrays.texts([text, "and", text]),
            "bytes": arrays.byteas([text.encode(), memoryview(b"\0\\")]),
            "ids": arrays.uuids(ids),
            "none": arrays.uuids([]),
        }
    ).fetchone()
    assert found == ([text, "and", text], [text.encode(), b"\0\\"], ids, [])


ARRAYS = Prepared(
    "SELECT %(texts)s::text[], %(bytes)s::bytea[], %(ids)s::uuid[], %(none)s::uuid[]",
    binary=True,
)


def test_where_the_setting_turned_it_off_nothing_is_prepared(afresh, monkeypatch):
    monkeypatch.setattr(connection.connection, "prepare_threshold", None)
    assert ADD.execute({"one": 1, "two": 2}).fetchone() == (3, "1")
    assert prepared_statements() == 0


def test_errors_are_djangos_and_a_broken_transaction_is_respected():
    with pytest.raises(DataError), transaction.atomic():
        ADD.execute({"one": "many", "two": 1})
    with transaction.atomic():
        transaction.set_rollback(True)
        with pytest.raises(TransactionManagementError):
            ADD.execute({"one": 1, "two": 1})
        transaction.set_rollback(False)


WHO = Prepared("SELECT current_user::text, %(one)s::int")


@pytest.mark.django_db(transaction=True)
@pytest.mark.owner  # who asks before and after somebody else
def test_the_database_is_told_who_asks_before_a_prepared_statement(afresh):
    alone = {"one": 1}
    owner = WHO.execute(alone).fetchone()
    with acting_as(DatabaseRole.WORKER):
        for _ in range(2):  # planned, and planned before
            assert WHO.execute(alone).fetchone() == ("holdpoint_worker", 1)
        with transaction.atomic():
            assert WHO.execute(alone).fetchone() == ("holdpoint_worker", 1)
        with pytest.raises(DataError):
            WHO.execute({"one": "many"})
        assert WHO.execute(alone).fetchone() == ("holdpoint_worker", 1)
    assert WHO.execute(alone).fetchone() == owner != ("holdpoint_worker", 1)


@pytest.mark.django_db(transaction=True)
def test_being_told_first_leaves_the_step_one_transaction(make_thread, afresh):
    """A statement that was told, and failed, leaves nothing; one that did not, all."""
    branch = make_thread()
    with acting_as(DatabaseRole.WORKER):
        at = commit(writer(branch), NewStep("model", [], "said"))
        with pytest.raises(DataError):
            commit(at, NewStep("much too long a word", [], "said"))
    branch.refresh_from_db()
    assert (branch.head_id, branch.head_step) == (at.head, 1)


# Connections that end

own_connection = pytest.mark.django_db(transaction=True)
# As workers with credentials of their own: of nobody has anything to be told first.
tells_nothing = pytest.mark.owner


@own_connection
@pytest.mark.django_db(transaction=True)
def test_a_connection_is_asked_whether_it_is_there_only_where_it_said_something(
    django_assert_num_queries,
):
    connection.ensure_connection()
    with django_assert_num_queries(0):
        assert connection.is_usable()
    pid = connection.connection.info.backend_pid
    with psycopg.connect(connection.connection.info.dsn, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 20000)", [pid])
    assert not connection.is_usable()
    connection.close()
    connection.ensure_connection()
    assert connection.is_usable()


def test_a_connection_that_went_away_is_an_operational_error():
    for _ in range(2):
        ADD.row({"one": 1, "two": 2})
    with socket.socket(fileno=connection.connection.fileno()) as wire:
        wire.shutdown(socket.SHUT_RDWR)
        wire.detach()
    with pytest.raises(OperationalError):
        ADD.row({"one": 1, "two": 2})
    connection.close()


def ask():
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


@own_connection
@pytest.mark.parametrize("first", [ask, lambda: ADD.row({"one": 1, "two": 2})])
@pytest.mark.parametrize("then", [ask, lambda: ADD.row({"one": 1, "two": 2}), None])
def test_a_transaction_that_says_nothing_is_ended_whatever_it_says_first(first, then):
    for _ in range(2):
        ADD.row({"one": 1, "two": 2})

    def freeze():
        with transaction.atomic():
            first()
            time.sleep(0.3)
            if then:
                then()

    with (
        acting_as(DatabaseRole.WORKER),
        idle_at_most(timedelta(seconds=0.05)),
        pytest.raises(OperationalError),
    ):
        freeze()
    with acting_as(DatabaseRole.WORKER), transaction.atomic():
        first()
        time.sleep(0.3)
        ask()


# Answers that are waited for later


DIVIDE = Prepared("SELECT (%(one)s::int / %(two)s::int)::text")
SLEEP = Prepared("SELECT pg_sleep(%(seconds)s::int)::text")


@pytest.fixture
def planned(transactional_db):
    for _ in range(2):
        ADD.row({"one": 1, "two": 2})
        DIVIDE.row({"one": 1, "two": 2})


def on_its_way() -> object:
    db: Any = connections[DEFAULT_DB_ALIAS]
    return db.unanswered


def sent(statement: Prepared, one: int, two: int) -> Answer:
    """On its way: nobody has waited for it."""
    answer = statement.send({"one": one, "two": two})
    assert on_its_way() is answer
    return answer


@own_connection
@tells_nothing
def test_an_answer_is_there_whenever_it_is_asked_for(planned):
    first = sent(ADD, 1, 2)
    assert first.row() == ("3", "1")
    assert first.row() == ("3", "1")
    assert on_its_way() is None


def in_a_transaction():
    with transaction.atomic():
        pass


@own_connection
@tells_nothing
@pytest.mark.parametrize(
    "meanwhile",
    [
        ask,
        lambda: ADD.row({"one": 5, "two": 5}),
        lambda: ADD.execute({"one": 5, "two": 5}),
        in_a_transaction,
        lambda: connection.is_usable(),
        lambda: connection.commit(),
    ],
)
def test_whatever_else_is_asked_waits_for_it(planned, meanwhile):
    first = sent(ADD, 1, 2)
    meanwhile()
    assert on_its_way() is None
    assert first.row() == ("3", "1")


@own_connection
@tells_nothing
def test_an_error_is_for_who_sent_it(planned):
    failing = sent(DIVIDE, 1, 0)
    later = sent(ADD, 1, 2)
    assert later.row() == ("3", "1")
    with pytest.raises(DataError, match="division by zero"):
        failing.row()
    ask()


@own_connection
@tells_nothing
def test_an_answer_that_is_lost_is_said_to_be(planned):
    answer = sent(ADD, 1, 2)
    connection.close()
    with pytest.raises(OperationalError, match="was closed before"):
        answer.row()
    ask()
    for _ in range(2):
        SLEEP.row({"seconds": 0})
    answer = SLEEP.send({"seconds": 1})
    with socket.socket(fileno=connection.connection.fileno()) as wire:
        wire.shutdown(socket.SHUT_RDWR)
        wire.detach()
    with pytest.raises(OperationalError):
        ask()
    connection.close()
    with pytest.raises(OperationalError):
        answer.row()


@own_connection
def test_in_a_transaction_the_answer_is_there_at_once(planned):
    with transaction.atomic():
        assert ADD.send({"one": 1, "two": 2}).row() == ("3", "1")
        assert on_its_way() is None
        with pytest.raises(DataError), transaction.atomic():
            DIVIDE.send({"one": 1, "two": 0}).row()


@own_connection
@tells_nothing  # but for what is told in it
def test_what_has_to_be_told_first_is_not_gone_by(planned):
    with acting_as(DatabaseRole.WORKER):
        for _ in range(2):
            who = WHO.send({"one": 1}).row()
            assert who is not None
            assert who[0] == "holdpoint_worker"


@own_connection
@tells_nothing
def test_who_is_interrupted_while_waiting_does_not_take_it_for_an_answer(planned):
    for _ in range(2):
        SLEEP.row({"seconds": 0})
    answer = SLEEP.send({"seconds": 2})
    was = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            answer.row()
    finally:
        signal.signal(signal.SIGALRM, was)
    with pytest.raises(OperationalError, match="was not waited for"):
        answer.row()
    ask()
