"""The backend: each transaction is told its role and workspace in its first round trip.

Everything is set for the transaction only (`set_config(…, true)`), never for the
connection: with a pool, or PgBouncer in transaction mode, the next transaction there is
somebody else's. A statement outside a transaction is one by itself; sent as one message
with what precedes it, both are one transaction, and one round trip.
"""

from __future__ import annotations

import logging
import select
from functools import cached_property, lru_cache
from types import TracebackType
from typing import Any, Protocol

from django.db import OperationalError
from django.db.backends.postgresql import base
from django.db.utils import DatabaseErrorWrapper
from psycopg import ClientCursor, sql
from psycopg.errors import IdleInTransactionSessionTimeout
from psycopg.pq import ConnStatus, TransactionStatus
from psycopg_pool import PoolTimeout

from checkpoints.db.session import DatabaseRole, Session, current

logger = logging.getLogger(__name__)

RETRY_AFTER = 5  # seconds, for whoever got no connection

# Roles that this connection may take, of those that exist. It cannot take its own.
MAY_TAKE = """
SELECT rolname FROM pg_roles
WHERE rolname IN ('holdpoint_web', 'holdpoint_worker') AND rolname <> session_user
  AND pg_has_role(session_user, oid, CASE
      WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE 'SET'
  END)
"""
# It must be the first of its transaction: the next one tells.
FIRST = "SET TRANSACTION"
# Going back to a savepoint takes back what was set since, and is allowed in a transaction
# that has failed.
SAVEPOINTS = ("SAVEPOINT", "ROLLBACK TO", "RELEASE")


class Cursor(ClientCursor[Any]):
    """Tells the database who a statement is for, where its transaction does not know."""

    def execute(self, query: Any, params: Any = None, **kwargs: Any) -> Any:
        told = telling(self.connection, query)
        if not told:
            return super().execute(query, params, **kwargs)
        super().execute(_after(told, query, self), params, **kwargs)
        self.nextset()  # the answer to `query`
        return self

    def executemany(self, query: Any, params_seq: Any, **kwargs: Any) -> None:
        connection: Any = self.connection
        with connection.transaction():
            connection.told = None
            self.execute("SELECT 1")  # which tells
            super().executemany(query, params_seq, **kwargs)


class NoConnection(OperationalError):
    """Every connection of the pool was in use for as long as one may wait.

    Raised by the first thing that a request asks of the database: nothing was done yet.
    """


class ErrorWrapper(DatabaseErrorWrapper):
    """Two errors of psycopg's, named for what to do about them.

    PostgreSQL ended the session for its silence: a connection that is gone, like any.

    psycopg calls it an InternalError, which would look like a fault of the statement's.
    """

    wrapper: Any  # Django's connection; absent from the stubs

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, IdleInTransactionSessionTimeout):
            self.wrapper.errors_occurred = True
            raise OperationalError(*error.args).with_traceback(trace) from error
        if isinstance(error, PoolTimeout):
            raise NoConnection(*error.args).with_traceback(trace) from error
        super().__exit__(kind, error, trace)


class Unanswered(Protocol):
    """A statement that was sent, and whose answer was not waited for."""

    def hear(self) -> None:
        """Wait for the answer. Raises nothing of the statement's."""

    def give_up(self) -> None:
        """The connection ends before it is answered."""


