"""Processes that have the credentials of their role, and no others."""

from __future__ import annotations

from urllib.parse import quote, urlsplit, urlunsplit

import psycopg

from checkpoints.db.session import DatabaseRole

VARIABLES = {
    DatabaseRole.WEB: "DATABASE_WEB_URL",
    DatabaseRole.WORKER: "DATABASE_WORKER_URL",
}


def as_role(env: dict[str, str], role: DatabaseRole) -> dict[str, str]:
    """The environment of a process of this role, made of the owner's.

    The embedded server trusts its socket. One that wants a password has none for the
    role: then the process takes its role, as it does where only DATABASE_URL is given.
    """
    env = {k: v for k, v in env.items() if k not in VARIABLES.values()}
    owners = urlsplit(env["DATABASE_URL"])
    host = owners.netloc.rpartition("@")[2]
    own = urlunsplit(owners._replace(netloc=f"{quote(role.in_postgres)}@{host}"))
    try:
        psycopg.connect(own).close()
    except psycopg.OperationalError:
        return env
    kept = {name: value for name, value in env.items() if name != "DATABASE_URL"}
    return kept | {VARIABLES[role]: own}
