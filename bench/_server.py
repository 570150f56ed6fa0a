"""The server's own counts: bytes on disk, flushes and bytes of the log, round trips."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any
from urllib.parse import urlencode

import psycopg
from django.conf import settings
from django.db import connection
from django.db.utils import OperationalError
from django.test.utils import override_settings

from checkpoints.db.roles import WEB, WORKER

Timed = Callable[[], object]


def say(text: str) -> None:
    """Progress, beside the result."""
    print(text, file=sys.stderr, flush=True)


@cache
def address() -> str:
    """libpq's address of the database, as the owner; before anyone else signs in."""
    place = settings.DATABASES["default"]
    parts = {
        "dbname": place["NAME"],
        "user": place["USER"],
        "password": place["PASSWORD"],
        "host": place["HOST"],
        "port": place["PORT"],
    }
    query = urlencode({name: value for name, value in parts.items() if value})
    return f"postgresql://?{query}"


def owner() -> psycopg.Connection[Any]:
    """A connection of the tables' owner, beside the one that is measured."""
    return psycopg.connect(address(), autocommit=True)


def as_worker() -> AbstractContextManager[None]:
    """Django's connection is a worker's, with its own credentials.

    Where the server asks for a password, the owner's connection takes the role at each
    transaction, which costs it a little.
    """
    return _signed_in("worker", WORKER)


def as_web() -> AbstractContextManager[None]:
    """As `as_worker`, of the process that serves pages."""
    return _signed_in("web", WEB)


@contextmanager
def _signed_in(role: str, user: str) -> Iterator[None]:
    with override_settings(DATABASE_ROLE=role):
        before = connection.settings_dict["USER"]
        connection.close()
        connection.settings_dict["USER"] = user
        try:
            connection.ensure_connection()
        except OperationalError:
            connection.settings_dict["USER"] = before
            say(f"{user} cannot sign in: its role is taken at each transaction.")
        try:
            yield
        finally:
            connection.close()
            connection.settings_dict["USER"] = before


def bytes_of(owner: psycopg.Connection[Any], tables: str) -> int:
    """On disk, of tables by a pattern of their names: indexes, TOAST and maps too."""
    found = owner.execute(
        "SELECT c.oid::regclass::text FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE relkind = 'r' AND nspname || '.' || relname ~ %s",
        [tables],
    ).fetchall()
    for (table,) in found:
        owner.execute(f"VACUUM {table}")
    row = owner.execute(
        "SELECT sum(pg_total_relation_size(name::regclass))::bigint"
        " FROM unnest(%s::text[]) AS name",
        [[table for (table,) in found]],
    ).fetchone()
    assert row is not None  # an aggregate has one
    return int(row[0])


def wal_bytes(owner: psycopg.Connection[Any]) -> int:
    row = owner.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
    assert row is not None  # an expression has one
    return int(row[0])


def wal_flushes() -> int:
    """By sessions of clients, so far; this connection's counts are handed in first."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT sum(fsyncs) FROM pg_stat_io"
            " WHERE object = 'wal' AND backend_type = 'client backend'"
        )
        return int(cursor.fetchone()[0])


@contextmanager
def round_trips() -> Iterator[list[int]]:
    """Counts the server's answers "ready for query" in libpq's trace of the protocol."""
    found: list[int] = []
    protocol = connection.connection.pgconn
    with tempfile.TemporaryFile("w+") as trace:
        protocol.trace(trace.fileno())
        try:
            yield found
        finally:
            protocol.untrace()
            trace.seek(0)
            found.append(sum("ReadyForQuery" in line for line in trace))


def milliseconds(way: Timed, *, times: int) -> float:
    """The median."""
    return statistics.median(seconds(way) for _ in range(times)) * 1000


def cpu_milliseconds(way: Timed, *, times: int) -> float:
    """The median of this process's CPU time."""
    taken = []
    for _ in range(times):
        began = time.process_time()
        way()
        taken.append(time.process_time() - began)
    return statistics.median(taken) * 1000


def seconds(way: Timed) -> float:
    began = time.perf_counter()
    way()
    return time.perf_counter() - began
