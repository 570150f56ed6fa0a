"""Versions of an agent's state, and how old state becomes new.

State carries its version under `_schema`. A migration is a pure function from one
version's state to the next one's; which there are is the agent's business:

    migrations = Migrations()

    @migrations.add(from_version=1)
    def name_the_traveller(state: State) -> State:
        return {**state, "traveller": {"name": state["name"]}}

History is never rewritten. Old state is migrated when it is read, and the first
step after that records what the migration did, so that later changes to its code
cannot change the past.
"""

from __future__ import annotations

from collections.abc import Callable

from checkpoints.errors import (
    FutureSchema,
    MigrationFailed,
    MissingMigration,
    NotStorable,
)
from checkpoints.pure.codec import State, canonical, parse

SCHEMA_VERSION = 1  # of the built-in agent's state
MAX_VERSION = 32_767  # what the column of a step holds
KEY = "_schema"

Migration = Callable[[State], State]


class Migrations:
    """One agent's migrations, each by the version that it starts from."""

    def __init__(self) -> None:
        self._from: dict[int, Migration] = {}

    def __repr__(self) -> str:
        return f"Migrations(from {self.versions or 'none'})"

    @property
    def versions(self) -> list[int]:
        """Those that a migration starts from."""
        return sorted(self._from)

    def add(self, *, from_version: int) -> Callable[[Migration], Migration]:
        def register(function: Migration) -> Migration:
            if from_version in self._from:
                raise ValueError(f"Version {from_version} has a migration already.")
            self._from[from_version] = function
            return function

        return register

    def get(self, version: int) -> Migration:
        """Raises MissingMigration."""
        if version not in self._from:
            raise MissingMigration(version)
        return self._from[version]


NONE = Migrations()


def version(state: State) -> int:
    """The version that this state says it has. State without one has version 1."""
    found = state.get(KEY, 1)
    if type(found) is not int or found < 1:
        return 1
    return min(found, MAX_VERSION)


def migrate(
    state: State, *, to: int = SCHEMA_VERSION, migrations: Migrations = NONE
) -> State:
    """The state as version `to` has it; the same object where it is that already.

    A migration works on a copy: what was read belongs to history. Raises FutureSchema,
    MissingMigration, and MigrationFailed when one raises or returns what is no state.
    """
    found = version(state)
    require_known(found, to)
    for step in range(found, to):
        state = {**_one(migrations.get(step), step, state), KEY: step + 1}
    return state


def require_known(found: int, known: int) -> None:
    """Raises FutureSchema when state of version `found` was written by newer code."""
    if found > known:
        raise FutureSchema(found, known)


def _one(migration: Migration, step: int, state: State) -> State:
    try:
        made = migration(parse(canonical(state)))
    except Exception as error:
        # Somebody else's code, as a tool is. What it says may be state: only its class.
        raise MigrationFailed(step, f"raised {type(error).__name__}") from error
    if type(made) is not dict:
        raise MigrationFailed(step, f"returned {type(made).__name__}, not a state")
    try:
        canonical(made)
    except NotStorable as error:
        raise MigrationFailed(
            step, f"returned what cannot be stored: {error.path} {error.found}"
        ) from None
    return made
