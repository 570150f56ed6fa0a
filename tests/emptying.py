"""Emptying the database after a test, though a request of the test is still being served.

A page that a test leaves may have asked for something a moment before. PostgreSQL would end
one of both for a deadlock, the emptying or the request, or the request would write its audit
row into the next test's database.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError
from django.db import OperationalError, connection
from django.test import TransactionTestCase

QUIET = (
    10.0  # seconds to wait for others; what is at it for longer is the test's to end
)
TRIES = 5

# Of this test's database: whoever is in a transaction, or about to be answered.
BUSY = """
SELECT EXISTS (
    SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
      AND backend_type = 'client backend' AND state <> 'idle'
)
"""


@pytest.fixture(scope="session", autouse=True)
def _emptied_when_quiet() -> Iterator[None]:
    """As Django empties it, once others are through; again where one came in between."""
    case: Any = TransactionTestCase  # its stubs do not tell of this
    empty = case._fixture_teardown

    def patiently(case: TransactionTestCase) -> None:
        for left in reversed(range(TRIES)):
            _wait_for_others()
            try:
                empty(case)
                return
            except CommandError as error:
                # What `flush` makes of every error of the database's.
                if not left or not isinstance(error.__cause__, OperationalError):
                    raise

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", patiently)
        yield


def _wait_for_others() -> None:
    latest = time.monotonic() + QUIET
    while time.monotonic() < latest:
        with connection.cursor() as cursor:
            cursor.execute(BUSY)
            (is_busy,) = cursor.fetchone()
        if not is_busy:
            return
        time.sleep(0.02)
