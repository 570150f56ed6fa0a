"""Everything that the checkpoint log refuses, and whether trying again helps.

    CheckpointsError
    ├─ NotStorable, NotJson, BadOperation                   what was given does not fit
    ├─ FutureSchema, MissingMigration, MigrationFailed      state of another version
    ├─ DecryptionError ─ NotSealed                          a record does not open
    ├─ UnknownKey, KeysUnavailable, Shredded                its key is not there
    ├─ Fenced                                               someone else was faster
    ├─ BrokenChain                                          history is not as it was written
    ├─ Pruned, BadArchive, BeingArchived                    content that went, its archive
    ├─ BadToken, TokenRefused, TooManyRequests              a program's token
    ├─ InvalidEntry, EntryConflict                          what is put into the store
    ├─ EntryLocked, LockLost                                a name that one run may write
    └─ NotPermitted, Unscoped, StepNotFound                 not for this reader

A message names the thing, what was found and what was expected. It never holds
state, keys or prompts; a path or a key name inside state it may hold, so it is
for the person at work, and is sealed where it is kept.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from math import ceil
from typing import ClassVar


class CheckpointsError(Exception):
    """Base of the tree. `status` is what a page or the API answers with."""

    code: ClassVar[str] = "checkpoints_error"
    status: ClassVar[int] = 500
    retry: ClassVar[bool] = False  # would the same call, made again, help?


class NotStorable(CheckpointsError):
    """A value is not plain JSON, or too deep or too large; `path` says where."""

    code = "not_storable"
    status = 422

    def __init__(
        self, path: str, found: str, expected: str = "only plain JSON can be stored"
    ) -> None:
        super().__init__(f"{path} {found}; {expected}.")
        self.path = path
        self.found = found
        self.expected = expected


class NotJson(CheckpointsError):
    """Typed text is not the JSON that we take; `line` and `column` count from 1."""

    code = "not_json"
    status = 422

    def __init__(self, line: int, column: int, problem: str) -> None:
        super().__init__(f"Line {line}, column {column}: {problem}.")
        self.line = line
        self.column = column
        self.problem = problem


class BadOperation(CheckpointsError):
    """An operation does not fit the state that it was applied to, or is not one."""

    code = "bad_operation"
    status = 422

    def __init__(self, op: str, path: str, problem: str) -> None:
        super().__init__(f"{op} at {path!r}: {problem}.")
        self.op = op
        self.path = path
        self.problem = problem


class FutureSchema(CheckpointsError):
    """State was written by a newer version than the one that reads it."""

    code = "future_schema"
    status = 409

    def __init__(self, found: int, known: int) -> None:
        super().__init__(
            f"State has schema version {found}; this version reads up to {known}. "
            "Deploy the version that wrote it."
        )
        self.found = found
        self.known = known


class MissingMigration(CheckpointsError):
    """Old state cannot be read: the agent has no migration from its version."""

    code = "missing_migration"
    status = 500

    def __init__(self, version: int) -> None:
        super().__init__(
            f"No migration is registered from schema version {version}. "
            "Register one, or deploy the version that had it."
        )
        self.version = version


class MigrationFailed(CheckpointsError):
    """A migration raised, or did not return a state that can be stored."""

    code = "migration_failed"
    status = 500

    def __init__(self, version: int, problem: str) -> None:
        super().__init__(
            f"The migration from schema version {version} {problem}. Nothing was "
            "changed; repair it, deploy, and try again."
        )
        self.version = version
        self.problem = problem


class DecryptionError(CheckpointsError):
    """A sealed record does not open.

    One message for every cause (altered, moved, another key), so that it tells a
    forger nothing.
    """

    code = "unreadable_record"
    status = 500

    def __init__(
        self,
        message: str = "This record does not open: it was altered, moved, or sealed "
        "under another key.",
    ) -> None:
        super().__init__(message)


class NotSealed(DecryptionError):
    """These bytes are not a sealed record of a version that we know."""

    code = "not_sealed"

    def __init__(self) -> None:
        super().__init__("These bytes are not a sealed record of a known version.")


class UnknownKey(CheckpointsError):
    """No key has this id, or its wrapping key is not configured here."""

    code = "unknown_key"
    status = 500


class KeysUnavailable(CheckpointsError):
    """The service that holds the key-encryption key does not answer, or not to us."""

    code = "keys_unavailable"
    status = 503
    retry = True


class Shredded(CheckpointsError):
    """The key was destroyed on purpose: what it sealed is gone for good."""

    code = "shredded"
    status = 410


class Fenced(CheckpointsError):
    """Another holder took the branch. Stop, and cause no further effect."""

    code = "fenced"
    status = 409


class BrokenChain(CheckpointsError):
    """A step's MAC does not follow from the step before it."""

    code = "broken_chain"
    status = 500


