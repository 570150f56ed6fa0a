"""Statements that are planned once a connection, not at each execution.

PostgreSQL takes longer to plan the statement of a step than to run it. Django's cursors
write values into the text, so that no two statements are the same; these send values
apart. The setting PREPARED_STATEMENTS turns it off, for poolers that cannot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self
from uuid import UUID

import psycopg
from django.db import DEFAULT_DB_ALIAS, DatabaseError, InterfaceError, connections
from psycopg import generators, pq
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result

from checkpoints.db.base import telling

Row = tuple[str | None, ...]  # its columns, as text


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
        return self._by_cursor(db, self._sent(values), _told(db, self._sql))

    def rows(self, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Every row of the answer, each column as psycopg reads it.

        As `execute(values).fetchall()`, and raises as it does; once planned, one call of
        libpq. `values` hold no lists.
        """
        db = _ready()
        connection: Any = db.connection
        sent = self._sent(values)
        kinds = tuple(map(type, sent))
        told = _told(db, self._sql)
        name = self._name(connection, kinds)
        if told or not name or db.queries_logged or not _at_once(connection):
            cursor = self._by_cursor(db, sent, told)
            self._remember(connection, kinds)
            return cursor.fetchall()
        form = _BINARY if self._binary else _TEXT
        with db.wrap_database_errors:
            bound = _bound(sent, kinds)
            result = connection.pgconn.exec_prepared(name, *bound, result_format=form)
            if result.status != pq.ExecStatus.TUPLES_OK:
                raise _error(connection, result)
            reader = Transformer(connection)
            reader.set_pgresult(result, format=form)
            return reader.load_rows(0, result.ntuples, tuple)

    def row(self, values: Mapping[str, object]) -> Row | None:
        """The answer's only row, each column as text; None where it has none.

        Raises Django's database errors. Once planned, this is one call of libpq: a
        cursor of psycopg's takes as long again as the rest of a step in this process.
        """
        db = _ready()
        connection: Any = db.connection
        sent = self._sent(values)
        kinds = tuple(map(type, sent))
        told = _told(db, self._sql)
        name = self._name(connection, kinds)
        if told or not name or db.queries_logged or not _at_once(connection):
            cursor = self._by_cursor(db, sent, told)
            self._remember(connection, kinds)
            return cursor.fetchone()
        with db.wrap_database_errors:
            result = connection.pgconn.exec_prepared(name, *_bound(sent, kinds))
            return _only_row(connection, result)

    def send(self, values: Mapping[str, object]) -> Answer:
        """As `row`, without waiting for the answer: `Answer.row` does, and raises.

        Whatever else the connection is asked waits first. In a transaction, and where the
        statement is not planned yet, its answer is there when this returns. Raises what
        keeps it from being sent at all.
        """
        db = _ready()
        connection: Any = db.connection
        sent = self._sent(values)
        kinds = tuple(map(type, sent))
        name = self._name(connection, kinds)
        alone = (
            connection.autocommit
            and connection.pgconn.transaction_status == pq.TransactionStatus.IDLE
        )
        if not (name and alone) or db.queries_logged or telling(connection, self._sql):
            return Answer(db).known(partial(self.row, values))
        return Answer(db).sent(name, *_bound(sent, kinds))

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


class Answer:
    """What comes of a statement that was sent: known, or on its way.

    To the thread whose connection it is.
    """

    def __init__(self, db: Any) -> None:
        self._db = db
        self._of: Any = db.connection  # which may be another one by and by
        self._row: Row | None = None
        self._results: list[pq.abc.PGresult] | None = None
        self._lost: Exception | None = None

    def known(self, find: Callable[[], Row | None]) -> Self:
        """What this gives, or raises."""
        try:
            self._row = find()
        except (DatabaseError, InterfaceError) as error:
            self._lost = error
        return self

    def sent(self, name: bytes, values: list[Any], formats: list[pq.Format]) -> Self:
        """What comes of the planned statement of this name with these values."""
        pgconn = self._of.pgconn
        try:
            pgconn.send_query_prepared(name, values, formats)
            if pgconn.flush():
                self._of.wait(generators.send(pgconn))
        except psycopg.Error as error:
            self._lost = error
        else:
            self._db.unanswered = self
        return self

    def row(self) -> Row | None:
        """The answer's only row, as `Prepared.row`. Waits for it, and raises."""
        if self._db.unanswered is self:
            self.hear()
        with self._db.wrap_database_errors:
            if self._lost is not None:
                raise self._lost
            if self._results is None:
                return self._row
            return _only_row(self._of, self._results[-1])

    def hear(self) -> None:
        """Wait until it is here. What went wrong is for `row` to raise."""
        self._db.unanswered = None
        # So it is where something else ends the waiting (Ctrl-C).
        self._lost = psycopg.OperationalError("The answer was not waited for.")
        try:
            self._results = self._of.wait(generators.fetch_many(self._of.pgconn))
        except psycopg.Error as error:
            self._lost = error
        else:
            self._lost = None

    def give_up(self) -> None:
        """The connection is being closed: nobody learns what came of it."""
        self._db.unanswered = None
        self._lost = psycopg.OperationalError(
            "The connection was closed before the statement was answered."
        )


def _bound(
    sent: Sequence[object], kinds: Sequence[type]
) -> tuple[list[Any], list[pq.Format]]:
    """Values and their formats, as libpq takes them."""
    return (
        [value.encode() if type(value) is str else value for value in sent],
        [_BINARY if kind is bytes else _TEXT for kind in kinds],
    )


def _only_row(connection: Any, result: pq.abc.PGresult) -> Row | None:
    if result.status != pq.ExecStatus.TUPLES_OK:
        raise _error(connection, result)
    if not result.ntuples:
        return None
    columns = (result.get_value(0, at) for at in range(result.nfields))
    return tuple(None if found is None else found.decode() for found in columns)


def _ready() -> Any:
    """Django's connection of this thread, fit for a statement."""
    # Not `connection`, which looks up the thread's anew at each attribute.
    db: Any = connections[DEFAULT_DB_ALIAS]
    db.hear()
    db.close_if_health_check_failed()
    if db.connection is None:
        db.ensure_connection()
    db.validate_no_broken_transaction()
    return db


def _told(db: Any, sql: str) -> str:
    """What has to be sent with this statement; "" where its transaction knows.

    One that is not the statement's own begins here, with what it is told: sent in a
    pipeline, it would end in a Flush, after which PostgreSQL does not count for how long
    the transaction says nothing (`session.idle_at_most`).
    """
    connection = db.connection
    told = telling(connection, sql)
    begins = connection.pgconn.transaction_status == pq.TransactionStatus.IDLE
    if not told or not begins or connection.autocommit:
        return told
    with db.wrap_database_errors:
        begin: bytes = connection._get_tx_start_command()
        result = connection.pgconn.exec_(begin + b"; " + told.encode())
        if result.status != pq.ExecStatus.TUPLES_OK:
            raise _error(connection, result)
    return ""


def _error(connection: Any, result: pq.abc.PGresult) -> psycopg.Error:
    """What psycopg's cursors raise: of a connection that went away, OperationalError."""
    error = error_from_result(result, encoding="utf-8")
    if connection.pgconn.status == pq.ConnStatus.BAD:
        return psycopg.OperationalError(str(error))
    return error


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
