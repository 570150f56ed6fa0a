"""The gate: the only way from sealed to plain, and back.

    seen = gate.admit(request.principal, purpose="read thread", threads=[thread])
    title = seen.open(thread, "title")

`admit` checks the right to read and commits an access row to the audit log; then, and
only then, the pass that it returns opens records. Nothing decrypts on its own: not a
field, not a repr, not the admin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import connection, transaction
from django.db.models import Exists, Model

from checkpoints import audit
from checkpoints.access import (
    Principal,
    Reason,
    Role,
    RunPrincipal,
    ScopedQuerySet,
    ServicePrincipal,
    SystemPrincipal,
    UserPrincipal,
)
from checkpoints.compiled import Compiled
from checkpoints.db.prepared import Prepared
from checkpoints.errors import CheckpointsError, DecryptionError, NotPermitted
from checkpoints.keys import hierarchy
from checkpoints.models import ApiToken, DataKey, Grant, Membership, Thread
from checkpoints.models.fields import SealedField
from checkpoints.pure import codec, envelope
from checkpoints.pure.envelope import NIL, Context

RECORD_SCHEMA = 1


def admit(
    principal: Principal,
    *,
    purpose: str,
    threads: Iterable[Thread] = (),
    steps: str = "",
) -> Pass:
    """A pass to records of these threads and of the workspace itself.

    The access row (one per thread, or one that counts them) is committed before this
    returns, so a later rollback cannot erase it: do not call it in a transaction.
    `steps` says which ones, as "0-41". Raises NotPermitted when the principal may not
    read them, or may no longer.
    """
    wanted = {thread.pk for thread in threads}
    # One statement is a transaction by itself, and on disk when it returns.
    inside = connection.in_atomic_block
    if inside or not _may_at_once(principal, purpose, wanted, steps):
        _require_right(principal, wanted)
        with transaction.atomic(durable=True) if inside else nullcontext():
            _record(principal, purpose, wanted, steps)
    return Pass(principal, frozenset(wanted))


class Pass:
    """Opens records of the threads that it was made for, while the right to read lasts."""

    def __init__(self, principal: Principal, threads: frozenset[UUID]) -> None:
        """Made by `admit`, which has checked and recorded."""
        self.principal = principal
        self._threads = threads

    def __repr__(self) -> str:
        return f"Pass({len(self._threads)} threads)"

    def open(self, row: Model, field: str) -> Any:
        """The value that `seal` was given; None when the column is NULL.

        Raises NotPermitted for a row of another thread or workspace, DecryptionError
        when the record does not open, Shredded when its key was destroyed.
        """
        return self.open_all([row], field)[0]

    def open_all(self, rows: Sequence[Model], field: str) -> list[Any]:
        """As `open`, for many rows with one query for their keys."""
        found = self.open_each(rows, field)
        for value in found:
            if isinstance(value, CheckpointsError):
                raise value
        return found

    def open_each(self, rows: Sequence[Model], field: str) -> list[Any]:
        """As `open_all`, with the error in the place of what does not open.

        That is a DecryptionError, UnknownKey or Shredded. Raises NotPermitted for any of
        the rows.
        """
        return list(self.one_by_one(rows, field))

    def open_columns(self, wanted: Sequence[tuple[Model, str]]) -> list[Any]:
        """As `open_each`, of rows each with a column of its own, with one query for keys."""
        return list(self._each(wanted))

    def one_by_one(self, rows: Sequence[Model], field: str) -> Iterator[Any]:
        """As `open_each`, where a value is opened only once the one before was taken:
        records are small that hold a megabyte of one letter.
        """
        yield from self._each([(row, field) for row in rows])

    def _each(self, wanted: Sequence[tuple[Model, str]]) -> Iterator[Any]:
        records: list[tuple[Model, str, bytes | None]] = []
        for row, field in wanted:
            self._require_admitted(row)
            sealed = getattr(row, field)
            records.append((row, field, None if sealed is None else bytes(sealed)))
        self.require_right()
        keys = hierarchy.each_data_key(
            key for *_, record in records if record and (key := _key_id(record))
        )
        for row, field, record in records:
            yield None if record is None else _opened(row, field, record, keys)

    def open_bytes(self, row: Model, field: str, record: bytes) -> bytes:
        """As `open`, of a record that is kept elsewhere than in its row."""
        self._require_admitted(row)
        self.require_right()
        key = envelope.key_id(record)
        return envelope.open_sealed(
            record, key=hierarchy.data_keys([key])[key], context=context(row, field)
        )

    def require_thread(self, thread_id: UUID) -> None:
        """Raises NotPermitted for a thread that this pass was not made for."""
        if thread_id not in self._threads:
            raise NotPermitted("This pass was not made for that thread.")

    def require_right(self) -> None:
        """A run's pass lives for minutes: whether it still may is asked at each use."""
        if isinstance(self.principal, RunPrincipal):
            _require_grant(self.principal)

    def _require_admitted(self, row: Any) -> None:
        if row.workspace_id != self.principal.workspace_id:
            raise NotPermitted("This pass was made for another workspace.")
        thread_id = getattr(row, "thread_id", None)
        if thread_id is not None:
            self.require_thread(thread_id)


