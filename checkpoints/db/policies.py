"""Row security, for migrations: who sees the rows of a table, told by `base`.

    operations = [*tenant("checkpoints_thread")]

Policies speak of everyone but the owner of the tables, whatever role asks, so a role
that nobody thought of sees nothing. Workers serve all workspaces: the policy that says
so names their role, and is made with the roles (`roles`), which are the cluster's.
"""

from __future__ import annotations

from django.db.migrations import RunSQL

# Inlined, and asked once a query: `(SELECT …)` in a policy is evaluated before its rows.
FUNCTIONS = """
CREATE FUNCTION checkpoints_workspace_told() RETURNS uuid LANGUAGE sql STABLE AS
$$ SELECT nullif(current_setting('holdpoint.workspace', true), '')::uuid $$;
CREATE FUNCTION checkpoints_person_told() RETURNS integer LANGUAGE sql STABLE AS
$$ SELECT nullif(current_setting('holdpoint.person', true), '')::integer $$;
CREATE FUNCTION checkpoints_scope_told() RETURNS text LANGUAGE sql STABLE AS
$$ SELECT current_setting('holdpoint.scope', true) $$;
"""
NO_FUNCTIONS = """
DROP FUNCTION checkpoints_scope_told();
DROP FUNCTION checkpoints_person_told();
DROP FUNCTION checkpoints_workspace_told();
"""

WORKSPACE = "(SELECT checkpoints_workspace_told())"
PERSON = "(SELECT checkpoints_person_told())"
SCOPE = "(SELECT checkpoints_scope_told())"


def tenant(
    table: str, *, column: str = "workspace_id", operators: str = "SELECT"
) -> list[RunSQL]:
    """Rows are seen, and written, by the workspace that they are of.

    `operators` is what staff may do with any workspace's rows, in the admin: "SELECT",
    or "ALL" for what is set by hand there.
    """
    return [
        RunSQL(
            f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
            f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY",
        ),
        policy(table, "tenant", f"{column} = {WORKSPACE}"),
        policy(table, "operators", f"{SCOPE} = 'operator'", operators),
    ]


def policy(table: str, name: str, rows: str, command: str = "ALL") -> RunSQL:
    """One more way to see these rows, and unless `command` is SELECT to write them."""
    clause = "WITH CHECK" if command == "INSERT" else "USING"
    return RunSQL(
        f"CREATE POLICY {name} ON {table} FOR {command} {clause} ({rows})",
        f"DROP POLICY {name} ON {table}",
    )
