"""The migrations make what the models say, and leave nothing behind on their way back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from django.core.management import call_command

ROOT = Path(__file__).resolve().parent.parent
NAME = f"holdpoint_migrations_{os.getpid()}"

STRUCTURE = {
    "columns": """
        SELECT table_name, column_name, data_type, is_nullable, column_default
        FROM information_schema.columns WHERE table_schema = 'public'""",
    "constraints": """
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace""",
    "indexes": "SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "triggers": "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
    "functions": """
        SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace""",
    "sequences": "SELECT sequencename FROM pg_sequences WHERE schemaname = 'public'",
}


def test_the_migrations_say_what_the_models_say(db):
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


@pytest.fixture
def scratch() -> Iterator[str]:
    """The address of an empty database."""
    server = os.environ["DATABASE_URL"]
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {NAME}")
        try:
            yield urlunsplit(urlsplit(server)._replace(path=f"/{NAME}"))
        finally:
            connection.execute(f"DROP DATABASE {NAME} WITH (FORCE)")


def migrate(database: str, *target: str) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity", "0", *target],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": database},
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr


def structure(database: str) -> dict[str, list[str]]:
    with psycopg.connect(database) as connection:
        return {
            part: sorted(map(str, connection.execute(query).fetchall()))
            for part, query in STRUCTURE.items()
        }


@pytest.mark.slow
@pytest.mark.unmeasured
def test_they_go_back_to_nothing_and_forward_to_the_same(scratch):
    migrate(scratch)
    there = structure(scratch)
    assert any("checkpoints_checkpoint'" in column for column in there["columns"])
    migrate(scratch, "agents", "zero")
    migrate(scratch, "checkpoints", "zero")
    for part, found in structure(scratch).items():
        ours = [one for one in found if "'checkpoints_" in one or "'agents_" in one]
        assert not ours, part
    migrate(scratch)
    assert structure(scratch) == there
