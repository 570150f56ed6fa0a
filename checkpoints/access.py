"""Who may see what: principals, and querysets that refuse to run unscoped.

Wall 1 of the design. A row is reached through `for_user(principal)` or
`for_run(principal)`, through a row that was reached so (`thread.branches`), or in
a block that says why it may look at everything (`unscoped(Reason.REAPER)`). A
queryset that none of these made raises `Unscoped` when it is evaluated, so a
forgotten filter is an error in the first test, not a leak in production.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self, TypeVar
from uuid import UUID

from django.db import models
from django.db.models.query import RawQuerySet

from checkpoints.errors import Unscoped

M = TypeVar("M", bound=models.Model)


class Role(models.TextChoices):
    """What a member may do in a workspace. The right to approve is apart from it."""

    VIEWER = "viewer"
    OPERATOR = "operator"  # may start, message, edit, fork, resume
    ADMIN = "admin"
    AUDITOR = "auditor"  # reads the audit log, no state


class Scope(models.TextChoices):
    """What a program's token may do. It decides for the person who made it."""

    READ = "read"  # status, history, state
    START = "start"  # and try again
    MESSAGE = "message"
    FORK = "fork"
    CANCEL = "cancel"
    DECIDE = "decide"


class Reason(enum.Enum):
    """The allow-list of reasons to look across workspaces."""

    SIGN_IN = "find the memberships of the person who signs in"
    ADMIN = "operators' metadata pages; never opens state"
    WORKER = "a worker claims a run by the id that rang"
    REAPER = "the reaper sweeps every workspace"
    KEYS = "the key hierarchy loads key rows by id"
    PACK = "packing looks after every branch"
    GATE = "the gate re-checks a grant"
    AUDIT = "the audit log is written"
    DELIVERY = "messages about requests are sent, of every workspace"
    ARCHIVE = "archives and retention work on every workspace, by its policies"
    COMMAND = "a management command run on the server"
    HEALTH = "counts for health pages"
    TEST = "a test looks at what is there"


@dataclass(frozen=True)
class UserPrincipal:
    """A signed-in person, in one workspace."""

    user_id: int
    workspace_id: UUID
    role: Role
    can_approve: bool
    name: str
    groups: frozenset[UUID] = frozenset()
    session: str = field(default="", repr=False)  # keyed hash, never the session key
    address: str = field(default="", repr=False)
    halted_at: datetime | None = None  # of the workspace: nothing acts in it since
    token_id: UUID | None = None  # a program decides for the person, by their token

    @property
    def may_read(self) -> bool:
        """Whether state may be opened at all."""
        return self.role is not Role.AUDITOR

    @property
    def may_audit(self) -> bool:
        """Whether the audit log may be read, verified and exported."""
        return self.role in {Role.AUDITOR, Role.ADMIN}

    @property
    def may_operate(self) -> bool:
        """Whether runs may be started, messaged, edited and forked."""
        return self.role in {Role.OPERATOR, Role.ADMIN}


@dataclass(frozen=True)
class ServicePrincipal:
    """A program with a token, in one workspace: it sees what the workspace sees.

    It is no person: it owns nothing, is in no group, and neither approves nor audits. What
    it decides, it decides for the person who made it (`tokens.person_of`).
    """

    token_id: UUID
    workspace_id: UUID
    name: str
    scopes: frozenset[Scope]
    address: str = field(default="", repr=False)

    user_id: None = None
    session: str = ""
    groups: frozenset[UUID] = frozenset()

    @property
    def may_operate(self) -> bool:
        """Whether it may change anything. Each door asks for the scope that it needs."""
        return bool(self.scopes - {Scope.READ, Scope.DECIDE})


@dataclass(frozen=True)
class Board:
    """What the agents that work on one thing share: of the branch where the work began.

    With a `line`, what the agent that works on that branch keeps there for itself.
    """

    of: UUID
    line: UUID | None = None

    @property
    def public(self) -> Board:
        return Board(self.of)


@dataclass(frozen=True)
class RunPrincipal:
    """A run that acts by a grant, a person's or a token's, re-checked at each use."""

    run_id: UUID
    workspace_id: UUID
    thread_id: UUID
    grant_id: UUID
    board: Board | None = None  # with the run's own line; None: it was not asked for


@dataclass(frozen=True)
class SystemPrincipal:
    """Work on records that shows nothing to anyone: import, pack, rewrap."""

    task: str
    workspace_id: UUID


Actor = UserPrincipal | ServicePrincipal  # who asks, through a door of the web process
Principal = Actor | RunPrincipal | SystemPrincipal