class DatabaseWrapper(base.DatabaseWrapper):
    # A connection answers one thing after the other: whatever else it is asked waits.
    unanswered: Unanswered | None = None

    def hear(self) -> None:
        """Wait for what was sent (`prepared.Answer`), so that something else can be."""
        if self.unanswered is not None:
            self.unanswered.hear()

    def is_usable(self) -> bool:
        """Asked only where something came unasked, as when the server ended the session:
        a question to who is still there would make every run of a worker begin later."""
        self.hear()
        return _is_silent(self.connection) or bool(super().is_usable())

    def _cursor(self, name: str | None = None) -> Any:
        self.hear()
        return super()._cursor(name)  # type: ignore[misc]  # private, absent from the stubs

    def _set_autocommit(self, autocommit: bool) -> None:
        self.hear()
        super()._set_autocommit(autocommit)  # type: ignore[misc]  # as above

    def _commit(self) -> None:
        self.hear()
        super()._commit()  # type: ignore[misc]  # as above

    def _rollback(self) -> None:
        self.hear()
        super()._rollback()  # type: ignore[misc]  # as above

    def _close(self) -> None:
        if self.unanswered is not None:
            self.unanswered.give_up()
        super()._close()  # type: ignore[misc]  # as above

    @cached_property
    def wrap_database_errors(self) -> ErrorWrapper:
        return ErrorWrapper(self)

    def get_connection_params(self) -> dict[str, Any]:
        return {**super().get_connection_params(), "cursor_factory": Cursor}

    def _configure_connection(self, connection: Any) -> bool:
        connection.may_take, connection.told = frozenset(), None
        commit: bool = super()._configure_connection(connection)  # type: ignore[misc]  # private, absent from the stubs
        notice_roles(connection)
        return commit


def _is_silent(connection: Any) -> bool:
    """Whether the session is at rest and nothing is to be read of it, nor its end."""
    protocol = connection.pgconn
    if (
        protocol.status != ConnStatus.OK
        or protocol.transaction_status != TransactionStatus.IDLE
    ):
        return False
    poll = select.poll()
    poll.register(protocol.socket, select.POLLIN)
    return not poll.poll(0)


def notice_roles(connection: Any) -> None:
    """Ask which roles this psycopg connection may take; again, when they changed."""
    with ClientCursor[Any](connection) as cursor:
        cursor.execute(MAY_TAKE)
        connection.may_take = frozenset(name for (name,) in cursor.fetchall())
    connection.told = None


def telling(connection: Any, query: Any) -> str:
    """What has to precede this statement; empty when its transaction knows."""
    session = current()
    status = connection.pgconn.transaction_status  # asked at every statement: a number
    if status == TransactionStatus.IDLE:
        if isinstance(query, str) and query.startswith(FIRST):
            connection.told = None
            return ""
        connection.told = session
        return _first(session, connection.may_take, alone=connection.autocommit)
    if isinstance(query, str) and query.startswith(SAVEPOINTS):
        if query.startswith("ROLLBACK"):
            connection.told = None
        return ""
    if status != TransactionStatus.INTRANS or connection.told == session:
        return ""  # one that has failed takes nothing but its end
    connection.told = session
    return _anew(session, connection.may_take)


@lru_cache(maxsize=256)
def _first(session: Session, may_take: frozenset[str], *, alone: bool) -> str:
    """For a transaction that begins, where nothing is set; `alone`: with one statement."""
    told = {name: value for name, value in _settings(session).items() if value}
    if session.idle and not alone:
        told["idle_in_transaction_session_timeout"] = str(session.idle)
    if session.wait:
        told["lock_timeout"] = str(session.wait)
    if session.as_written and alone:
        told["join_collapse_limit"] = "1"
    if session.role.in_postgres in may_take:
        told["role"] = session.role.in_postgres
    return _select(told) if told else ""


@lru_cache(maxsize=256)
def _anew(session: Session, may_take: frozenset[str]) -> str:
    """For a transaction that was told something else."""
    role = session.role.in_postgres
    reachable = session.role is DatabaseRole.OWNER or role in may_take
    return _select(_settings(session) | ({"role": role} if reachable else {}))


def _settings(session: Session) -> dict[str, str]:
    return {
        "holdpoint.workspace": str(session.workspace or ""),
        "holdpoint.person": "" if session.person is None else str(session.person),
        "holdpoint.scope": str(session.scope),
    }


def _select(told: dict[str, str]) -> str:
    # Names and values are ours: identifiers, numbers and words, never text of a person.
    calls = (f"set_config('{name}', '{value}', true)" for name, value in told.items())
    return f"SELECT {', '.join(calls)}; "


def _after(told: str, query: Any, cursor: Cursor) -> Any:
    if isinstance(query, bytes):
        return told.encode() + query
    if isinstance(query, sql.Composable):
        return sql.SQL(told) + query
    return told + query
