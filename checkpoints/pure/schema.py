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

from checkpoints.errors import FutureSchema, MissingMigration
from checkpoints.pure.codec import State

SCHEMA_VERSION = 1  # of the built-in agent's state
KEY = "_schema"

Migration = Callable[[State], State]


class Migrations:
    """One agent's migrations, each by the version that it starts from."""

    def __init__(self) -> None:
        self._from: dict[int, Migration] = {}

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
    return found if type(found) is int and found >= 1 else 1


def migrate(
    state: State, *, to: int = SCHEMA_VERSION, migrations: Migrations = NONE
) -> State:
    """The state as version `to` has it; the same object where it is that already.

    A migration must return a new state; what it was given belongs to history.
    Raises FutureSchema and MissingMigration.
    """
    found = version(state)
    if found > to:
        raise FutureSchema(found, to)
    for step in range(found, to):
        state = {**migrations.get(step)(state), KEY: step + 1}
    return state