_unscoped: ContextVar[Reason | None] = ContextVar("unscoped", default=None)


@contextmanager
def unscoped(reason: Reason) -> Iterator[None]:
    """Let queries in this block cross workspaces, for a reason from the list."""
    token = _unscoped.set(reason)
    try:
        yield
    finally:
        _unscoped.reset(token)


class ScopedQuerySet(models.QuerySet[M]):
    """A queryset that will not run until something has scoped it."""

    _scope: str = ""

    def for_user(self, principal: Actor) -> Self:
        """Rows of the principal's workspace. Models under a thread narrow it more."""
        return self._scoped("user").filter(workspace_id=principal.workspace_id)

    def for_run(self, principal: RunPrincipal) -> Self:
        """Rows of the thread that the run works on."""
        return self._scoped("run").filter(
            workspace_id=principal.workspace_id, thread_id=principal.thread_id
        )

    def unscoped(self, reason: Reason) -> Self:
        """Every workspace's rows, for a reason from the list."""
        return self._scoped(reason.name)

    def _scoped(self, scope: str) -> Self:
        clone = self.all()
        clone._scope = scope
        return clone

    def _clone(self) -> Self:
        clone: Self = super()._clone()  # type: ignore[misc]  # private, absent from the stubs
        clone._scope = self._scope
        return clone

    @property
    def _is_scoped(self) -> bool:
        return bool(
            self._scope
            # Reached from a row (`thread.branches`): that row was scoped.
            or "instance" in self._hints  # type: ignore[attr-defined]  # private
            or _unscoped.get()
            or self.query.is_empty()
        )

    def require_scope(self) -> None:
        """Raises Unscoped where nobody said whose rows these are."""
        if not self._is_scoped:
            raise Unscoped(
                f"{self.model.__name__} was queried without a scope; begin with"
                " for_user(), for_run() or unscoped(reason)."
            )

    # Every way in which Django runs a query. What is not here (get, first, in_bulk,
    # get_or_create, values, dates, …) comes down to one of these.

    def _fetch_all(self) -> None:
        self.require_scope()
        super()._fetch_all()

    def iterator(self, *args: Any, **kwargs: Any) -> Iterator[M]:
        self.require_scope()
        return super().iterator(*args, **kwargs)

    def aiterator(self, *args: Any, **kwargs: Any) -> AsyncIterator[M]:
        self.require_scope()
        return super().aiterator(*args, **kwargs)

    def count(self) -> int:
        self.require_scope()
        return super().count()

    def exists(self) -> bool:
        self.require_scope()
        return super().exists()

    def aggregate(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        self.require_scope()
        return super().aggregate(*args, **kwargs)

    def explain(self, *args: Any, **kwargs: Any) -> str:
        self.require_scope()
        return super().explain(*args, **kwargs)

    def update(self, **kwargs: Any) -> int:
        self.require_scope()
        return super().update(**kwargs)

    def delete(self) -> tuple[int, dict[str, int]]:
        self.require_scope()
        return super().delete()

    # As Django marks its own: no template calls these, and no manager has delete().
    update.alters_data = delete.alters_data = True  # type: ignore[attr-defined]
    delete.queryset_only = True  # type: ignore[attr-defined]

    def raw(self, *args: Any, **kwargs: Any) -> RawQuerySet[Any]:
        self.require_scope()
        return super().raw(*args, **kwargs)

    # Combined, one scope would cover the other's rows.

    def __or__(self, other: models.QuerySet[M]) -> Self:
        self._require_scopes([self, other])
        return super().__or__(other)

    def __xor__(self, other: models.QuerySet[M]) -> Self:
        self._require_scopes([self, other])
        both: Self = super().__xor__(other)  # type: ignore[misc]  # absent from the stubs
        return both

    def union(self, *others: models.QuerySet[Any, Any], all: bool = False) -> Self:
        self._require_scopes([self, *others])
        return super().union(*others, all=all)

    def _require_scopes(self, querysets: Iterable[models.QuerySet[Any, Any]]) -> None:
        for queryset in querysets:
            if isinstance(queryset, ScopedQuerySet):
                queryset.require_scope()


class ThreadScopedQuerySet(ScopedQuerySet[M]):
    """Rows that belong to a thread, seen by those who see the thread."""

    def for_user(self, principal: Actor) -> Self:
        thread = self.model._meta.get_field("thread").related_model
        visible = thread._default_manager.for_user(principal)  # type: ignore[union-attr]  # it has one
        return super().for_user(principal).filter(thread__in=visible)


ScopedManager = models.Manager.from_queryset(ScopedQuerySet)
