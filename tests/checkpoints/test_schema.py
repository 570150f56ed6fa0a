"""Old state still opens; state from the future is refused."""

from __future__ import annotations

import pytest

from checkpoints.errors import FutureSchema, MissingMigration
from checkpoints.pure.schema import SCHEMA_VERSION, Migrations, migrate, version


@pytest.fixture
def migrations() -> Migrations:
    migrations = Migrations()

    @migrations.add(from_version=1)
    def name_the_traveller(state):
        return {**state, "traveller": {"name": state["name"]}}

    @migrations.add(from_version=2)
    def drop_the_old_name(state):
        return {key: value for key, value in state.items() if key != "name"}

    return migrations


def test_old_state_is_brought_up_one_version_at_a_time(migrations):
    old = {"_schema": 1, "name": "Helen"}
    assert migrate(old, to=3, migrations=migrations) == {
        "_schema": 3,
        "traveller": {"name": "Helen"},
    }
    assert old == {"_schema": 1, "name": "Helen"}


def test_state_without_a_version_is_the_first(migrations):
    assert version({"name": "Helen"}) == 1
    assert migrate({"name": "Helen"}, to=2, migrations=migrations)["_schema"] == 2


def test_state_of_this_version_is_left_as_it_is(migrations):
    state = {"_schema": 3}
    assert migrate(state, to=3, migrations=migrations) is state
    assert migrate({"_schema": SCHEMA_VERSION}) == {"_schema": SCHEMA_VERSION}


def test_state_from_the_future_is_refused(migrations):
    with pytest.raises(
        FutureSchema, match="schema version 4; this version reads up to 3"
    ):
        migrate({"_schema": 4}, to=3, migrations=migrations)


def test_a_gap_in_the_migrations_is_named(migrations):
    with pytest.raises(MissingMigration, match="from schema version 3"):
        migrate({"_schema": 1, "name": ""}, to=4, migrations=migrations)


def test_a_version_has_one_migration(migrations):
    with pytest.raises(ValueError, match="2 has a migration already"):
        migrations.add(from_version=2)(lambda state: state)


@pytest.mark.parametrize("odd", [True, "2", 0, -1, 1.0, None])
def test_an_odd_version_is_no_version(odd):
    assert version({"_schema": odd}) == 1
