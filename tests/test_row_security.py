"""Every table is somebody's: what the catalogue says of roles, rights and policies."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from checkpoints.db import roles
from checkpoints.db.roles import WEB, WORKER

APPEND_ONLY = {
    "agents_agentversion",
    "agents_decision",
    "checkpoints_auditevent",
    "checkpoints_auditlink",
    "checkpoints_checkpoint",
    "checkpoints_deletion",
}

# Of `migrate` and `roles`, which are the owner's commands.
pytestmark = [pytest.mark.django_db, pytest.mark.owner]


def ask(query: str, *values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return cursor.fetchall()


def tables() -> list[str]:
    return [
        name
        for (name,) in ask(
            "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p')"
            " AND relnamespace = 'public'::regnamespace ORDER BY relname"
        )
    ]


def test_every_table_says_what_web_and_workers_do_with_it():
    assert set(tables()) - set(roles.rights()) == set()


def test_nothing_is_missing_after_migrate():
    assert roles.missing_roles(connection) == []
    assert roles.missing_rights(connection) == []


def test_every_table_of_a_workspace_has_row_security_and_policies():
    of_a_workspace = {
        table
        for (table,) in ask(
            "SELECT table_name::text FROM information_schema.columns"
            " WHERE table_schema = 'public' AND column_name = 'workspace_id'"
        )
    } | {"checkpoints_workspace", "checkpoints_group_members"}
    secured = {
        table
        for (table,) in ask(
            "SELECT tablename::text FROM pg_tables"
            " WHERE schemaname = 'public' AND rowsecurity"
        )
    }
    assert of_a_workspace - secured == set()
    policies = set(ask("SELECT tablename::text, policyname::text FROM pg_policies"))
    for table in of_a_workspace:
        assert {(table, "tenant"), (table, "workers")} <= policies


def test_no_policy_lets_the_web_role_see_everything():
    for table, name, role, rows in ask(
        "SELECT tablename, policyname, roles::text, coalesce(qual, with_check)"
        " FROM pg_policies"
    ):
        if rows == "true":
            assert (name, role) == ("workers", f"{{{WORKER}}}"), table


@pytest.mark.parametrize("role", [WEB, WORKER])
class TestRole:
    def test_it_owns_nothing_and_may_make_nothing(self, role):
        assert ask(
            "SELECT count(*) FROM pg_class JOIN pg_roles r ON r.oid = relowner"
            " WHERE rolname = %s",
            role,
        ) == [(0,)]
        assert ask(
            "SELECT has_schema_privilege(rolname, 'public', 'CREATE'),"
            " has_database_privilege(rolname, current_database(), 'CREATE'),"
            " rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication"
            " FROM pg_roles WHERE rolname = %s",
            role,
        ) == [(False,) * 7]

    def test_it_can_neither_truncate_nor_alter(self, role):
        for table in tables():
            for right in ("TRUNCATE", "REFERENCES", "TRIGGER"):
                assert ask(
                    "SELECT has_table_privilege(%s, %s, %s)", role, table, right
                ) == [(False,)], table

    def test_what_is_written_once_it_can_only_add_to(self, role):
        for table in APPEND_ONLY:
            for right in ("UPDATE", "DELETE"):
                assert ask(
                    "SELECT has_table_privilege(%s, %s, %s)", role, table, right
                ) == [(False,)], table


def test_a_right_that_was_given_by_hand_is_taken_back():
    ask_nothing("GRANT DELETE ON checkpoints_checkpoint TO holdpoint_web")
    ask_nothing("REVOKE SELECT ON checkpoints_thread FROM holdpoint_worker")
    planned, said = StringIO(), StringIO()
    call_command("roles", dry_run=True, stdout=planned)
    call_command("roles", stdout=said)
    for text in (planned.getvalue(), said.getvalue()):
        assert (
            "REVOKE DELETE ON TABLE checkpoints_checkpoint FROM holdpoint_web" in text
        )
        assert "GRANT SELECT ON TABLE checkpoints_thread TO holdpoint_worker" in text
    assert roles.missing_rights(connection) == []


def ask_nothing(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)
