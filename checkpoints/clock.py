"""Time is the database's. Process clocks only measure durations."""

from __future__ import annotations

from datetime import datetime

from django.db import connections, models
from django.db.models import Func


class ClockTimestamp(Func):
    """`clock_timestamp()`: the time now, not the time the transaction began.

    It is volatile: no index is looked into for what is compared with it. For that, take
    Django's `Now()`, the time the statement began.
    """

    function = "clock_timestamp"
    arity = 0
    output_field = models.DateTimeField()


def now(using: str = "default") -> datetime:
    """The database's time, in UTC. One round trip: inside a query, use ClockTimestamp."""
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (moment,) = cursor.fetchone()
    assert isinstance(moment, datetime)
    return moment
