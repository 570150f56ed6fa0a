"""Something that another process does at the same time: over a connection of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, connections, transaction

PATIENCE = 20.0  # seconds


class Elsewhere:
    """`act` under way in another thread; `result()` is what it returned, or raised."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self._act = act
        self._pid = 0
        self._begun = threading.Event()
        self._outcome: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._begun.wait(PATIENCE)

    def result(self) -> Any:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error
        return self._outcome

    def wait_until_it_waits(self) -> None:
        """Until the database lets it wait for somebody else's lock."""
        latest = time.monotonic() + PATIENCE
        while time.monotonic() < latest:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT count(*) FROM pg_locks WHERE pid = %s AND NOT granted",
                    [self._pid],
                )
                if cursor.fetchone() != (0,):
                    return
            assert self._thread.is_alive(), "It did not wait."
            time.sleep(0.01)
        raise AssertionError("It did not wait.")

    def _run(self) -> None:
        try:
            connection.ensure_connection()
            raw: Any = connection.connection
            self._pid = raw.info.backend_pid
            self._begun.set()
            self._outcome = self._act()
        except BaseException as error:
            self._error = error
        finally:
            self._begun.set()
            connections.close_all()


@contextmanager
def uncommitted(act: Callable[[], Any]) -> Iterator[Elsewhere]:
    """`act` was done elsewhere, in a transaction that commits when the block is over."""
    acted, go_on = threading.Event(), threading.Event()

    def stand_still() -> Any:
        try:
            with transaction.atomic():
                outcome = act()
                acted.set()
                go_on.wait(PATIENCE)
                return outcome
        finally:
            acted.set()

    there = Elsewhere(stand_still)
    try:
        assert acted.wait(PATIENCE)
        yield there
    finally:
        go_on.set()
    there.result()
