"""Statements that are planned once a connection, not at each execution.

PostgreSQL takes longer to plan the statement of a step than to run it. Django's cursors
write values into the text, so that no two statements are the same; these send values
apart. The setting PREPARED_STATEMENTS turns it off, for poolers that cannot.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections
from psycopg import pq
from psycopg.errors import error_from_result

from checkpoints.db.base import telling


class Prepared:
    """SQL whose values are named: `%(name)s`.

    It says the type of a value where that does not follow from a column. `binary`: the
    answer comes as the database has it, where text would be twice as long.
    """

    def __init__(self, sql: str, *, binary: bool = False) -> None:
        self._binary = binary
        self._names = list(dict.fromkeys(_NAME.findall(sql)))
        numbers = {name: f"${n}" for n, name in enumerate(self._names, start=1)}
        self._sql = _NAME.sub(lambda found: numbers[found[1]], sql)
        # What psycopg calls the statement, by the types of the values that it was
        # planned for. The same in every connection; each has its own names for them.
        self._planned: dict[tuple[type, ...], tuple[bytes, tuple[int, ...]]] = {}

    def execute(self, values: Mapping[str, object]) -> psycopg.Cursor[Any]:
        """The cursor that holds the answer. Raises Django's database errors."""
        db = _ready()
        return self._by_cursor(
            db, self._sent(values), telling(db.connection, self._sql)
        )

    def row(self, values: Mapping[str, object]) -> tuple[str | None, ...] | None:
        """The answer's only row, each column as text; None where it has none.

        Raises Django's database errors. Once planned, this is one call of libpq: a
        cursor of psycopg's takes as long again as the rest of a step in this process.
        """
        db = _ready()
        connection: Any = db.connection
        sent = self._sent(values)
        kinds = tuple(map(type, sent))
        told = telling(connection, self._sql)
        name = self._name(connection, kinds)
        if told or not name or db.queries_logged or not _at_once(connection):
            cursor = self._by_cursor(db, sent, told)
            self._remember(connection, kinds)
            return cursor.fetchone()
        with db.wrap_database_errors:
            result = connection.pgconn.exec_prepared(
                name,
                [value.encode() if type(value) is str else value for value in sent],
                [_BINARY if kind is bytes else _TEXT for kind in kinds],
            )
            if result.status != pq.ExecStatus.TUPLES_OK:
                raise error_from_result(result, encoding="utf-8")
        if not result.ntuples:
            return None
        columns = (result.get_value(0, at) for at in range(result.nfields))
        return tuple(found and found.decode() for found in columns)

    def _name(self, connection: Any, kinds: tuple[type, ...]) -> bytes | None:
        """What psycopg calls the plan in this connection; None where there is none.

        From psycopg's own list, so that a plan that it takes back is not used.
        """
        plans = connection._prepared
        if plans._to_flush or plans.prepare_threshold is None:
            return None
        name: bytes | None = plans._names.get(self._planned.get(kinds))
        return name

    def _remember(self, connection: Any, kinds: tuple[type, ...]) -> None:
        """Under what psycopg lists the plan of what has just been sent: it is the last."""
        plans = connection._prepared._names
        if plans and (key := next(reversed(plans)))[0] == self._sql.encode():
            self._planned[kinds] = key

    def _sent(self, values: Mapping[str, object]) -> list[object]:
        return [
            value if value is None or type(value) in _AS_IT_IS else _as_text(value)
            for value in map(values.__getitem__, self._names)
        ]

    def _by_cursor(self, db: Any, sent: list[object], told: str) -> psycopg.Cursor[Any]:
        connection = db.connection
        cursor = psycopg.RawCursor[Any](connection)
        with db.wrap_database_errors:
            if db.queries_logged:
                log = db.make_debug_cursor(cursor)
                with log.debug_sql(self._sql):
                    self._send(connection, cursor, sent, told)
            else:
                self._send(connection, cursor, sent, told)
        return cursor

    def _send(
        self,
        connection: Any,
        cursor: psycopg.Cursor[Any],
        sent: list[object],
        told: str,
    ) -> None:
        """In one round trip, and one transaction with what has to be told before."""
        if told:
            with connection.pipeline():
                psycopg.RawCursor(connection).execute(told, (), prepare=True)
                self._ask(cursor, sent)
        else:
            self._ask(cursor, sent)

    def _ask(self, cursor: psycopg.Cursor[Any], sent: list[object]) -> None:
        cursor.execute(self._sql, sent, prepare=True, binary=self._binary)


def _ready() -> Any:
    """Django's connection of this thread, fit for a statement."""
    # Not `connection`, which looks up the thread's anew at each attribute.
    db = connections[DEFAULT_DB_ALIAS]
    db.close_if_health_check_failed()
    if db.connection is None:
        db.ensure_connection()
    db.validate_no_broken_transaction()
    return db


def _at_once(connection: Any) -> bool:
    """Whether nothing has to be sent before: no BEGIN, no pipeline under way."""
    status = connection.pgconn.transaction_status
    return connection._pipeline is None and (
        status == pq.TransactionStatus.INTRANS
        or (status == pq.TransactionStatus.IDLE and connection.autocommit)
    )


_TEXT, _BINARY = pq.Format.TEXT, pq.Format.BINARY
_NAME = re.compile(r"%\((\w+)\)s")


# Everything else goes as a text, which PostgreSQL reads as the type that it needs. psycopg
# would name types by the values, None and 70000 otherwise than 7: a statement would be
# prepared for every combination.
_AS_IT_IS = frozenset((str, bytes, list))


def _as_text(value: object) -> str:
    return value.hex if type(value) is UUID else str(value)
