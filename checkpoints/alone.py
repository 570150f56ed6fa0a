"""One process at a time: a lock in the database that ends with its connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

_LOCKS = 0x484F4C44  # "HOLD": the class of our advisory locks in the database


@contextmanager
def alone(name: str) -> Iterator[bool]:
    """Whether this block is the only one of its name, in any process.

    On a connection of its own: what is done in the block commits as it goes along.
    """
    lock = connection.copy()
    try:
        lock.set_autocommit(False)
        with lock.cursor() as cursor:
            cursor.execute(
                "SELECT pg_try_advisory_xact_lock(%s, hashtext(%s))", [_LOCKS, name]
            )
            [granted] = cursor.fetchone()
        yield granted
    finally:
        lock.close()  # and with it the transaction that holds the lock
