"""A commit whose answer was lost: connect anew, look whether it got through, go on.

A connection that breaks at COMMIT leaves it open whether PostgreSQL has done it. Giving
up there would be safe for the log, and not for the world outside: what came of a call
is known to this process alone until it is stored.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import timedelta

from django.db import InterfaceError, OperationalError, connection

logger = logging.getLogger(__name__)

PAUSE = 0.1  # seconds between two attempts to reach PostgreSQL


def see_through(
    act: Callable[[], object], *, happened: Callable[[], bool], patience: timedelta
) -> None:
    """Do `act`, one transaction, once, whatever becomes of the connection meanwhile.

    `happened` says whether it was committed; it holds the branch's lock as it looks, so
    that a commit of ours that is still on its way is not taken for absent, and raises
    Fenced when another holder has the branch. Raises what both raise; the connection's
    error when PostgreSQL is away for longer than `patience`.
    """
    try:
        act()
        return
    except (OperationalError, InterfaceError) as error:
        if connection.in_atomic_block:
            raise  # part of a caller's transaction: nothing of it is committed
        logger.warning("a commit is in doubt (%s)", type(error).__name__)
    deadline = time.monotonic() + patience.total_seconds()
    while True:
        connection.close()
        time.sleep(PAUSE)
        try:
            if not happened():
                act()
            return
        except (OperationalError, InterfaceError):
            if time.monotonic() > deadline:
                raise
