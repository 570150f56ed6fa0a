"""The backend: each transaction is told its role and workspace in its first round trip.

Everything is set for the transaction only (`set_config(…, true)`), never for the
connection: with a pool, or PgBouncer in transaction mode, the next transaction there is
somebody else's. A statement outside a transaction is one by itself; sent as one message
with what precedes it, both are one transaction, and one round trip.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any

from django.db.backends.postgresql import base
from psycopg import ClientCursor, sql
from psycopg.pq import TransactionStatus

from checkpoints.db.session import DatabaseRole, Session, current

logger = logging.getLogger(__name__)

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


class DatabaseWrapper(base.DatabaseWrapper):
    def get_connection_params(self) -> dict[str, Any]:
        return {**super().get_connection_params(), "cursor_factory": Cursor}

    def _configure_connection(self, connection: Any) -> bool:
        connection.may_take, connection.told = frozenset(), None
        commit: bool = super()._configure_connection(connection)  # type: ignore[misc]  # private, absent from the stubs
        notice_roles(connection)
        return commit


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
        return _first(session, connection.may_take)
    if isinstance(query, str) and query.startswith(SAVEPOINTS):
        if query.startswith("ROLLBACK"):
            connection.told = None
        return ""
    if status != TransactionStatus.INTRANS or connection.told == session:
        return ""  # one that has failed takes nothing but its end
    connection.told = session
    return _anew(session, connection.may_take)


@lru_cache(maxsize=256)
def _first(session: Session, may_take: frozenset[str]) -> str:
    """For a transaction that begins, where nothing is set."""
    told = {name: value for name, value in _settings(session).items() if value}
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
