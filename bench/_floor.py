"""The floor: what one durable write costs, whatever it is for."""

from __future__ import annotations

from django.db import connection

from checkpoints.db.roles import WORKER

TABLE = f"""
CREATE TABLE bench_floor (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea NOT NULL
);
GRANT INSERT ON bench_floor TO {WORKER}
"""


def insert(text: str) -> None:
    """A row of this text, in a transaction of its own, as any application here does it."""
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO bench_floor (body) VALUES (%s)", [text.encode()])
