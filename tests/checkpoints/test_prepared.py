"""Statements that are planned once a connection."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from decimal import Decimal

import psycopg
import pytest
from django.db import DataError, connection, transaction
from django.db.transaction import TransactionManagementError

from checkpoints.db.prepared import Prepared
from checkpoints.db.session import DatabaseRole, acting_as
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
