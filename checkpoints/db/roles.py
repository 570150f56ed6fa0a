"""The cluster's roles, and what each may do to which table.

`holdpoint_web` serves pages, under row security; `holdpoint_worker` serves every
workspace's runs. Neither owns anything, so neither can alter a table, switch off a
trigger or truncate. What is written once they can only insert. Each app says what its
tables are for, as `rights` of its AppConfig.

Roles belong to the cluster and rights to a database, so nothing here is part of a
migration: `manage.py migrate` ends with it, and `manage.py roles` does it alone. Both
change what differs, and may be repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db import IntegrityError, InternalError, ProgrammingError, transaction
from psycopg import errors

from checkpoints.db.base import notice_roles
from checkpoints.db.session import DatabaseRole

logger = logging.getLogger(__name__)

WEB, WORKER = DatabaseRole.WEB.in_postgres, DatabaseRole.WORKER.in_postgres


@dataclass(frozen=True)
class Rights:
    """Verbs on a table: "SELECT, INSERT". A sequence takes "USAGE"."""

    web: str = ""
    worker: str = ""

    def of(self, role: str) -> frozenset[str]:
        verbs = self.web if role == WEB else self.worker
        return frozenset(verbs.split(", ")) - {""}


READ = "SELECT"
ADD = "SELECT, INSERT"  # what is written once
CHANGE = "SELECT, INSERT, UPDATE"
ALL = "SELECT, INSERT, UPDATE, DELETE"


def rights() -> dict[str, Rights]:
    """What the installed apps say, by table."""
    found: dict[str, Rights] = {}
    for config in apps.get_app_configs():
        said: Mapping[str, Rights] = getattr(config, "rights", {})
        found |= said
    return found


def missing_roles(connection: Any) -> list[str]:
    """Statements that make the cluster's roles, for an owner who may or for somebody else.

    The owner becomes a member, so that a process which has only the owner's credentials
    can take the role.
    """
    with connection.cursor() as cursor:
        cursor.execute(_THERE, [WEB, WORKER])
        rows = cursor.fetchall()
    owner = rows[0][0]
    there = {role for _, role, _ in rows}
    takes = {role for _, role, may_take in rows if may_take}
    return [
        *(
            f"CREATE ROLE {role} LOGIN"
            " NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION"
            for role in (WEB, WORKER)
            if role not in there
        ),
        *(f"GRANT {role} TO {owner}" for role in (WEB, WORKER) if role not in takes),
    ]


def missing_rights(connection: Any) -> list[str]:
    """Statements that make rights and policies as the apps say, by roles that exist."""
    with connection.cursor() as cursor:
        cursor.execute(_THERE, [WEB, WORKER])
        roles = sorted({role for _, role, _ in cursor.fetchall()} - {None})
        cursor.execute(_RELATIONS)
        relations = cursor.fetchall()
        cursor.execute(_GRANTED, [roles])
        granted: dict[tuple[str, str], set[str]] = {}
        for name, role, verb in cursor.fetchall():
            granted.setdefault((name, role), set()).add(verb)
        cursor.execute(_OPEN, [roles])
        statements = [statement for (statement,) in cursor.fetchall()]
    wanted = rights()
    for name, kind, is_secured, serves_workers in relations:
        for role in roles:
            should = wanted.get(name, Rights()).of(role)
            has = granted.get((name, role), set())
            what = f"{'SEQUENCE' if kind == 'S' else 'TABLE'} {name}"
            if surplus := ", ".join(sorted(has - should)):
                statements.append(f"REVOKE {surplus} ON {what} FROM {role}")
            if lacking := ", ".join(sorted(should - has)):
                statements.append(f"GRANT {lacking} ON {what} TO {role}")
        if is_secured and not serves_workers and WORKER in roles:
            statements.append(
                f"CREATE POLICY workers ON {name} TO {WORKER} USING (true)"
            )
    return statements


def apply(connection: Any) -> tuple[list[str], list[str]]:
    """Make what is missing: the statements that ran, and those that this user may not.

    Roles that another process makes at this moment, for another database of the
    cluster, count as made.
    """
    refused = []
    ran = []
    for statement in missing_roles(connection):
        try:
            with (
                transaction.atomic(using=connection.alias),
                connection.cursor() as cursor,
            ):
                cursor.execute(statement)
        except (IntegrityError, InternalError) as error:
            logger.info("another process was faster (%s)", type(error).__name__)
        except ProgrammingError as error:
            if isinstance(error.__cause__, errors.DuplicateObject):
                continue
            refused.append(statement)
        else:
            ran.append(statement)
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        for statement in missing_rights(connection):
            cursor.execute(statement)
            ran.append(statement)
    notice_roles(connection.connection)
    return ran, refused


# The owner's name, and each role of ours with whether the owner may take it.
_THERE = """
SELECT quote_ident(session_user), rolname,
       pg_has_role(session_user, oid, CASE
           WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER'
           ELSE 'SET'
       END)
FROM (SELECT) one LEFT JOIN pg_roles ON rolname IN (%s, %s)
"""
_RELATIONS = """
SELECT relname, relkind::text, relrowsecurity,
       EXISTS (SELECT FROM pg_policy WHERE polrelid = c.oid AND polname = 'workers')
FROM pg_class c
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'S', 'v')
  AND pg_has_role(session_user, relowner, 'USAGE')
ORDER BY relname
"""
_GRANTED = """
SELECT relname, rolname, privilege_type
FROM pg_class, aclexplode(relacl) JOIN pg_roles ON pg_roles.oid = grantee
WHERE relnamespace = current_schema()::regnamespace AND rolname = ANY (%s)
"""
# Normally everyone may connect and look into the schema; here and there that was revoked.
_OPEN = """
SELECT format(what, name, rolname) FROM pg_roles, (VALUES
    ('GRANT CONNECT ON DATABASE %%I TO %%I', current_database()::text, 'c'),
    ('GRANT USAGE ON SCHEMA %%I TO %%I', current_schema()::text, 's')
) AS door (what, name, kind)
WHERE rolname = ANY (%s) AND NOT CASE kind
    WHEN 'c' THEN has_database_privilege(rolname, name, 'CONNECT')
    ELSE has_schema_privilege(rolname, name, 'USAGE')
END
"""