def require_right(principal: Principal) -> None:
    """That it may act in its workspace still. Raises NotPermitted. Nothing is opened."""
    _require_right(principal, set())


def seal(row: Model, field: str, value: Any) -> bytes:
    """`value` (JSON) as the sealed record for this column of this row.

    The row has its primary key, its workspace and, where it belongs to one, its thread.
    Raises NotStorable when the value is not JSON, Shredded, UnknownKey.
    """
    thread_id = getattr(row, "thread_id", None)
    column = row._meta.get_field(field)
    key = (
        hierarchy.workspace_key(_workspace_of(row), DataKey.Purpose.DETAIL)
        if thread_id is None or (isinstance(column, SealedField) and column.outlives)
        else hierarchy.sealing_key(thread_id)
    )
    return envelope.seal(codec.canonical(value), key=key, context=context(row, field))


def seal_as_holder(row: Model, field: str, value: Any) -> bytes:
    """As `seal`, for whoever holds the branch: with the key that its steps are sealed with.

    Nobody is asked for it each time; who shreds the thread takes the branch away first.
    """
    return envelope.seal(
        codec.canonical(value),
        key=hierarchy.thread_keys(row.thread_id).data,  # type: ignore[attr-defined]  # it has one
        context=context(row, field),
    )


def seal_bytes(row: Model, field: str, value: bytes) -> bytes:
    """As `seal`, of bytes that are no JSON, for a row that belongs to a thread."""
    return envelope.seal(
        value,
        key=hierarchy.thread_keys(row.thread_id).data,  # type: ignore[attr-defined]  # it has one
        context=context(row, field),
        content=envelope.Content.BYTES,
    )


def context(row: Model, field: str) -> Context:
    """The place that a sealed column's record is bound to.

    `step` is the row's where it has one, as the operations of a checkpoint do.
    """
    return Context(
        purpose=f"{row._meta.label_lower}.{field}",
        workspace=_workspace_of(row),
        thread=getattr(row, "thread_id", None) or NIL,
        object=row.pk,
        step=getattr(row, "step", 0),
        schema=RECORD_SCHEMA,
    )


def _key_id(record: bytes) -> UUID | None:
    """None for what is no sealed record."""
    try:
        return envelope.key_id(record)
    except DecryptionError:
        return None


def _opened(
    row: Model,
    field: str,
    record: bytes,
    keys: Mapping[UUID, envelope.DataKey | CheckpointsError],
) -> Any:
    """The value, or why it does not open."""
    try:
        key = keys[envelope.key_id(record)]
        if isinstance(key, CheckpointsError):
            return key
        plain = envelope.open_sealed(record, key=key, context=context(row, field))
    except DecryptionError as error:
        return error
    return codec.parse(plain)


def _workspace_of(row: Any) -> UUID:
    workspace: UUID = row.workspace_id
    return workspace


def _may_at_once(
    principal: Principal, purpose: str, wanted: set[UUID], steps: str
) -> bool:
    """Of a run that reads its own thread: whether it may, and that it does is recorded,
    in one statement. False: nothing was; why not is found by `_require_right`."""
    if not isinstance(principal, RunPrincipal) or wanted != {principal.thread_id}:
        return False
    values = {
        "grant": principal.grant_id,
        "workspace": principal.workspace_id,
        "thread": principal.thread_id,
    }
    thread = Thread(pk=principal.thread_id)
    return _OPEN.record(
        principal, "open", values, obj=thread, purpose=purpose, steps=steps
    )


