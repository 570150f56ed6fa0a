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

    def execute(self, values: Mapping[str, object]) -> psycopg.Cursor[Any]:
        """The cursor that holds the answer. Raises Django's database errors."""
        # Not `connection`, which looks up the thread's anew at each attribute.
        db = connections[DEFAULT_DB_ALIAS]
        db.close_if_health_check_failed()
        if db.connection is None:
            db.ensure_connection()
        db.validate_no_broken_transaction()
        connection: Any = db.connection
        cursor = psycopg.RawCursor[Any](connection)
        sent = [
            value if value is None or type(value) in _AS_IT_IS else _as_text(value)
            for value in map(values.__getitem__, self._names)
        ]
        with db.wrap_database_errors:
            if db.queries_logged:
                log = db.make_debug_cursor(cursor)  # type: ignore[arg-type]  # the stubs ask for a wrapper
                with log.debug_sql(self._sql):
                    self._send(connection, cursor, sent)
            else:
                self._send(connection, cursor, sent)
        return cursor

    def _send(
        self, connection: Any, cursor: psycopg.Cursor[Any], sent: list[object]
    ) -> None:
        """In one round trip, and one transaction with what has to be told before."""
        if told := telling(connection, self._sql):
            with connection.pipeline():
                psycopg.RawCursor(connection).execute(told, (), prepare=True)
                self._ask(cursor, sent)
        else:
            self._ask(cursor, sent)

    def _ask(self, cursor: psycopg.Cursor[Any], sent: list[object]) -> None:
        cursor.execute(self._sql, sent, prepare=True, binary=self._binary)


_NAME = re.compile(r"%\((\w+)\)s")


# Everything else goes as a text, which PostgreSQL reads as the type that it needs. psycopg
# would name types by the values, None and 70000 otherwise than 7: a statement would be
# prepared for every combination.
_AS_IT_IS = frozenset((str, bytes, list))


def _as_text(value: object) -> str:
    return value.hex if type(value) is UUID else str(value)