class NotPermitted(CheckpointsError):
    """The principal may see that this exists, but may not do this with it."""

    code = "not_permitted"
    status = 403


class Unscoped(CheckpointsError):
    """A query named no workspace. A mistake in our code, never in a request."""

    code = "unscoped"
    status = 500


class StepNotFound(CheckpointsError):
    """The branch, seen through its forks, has no such step."""

    code = "step_not_found"
    status = 404


class StoreUnavailable(CheckpointsError):
    """The blob store does not answer, or does not let us write; the message says why.

    Nothing was lost: what needed the store was not done, and can be done again.
    """

    code = "store_unavailable"
    status = 503
    retry = True


class StoreFull(StoreUnavailable):
    """The blob store has no room left."""

    code = "store_full"
    status = 507


class WrongStore(StoreUnavailable):
    """The blob store here is not the one that the other processes use."""

    code = "wrong_store"


class MissingObject(CheckpointsError):
    """The blob store has no object of this name: it was removed, or is elsewhere."""

    code = "missing_object"
    status = 410


class BadObject(MissingObject, ValueError):
    """What is there under this name is no object of ours: somebody put it there."""

    code = "bad_object"


class Pruned(CheckpointsError):
    """A thread's content went to an archive; the message says when, and the way back."""

    code = "pruned"
    status = 410


class BadArchive(CheckpointsError):
    """An archive is damaged, cut off, changed, or not one of this installation."""

    code = "bad_archive"
    status = 422


class BeingArchived(CheckpointsError):
    """Another process is archiving this thread just now."""

    code = "being_archived"
    status = 409
    retry = True


class BadToken(CheckpointsError):
    """No token that is live: unknown, revoked or expired; which, is not said."""

    code = "bad_token"
    status = 401

    def __init__(self) -> None:
        super().__init__(
            "No token that is valid now. An admin of the workspace makes one under "
            "API tokens; send it as `Authorization: Bearer hp_…`."
        )


class TokenRefused(CheckpointsError):
    """A token cannot be made so; `field` is what does not fit."""

    code = "token_refused"
    status = 422

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field


class InvalidEntry(CheckpointsError):
    """A name or a value is none that the store takes, or there is no such entry."""

    code = "invalid_entry"
    status = 422


class NoVectors(CheckpointsError):
    """The embedding model gave none, in plain words: what is looked for is found by words."""

    code = "no_vectors"
    status = 503
    retry = True


class EntryConflict(CheckpointsError):
    """The entry is at another version than whoever writes has seen. Nothing was written.

    `version` is the one that was found, 0 for none, and `who` wrote it.
    """

    code = "entry_conflict"
    status = 409

    def __init__(self, *, expected: int, version: int, who: str, gone: bool) -> None:
        is_at = f"{'was deleted with' if gone else 'is at'} version {version}"
        found = f"It {is_at}, by {who}" if version else "There is no such entry"
        wanted = f"version {expected} was expected" if expected else "none was expected"
        super().__init__(f"{found}; {wanted}. Read it, and decide again.")
        self.expected = expected
        self.version = version
        self.who = who
        self.gone = gone


class EntryLocked(CheckpointsError):
    """Another run holds the lock of this name, until then. Nothing was written."""

    code = "entry_locked"
    status = 409
    retry = True

    def __init__(self, *, who: str, until: datetime) -> None:
        super().__init__(
            f"It is locked by {who} until {until:%H:%M:%S} UTC at the latest. Go on with"
            " something else, and try again then."
        )
        self.who = who
        self.until = until


class LockLost(CheckpointsError):
    """The lock under which a write was made is not held any more. Nothing was written."""

    code = "lock_lost"
    status = 409

    def __init__(self, *, fence: int, now: str) -> None:
        super().__init__(
            f"The lock with the fence {fence} was lost: {now}. Nothing was written. Lock"
            " it again, read it, and decide again."
        )
        self.fence = fence


class TooManyRequests(CheckpointsError):
    """The token's requests of this minute are used up; `wait` says for how long."""

    code = "too_many_requests"
    status = 429
    retry = True

    def __init__(self, wait: timedelta) -> None:
        self.wait = max(1, ceil(wait.total_seconds()))  # seconds
        super().__init__(
            f"Too many requests with this token. Try again in {self.wait} s."
        )
