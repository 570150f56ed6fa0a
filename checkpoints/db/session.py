"""Who the statements of this thread or task are for: a database role, and a workspace.

Wall 2 of the design. A request is the web role's, and of one workspace from where the
person's membership was found; until then, and in whatever runs after the request, no
row of any workspace is there. Nothing here reaches the database by itself: `base` tells
it at the start of each transaction, for that transaction only.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache
from uuid import UUID

from django.conf import settings


class DatabaseRole(enum.StrEnum):
    """Who asks the database. `OWNER` made the tables; the others own nothing."""

    OWNER = "owner"
    WEB = "web"
    WORKER = "worker"

    @property
    def in_postgres(self) -> str:
        """The name of the cluster's role; "none" is whoever connected."""
        return "none" if self is DatabaseRole.OWNER else f"holdpoint_{self}"


class Scope(enum.StrEnum):
    """What the web role may see beside the rows of one workspace."""

    NOTHING = ""
    OPERATOR = "operator"  # metadata of every workspace: staff in the admin, probes
    RECORDING = "recording"  # events of no workspace, while one is written


@dataclass(frozen=True)
class Session:
    """What the database is told. Without a workspace the web role sees no row of one."""

    role: DatabaseRole
    workspace: UUID | None = None
    person: int | None = None  # whose own memberships are looked for, at sign-in
    scope: Scope = Scope.NOTHING
    idle: int = 0  # milliseconds that a transaction may say nothing; 0: any time
    wait: int = 0  # milliseconds that a statement may wait for a lock; 0: any time
    as_written: bool = False  # a statement by itself joins in the order that it names


_session: ContextVar[Session | None] = ContextVar("session", default=None)


def current() -> Session:
    """The session of this thread or task; at first the process's role, and no more."""
    return _session.get() or _of_process(settings.DATABASE_ROLE)


@lru_cache
def _of_process(role: str) -> Session:
    return Session(DatabaseRole(role))


@contextmanager
def acting_as(role: DatabaseRole) -> Iterator[None]:
    """Statements in this block are the role's, of no workspace until one is entered.

    What `enter` changes inside is over with the block.
    """
    token = _session.set(Session(role))
    try:
        yield
    finally:
        _session.reset(token)


def enter(workspace: UUID) -> None:
    """The rest of the block of `acting_as` is this workspace's, and nothing beside it."""
    _session.set(Session(current().role, workspace=workspace))


def enter_admin() -> None:
    """The rest of the block of `acting_as` is an operator's, who sees every workspace."""
    _session.set(Session(current().role, scope=Scope.OPERATOR))


@contextmanager
def recording(workspace: UUID | None) -> Iterator[None]:
    """Statements in this block write events of this workspace, or of none.

    The database lets workers write those of all, so it need not be told.
    """
    was = current()
    if was.role is DatabaseRole.WORKER:
        yield
        return
    scope = Scope.RECORDING if workspace is None else was.scope
    token = _session.set(replace(was, workspace=workspace, scope=scope))
    try:
        yield
    finally:
        _session.reset(token)


@contextmanager
def overseeing() -> Iterator[None]:
    """Statements in this block see every workspace's rows, as an operator's do: counts."""
    token = _session.set(Session(current().role, scope=Scope.OPERATOR))
    try:
        yield
    finally:
        _session.reset(token)


@contextmanager
def signing_in(person: int) -> Iterator[None]:
    """Statements in this block see this person's own memberships, in any workspace."""
    token = _session.set(replace(current(), person=person))
    try:
        yield
    finally:
        _session.reset(token)


@contextmanager
def joined_as_written() -> Iterator[None]:
    """Statements of this block, outside a transaction, join in the order that they name.

    For those that begin with the table that is looked into, and follow keys from there:
    of eight tables PostgreSQL takes six times as long to try the orders as to run them.
    """
    token = _session.set(replace(current(), as_written=True))
    try:
        yield
    finally:
        _session.reset(token)


@contextmanager
def idle_at_most(time: timedelta) -> Iterator[None]:
    """Transactions of this block, and the connection, end where they say nothing so long.

    A process that is frozen inside one would keep its locks for ever. It finds its
    connection gone when it goes on: OperationalError.
    """
    idle = int(time.total_seconds() * 1000)
    token = _session.set(replace(current(), idle=idle))
    try:
        yield
    finally:
        _session.reset(token)


@contextmanager
def waits_at_most(time: timedelta) -> Iterator[None]:
    """Statements of this block, in transactions that begin there, wait no longer for a
    lock: OperationalError (`given_up`)."""
    token = _session.set(replace(current(), wait=int(time.total_seconds() * 1000)))
    try:
        yield
    finally:
        _session.reset(token)
