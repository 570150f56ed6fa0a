"""Ids, made by us: UUIDv7 (RFC 9562, method 3).

They sort roughly by time, which keeps indexes dense. Never order by them where
it matters: order by step, or by a database sequence.
"""

from __future__ import annotations

import secrets
import threading
import time
from datetime import UTC, datetime
from uuid import UUID

_lock = threading.Lock()
_last = 0  # the 60-bit timestamp of the newest id of this process


def uuid7() -> UUID:
    """A new id, greater than every other that this process has made.

    48 bits of Unix milliseconds, 12 bits of the fraction of one (so the order
    holds within a millisecond, and when the clock steps back), 62 random bits.
    """
    global _last
    with _lock:
        _last = stamp = max((time.time_ns() << 12) // 1_000_000, _last + 1)
    return UUID(
        int=(stamp >> 12) << 80
        | 0x7 << 76  # version
        | (stamp & 0xFFF) << 64
        | 0b10 << 62  # variant
        | secrets.randbits(62)
    )


def made_at(uuid: UUID) -> datetime | None:
    """When an id of ours was made, by its maker's clock; None for other kinds of id."""
    if uuid.version != 7:
        return None
    return datetime.fromtimestamp((uuid.int >> 80) / 1000, UTC)


def first_at(moment: datetime) -> UUID:
    """The least id that can have been made at this time: those since have a greater one.

    So the primary key finds what is new, and no index on a time is needed.
    """
    return UUID(int=int(moment.timestamp() * 1000) << 80 | 0x7 << 76 | 0b10 << 62)


def short(uuid: UUID) -> str:
    """The name that pages show: the last four hex digits. Not unique."""
    return uuid.hex[-4:]