def _require_right(principal: Principal, wanted: set[UUID]) -> None:
    match principal:
        case UserPrincipal():
            # Both in one statement; which of them does not hold is asked afterwards.
            if principal.may_read and wanted and _may_read(principal, wanted):
                return
            _require_member(principal)
            readable = Thread.objects.for_user(principal)
        case ServicePrincipal():
            _require_token(principal)
            readable = Thread.objects.for_user(principal)
        case RunPrincipal():
            _require_grant(principal)  # which is for this one thread
            if wanted <= {principal.thread_id}:
                return
            readable = Thread.objects.for_run(principal)
        case SystemPrincipal():
            readable = Thread.objects.unscoped(Reason.GATE).filter(
                workspace_id=principal.workspace_id
            )
    if wanted and readable.filter(pk__in=wanted).count() != len(wanted):
        raise NotPermitted("This thread is not shared with you.")


def _require_member(principal: UserPrincipal) -> None:
    if not principal.may_read:
        raise NotPermitted("An auditor reads the audit log, not what agents did.")
    if not _STILL.rows(principal):
        raise NotPermitted("You are no longer a member with this role.")


def _may_read(principal: UserPrincipal, wanted: set[UUID]) -> bool:
    if len(wanted) == 1:
        return bool(_ONE.rows(principal, pk=next(iter(wanted))))
    readable = Thread.objects.for_user(principal).filter(Exists(_still(principal)))
    return readable.filter(pk__in=wanted).count() == len(wanted)


def _still(by: UserPrincipal) -> ScopedQuerySet[Membership]:
    return Membership.objects.for_user(by).filter(
        user_id=by.user_id, user__is_active=True, role=by.role
    )


_STILL = Compiled(lambda by: _still(by).values_list("pk"))
_ONE = Compiled(
    lambda by, pk: (
        Thread.objects.for_user(by).filter(Exists(_still(by)), pk=pk).values_list("pk")
    )
)


def _require_token(principal: ServicePrincipal) -> None:
    mine = ApiToken.objects.for_user(principal).filter(pk=principal.token_id)
    if not mine.live().exists():
        raise NotPermitted("This token was revoked, or has expired.")


def _require_grant(principal: RunPrincipal) -> None:
    """What `GRANTED` says in a statement of the log's, with the reason where it does not."""
    found = _GRANT.row(
        {
            "grant": principal.grant_id,
            "workspace": principal.workspace_id,
            "thread": principal.thread_id,
        }
    )
    if found is None:
        raise NotPermitted("The grant of this run was revoked.")
    of_program, is_live, is_active, role = found
    if of_program == "true":
        if is_live != "true":
            raise NotPermitted(
                "The token that this run acts for was revoked, or has expired."
            )
        return
    if is_active != "true" or role not in {Role.OPERATOR, Role.ADMIN}:
        raise NotPermitted(
            "The person whom this run acts for may no longer operate here."
        )


# `ApiTokenQuerySet.live` says the same of a token.
_LIVE = """(t.revoked_at IS NULL AND t.digest <> ''::bytea
        AND (t.expires_at IS NULL OR t.expires_at > clock_timestamp()))"""
_GRANTED = f"""FROM {Grant._meta.db_table} g
LEFT JOIN {ApiToken._meta.db_table} t ON t.id = g.token_id
LEFT JOIN {get_user_model()._meta.db_table} u ON u.id = g.user_id
LEFT JOIN {Membership._meta.db_table} m
  ON m.workspace_id = g.workspace_id AND m.user_id = g.user_id
WHERE g.id = %(grant)s AND g.workspace_id = %(workspace)s
  AND g.thread_id = %(thread)s AND g.revoked_at IS NULL"""

# Asked at each opening, so it is planned once.
_GRANT = Prepared(f"""
SELECT (g.token_id IS NOT NULL)::text, {_LIVE}::text, u.is_active::text, m.role
{_GRANTED}
""")

# A condition: the grant holds and whom it is for may still act. For a statement that knows
# `grant`, `workspace` and `thread`: it tells before the next step what would else be asked.
GRANTED = f"""EXISTS (
SELECT {_GRANTED}
  AND CASE WHEN g.token_id IS NOT NULL THEN {_LIVE}
           ELSE u.is_active AND m.role IN ('{Role.OPERATOR}', '{Role.ADMIN}') END)"""


_OPEN = audit.Conditional(GRANTED)


def _record(principal: Principal, purpose: str, threads: set[UUID], steps: str) -> None:
    # Thread(pk) without a query: only the id and the model's name are recorded.
    only = Thread(pk=next(iter(threads))) if len(threads) == 1 else None
    if len(threads) > 1:
        ids = sorted(map(str, threads))
        audit.record(
            principal, "open", purpose=purpose, count=len(ids), threads=ids, steps=steps
        )
    else:
        audit.record(principal, "open", obj=only, purpose=purpose, steps=steps)
