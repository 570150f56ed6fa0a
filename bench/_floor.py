"""The floor: what one durable write costs, whatever it is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

TABLE = """
CREATE TABLE bench_floor (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea NOT NULL
)
"""
INSERT = "INSERT INTO bench_floor (body) VALUES (%s)"


def inserts(connection: psycopg.Connection[Any]) -> Callable[[str], object]:
    """Insert a text, in a transaction of its own, by psycopg and nothing else.

    psycopg prepares the statement after a few executions, as a step's is.
    """
    return lambda text: connection.execute(INSERT, [text.encode()])
