"""What somebody does who owns the database, and no key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connection, transaction

from checkpoints.keys import hierarchy
from tests.conftest import as_owner


def tamper(sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> int:
    """Run it past every trigger and foreign key; the count of rows.

    The process forgets its keys, as one that starts now would not know them.
    """
    with as_owner(), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(sql, values or None)
        count = cursor.rowcount
        cursor.execute("SET LOCAL session_replication_role = DEFAULT")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")  # as every transaction begins
    hierarchy.forget()
    return int(count)
