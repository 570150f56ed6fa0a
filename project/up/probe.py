"""Are the servers that DATABASE_URL and REDIS_URL name there, and new enough?

Run inside `.venv`; prints what is wrong, without passwords, and ends with code 1.
"""

from __future__ import annotations

import sys

import psycopg
import redis
from django.core.exceptions import ImproperlyConfigured

from project import env

OLDEST_POSTGRES = 15
OLDEST_REDIS = 7
PATIENCE = 5  # seconds


def postgres() -> str | None:
    found = env.database("DATABASE_URL")
    where = f"{found['HOST'] or 'the local socket'}, database {found['NAME']!r}"
    options = {"connect_timeout": PATIENCE, **found["OPTIONS"]}
    try:
        with psycopg.connect(
            dbname=found["NAME"],
            user=found["USER"] or None,
            password=found["PASSWORD"] or None,
            host=found["HOST"] or None,
            port=found["PORT"] or None,
            **options,
        ) as connection:
            version = connection.info.server_version // 10_000
    except psycopg.Error as error:
        said = str(error).strip().partition("\n")[0]
        return f"DATABASE_URL is set, but {where} cannot be used: {said}"
    if version < OLDEST_POSTGRES:
        return f"DATABASE_URL: {where} is PostgreSQL {version}; {OLDEST_POSTGRES} is the oldest that works."
    return None


def valkey() -> str | None:
    try:
        with redis.Redis.from_url(
            env.redis_url("REDIS_URL"),
            socket_connect_timeout=PATIENCE,
            socket_timeout=PATIENCE,
        ) as connection:
            version = str(connection.info("server")["redis_version"])
    except (redis.RedisError, ValueError) as error:
        return (
            f"REDIS_URL is set, but it cannot be used: {type(error).__name__}: {error}"
        )
    if int(version.partition(".")[0]) < OLDEST_REDIS:
        return f"REDIS_URL is Redis {version}; {OLDEST_REDIS} is the oldest that works."
    return None


def main(names: list[str]) -> int:
    checks = {"DATABASE_URL": postgres, "REDIS_URL": valkey}
    try:
        problems = [problem for name in names if (problem := checks[name]())]
    except ImproperlyConfigured as error:
        problems = [str(error)]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
