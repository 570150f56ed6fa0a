"""A statement that PostgreSQL gave up, and the PostgreSQL that is away."""

from __future__ import annotations

# Classes of SQLSTATE: the connection, its transaction that said nothing, the server's end.
_AWAY = ("08", "25", "57P")


def was_given_up(error: BaseException) -> bool:
    """Whether the server is there and said no to this statement alone: for a lock, a
    deadlock, its time.

    Django calls it an OperationalError, as it does the end of a connection.
    """
    state: str | None = getattr(error.__cause__, "sqlstate", None)
    return state is not None and not state.startswith(_AWAY)
