"""Locks of names on a board: leases of rows in PostgreSQL, with fencing tokens.

    lock = entry_locks.take(run, name([], "plan"), lasts=timedelta(minutes=1))
    entries.put(run, run.board.public, name([], "plan"), …, fence=lock.fence)
    entry_locks.release(run, lock, fence=lock.fence)

While a run holds a name, nobody else writes it. It holds it until it lets go, until a
person takes the lock away, or until its time is up by the database's clock, whether it is
alive or not: so each write under a lock says which lock it means, by its fence, and is
refused when that is not held any more.

Nobody waits here: who finds a name locked is told by whom and until when. `released` is
sent, with the `lock`'s id, once one that was held is free before its time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.dispatch import Signal

from checkpoints import audit, gate
from checkpoints.access import Board, Reason, RunPrincipal
from checkpoints.clock import ClockTimestamp, now
from checkpoints.errors import (
    CheckpointsError,
    DecryptionError,
    EntryLocked,
    InvalidEntry,
    LockLost,
    NotPermitted,
)
from checkpoints.ids import short
from checkpoints.keys.hierarchy import workspace_mac
from checkpoints.models import DataKey, EntryLock
from checkpoints.models.entries import EntryLockQuerySet
from checkpoints.owners import By, Owner, Scope, owner_of
from checkpoints.pure import names
from checkpoints.pure.names import Name

LONGEST = timedelta(hours=1)  # what waits longer, for a person say, takes it again
MOST = 500  # locks of one board, with those that are free and not removed yet

released = Signal()

VIEWER = "Viewers read. An operator of the workspace can take a lock away."
NO_BOARD = "This run was asked for without its board."


@dataclass(frozen=True)
class Held:
    """A lock that is held, with what it is of; `damage` says why its name does not open."""

    lock: EntryLock
    name: Name | None = field(default=None, repr=False)
    damage: CheckpointsError | None = None


def take(
    by: RunPrincipal,
    name: Name,
    *,
    lasts: timedelta,
    request_key: UUID | None = None,
) -> EntryLock:
    """Hold a name of the run's board, for `lasts` from now. Whose it is already holds it
    for longer; a repeated `request_key` gives what the first call took, as it is.

    Raises EntryLocked where another run holds it, InvalidEntry for a time that is too
    long or a lock too many, NotPermitted.
    """
    if not timedelta() < lasts <= LONGEST:
        most = int(LONGEST.total_seconds())
        raise InvalidEntry(f"A lock lasts 1 to {most:,} seconds.")
    if by.board is None:
        raise NotPermitted(NO_BOARD)
    gate.require_right(by)
    with transaction.atomic():
        lock = _locked(by, by.board, name)
        holder = _holder(lock)
        if holder is not None and holder != by.run_id:
            raise _is_held(lock)
        again = request_key is not None and lock.request_key == request_key
        if holder is not None and again:
            return lock
        lock.fence += holder is None
        rows = EntryLock.objects.for_run(by).filter(pk=lock.pk)
        rows.update(
            fence=lock.fence,
            run=by.run_id,
            until=ClockTimestamp() + lasts,
            request_key=request_key,
            updated_at=ClockTimestamp(),
        )
        audit.record(by, "board_lock", obj=lock, via="worker", fence=lock.fence)
        return rows.get()


def release(by: By, lock: EntryLock, *, fence: int) -> bool:
    """Let go of it, or as an operator take it away from its run. False: nobody holds it
    with this fence, or another run does. Raises NotPermitted."""
    locks = _seen(by)
    if isinstance(by, RunPrincipal):
        locks, action, via = locks.filter(run=by.run_id), "board_unlock", "worker"
    elif by.may_operate:
        action, via = "board_release", "web"
    else:
        raise NotPermitted(VIEWER)
    gate.require_right(by)
    with transaction.atomic():
        went = locks.filter(pk=lock.pk, fence=fence, run__isnull=False).update(
            run=None, until=None, request_key=None, updated_at=ClockTimestamp()
        )
        if went:
            audit.record(by, action, obj=lock, via=via, fence=fence, run=lock.run)
            _tell(lock.pk)
    return bool(went)


def release_as_over(lock: EntryLock) -> bool:
    """Let go of it for its run, which is over. False: somebody else did, or has it now."""
    with transaction.atomic():
        rows = EntryLock.objects.unscoped(Reason.REAPER).filter(
            pk=lock.pk, fence=lock.fence, run=lock.run
        )
        went = rows.update(
            run=None, until=None, request_key=None, updated_at=ClockTimestamp()
        )
        if went:
            audit.record(
                None,
                "board_unlock",
                obj=lock,
                workspace_id=lock.workspace_id,
                via="worker",
                fence=lock.fence,
                run=lock.run,
            )
            _tell(lock.pk)
    return bool(went)


def _tell(lock: UUID) -> None:
    transaction.on_commit(lambda: released.send_robust(sender=EntryLock, lock=lock))


def require(by: By, owner: Owner, name: Name, *, fence: int | None) -> None:
    """That this may write the name now: nobody else holds it, and where a `fence` is
    given, `by` does, with it. Until the transaction ends, nobody takes the lock.

    Raises EntryLocked, LockLost, InvalidEntry where there are no locks.
    """
    if owner.scope != Scope.BOARD or owner.line is not None:
        if fence is not None:
            raise InvalidEntry("Only names that agents share on a board are locked.")
        return
    lock = _named(by, owner, name).select_for_update(no_key=True).first()
    holder = _holder(lock)
    is_own = isinstance(by, RunPrincipal) and holder == by.run_id
    if fence is None and holder is not None and not is_own:
        raise _is_held(lock)
    if fence is not None and not (is_own and lock is not None and lock.fence == fence):
        raise LockLost(fence=fence, now=_how_it_is(lock, holder))


def find(by: By, board: Board, name: Name) -> EntryLock | None:
    """The lock of a name, whether it is held or free. Raises NotPermitted."""
    return _named(by, owner_of(by, board), name).first()


def of_another(by: RunPrincipal, name: Name) -> EntryLock | None:
    """The lock of a name of the run's board, where another run holds it now.

    Raises NotPermitted.
    """
    if by.board is None:
        raise NotPermitted(NO_BOARD)
    lock = find(by, by.board.public, name)
    return lock if _holder(lock) not in (None, by.run_id) else None


def held(by: By, board: Board) -> list[Held]:
    """The locks of a board that are held now, those that end first before the others.
    That their names are read is recorded. Raises NotPermitted."""
    owner = owner_of(by, board.public)
    rows = list(_seen(by).filter(owner=board.of).held().order_by("until", "pk"))
    opened = gate.admit(by, purpose="board").open_each(rows, "name")
    return [_checked(row, owner, name) for row, name in zip(rows, opened, strict=True)]


def who(lock: EntryLock) -> str:
    return f"run {short(lock.run)}" if lock.run else "nobody"


def _seen(by: By) -> EntryLockQuerySet:
    if isinstance(by, RunPrincipal):
        return EntryLock.objects.for_run(by)
    return EntryLock.objects.for_user(by)


def _index(by: By, owner: Owner, name: Name) -> bytes:
    return names.whole(
        workspace_mac(by.workspace_id, DataKey.Purpose.INDEX), owner.hashed, name
    )


def _named(by: By, owner: Owner, name: Name) -> EntryLockQuerySet:
    return _seen(by).filter(blind_index=_index(by, owner, name))


def _locked(by: RunPrincipal, board: Board, name: Name) -> EntryLock:
    """The row of this name, locked until the transaction ends; a new one was held by none."""
    owner = owner_of(by, board.public)
    rows = _named(by, owner, name).select_for_update(no_key=True)
    if there := rows.first():
        return there
    if _seen(by).filter(owner=board.of).count() >= MOST:
        raise InvalidEntry(
            f"There are {MOST:,} locks on this board already, which is the most."
        )
    new = EntryLock(
        workspace_id=by.workspace_id,
        owner=board.of,
        blind_index=_index(by, owner, name),
    )
    sealed = {"namespace": list(name.namespace), "key": name.key}
    new.name = gate.seal(new, "name", sealed)
    # Another may lock it for the first time now: then it is theirs that we wait for.
    EntryLock.objects.bulk_create([new], ignore_conflicts=True)
    return rows.get()


def _holder(lock: EntryLock | None) -> UUID | None:
    """The run that holds it now; None where its time is up, too."""
    if lock is None or lock.run is None or lock.until is None:
        return None
    return lock.run if lock.until > now() else None


def _is_held(lock: EntryLock | None) -> EntryLocked:
    assert lock is not None  # somebody holds it
    assert lock.until is not None
    return EntryLocked(who=who(lock), until=lock.until)


def _how_it_is(lock: EntryLock | None, holder: UUID | None) -> str:
    if lock is None:
        return "nobody ever locked this name"
    if holder is not None:
        return f"{who(lock)} holds it now, with the fence {lock.fence}"
    if lock.until is not None:
        return f"its time was up at {lock.until:%H:%M:%S} UTC"
    return "it was released"


def _checked(lock: EntryLock, owner: Owner, content: object) -> Held:
    """With a name that is its own."""
    if isinstance(content, CheckpointsError):
        return Held(lock, damage=content)
    assert isinstance(content, dict)  # as `_locked` sealed it
    name = Name(tuple(content["namespace"]), content["key"])
    key = workspace_mac(lock.workspace_id, DataKey.Purpose.INDEX)
    if names.whole(key, owner.hashed, name) != bytes(lock.blind_index):
        return Held(lock, damage=DecryptionError(f"{lock} is of another name."))
    return Held(lock, name)
