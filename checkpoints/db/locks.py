"""One process at a time: locks of the database that end with whoever took them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.db import Error, connection

# Classes of our advisory locks in the database, so that equal names do not meet.
DUTY = 0x484F4C44  # "HOLD"
ARCHIVE = 0x41524348  # "ARCH"
PACK = 0x5041434B  # "PACK"
WINDOW = 0x57494E44  # "WIND"
FORM = 0x464F524D  # "FORM"


@contextmanager
def alone(space: int, name: str) -> Iterator[bool]:
    """Whether this block is the only one of its name, in any process.

    On a connection of its own: what is done in the block commits as it goes along.
    """
    lock = connection.copy()
    try:
        lock.set_autocommit(False)
        with lock.cursor() as cursor:
            cursor.execute(
                "SELECT pg_try_advisory_xact_lock(%s, hashtext(%s))", [space, name]
            )
            [granted] = cursor.fetchone()
        yield granted
    finally:
        _release(lock)


@contextmanager
def in_turn(space: int, name: str) -> Iterator[None]:
    """One block of this name after another, in any process. Connection as of `alone`."""
    lock = connection.copy()
    try:
        lock.set_autocommit(False)
        with lock.cursor() as cursor:
            cursor.execute(
                "SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [space, name]
            )
        yield
    finally:
        _release(lock)


def _release(lock: Any) -> None:
    """End the transaction that holds the lock, and its connection.

    Both: PostgreSQL sees a connection that is closed when it gets to it, and until then who
    comes next would be told that somebody is at work.
    """
    with suppress(Error):
        lock.rollback()
    lock.close()
