"""Two questions that a load balancer or a supervisor asks."""

from __future__ import annotations

import logging
import threading
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import Error as DatabaseError
from django.db import connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from agents import queue
from agents.runs import figures
from checkpoints.db import session
from checkpoints.db.checks import require_role
from checkpoints.errors import KeysUnavailable
from checkpoints.keys.checks import require_keks

logger = logging.getLogger(__name__)

_checked = threading.Event()  # role and keys were found to be right


@require_safe
@never_cache
def healthz(request: HttpRequest) -> JsonResponse:
    """The process answers. It asks no one else, so an outage elsewhere restarts nobody."""
    return JsonResponse({"status": "ok"})


@require_safe
@never_cache
def readyz(request: HttpRequest) -> JsonResponse:
    """Pages can be served: 200; or 503 when PostgreSQL does not answer, does not keep
    workspaces apart for this process, or a key is missing.

    The rest is only reported. Without Redis runs start later; without workers they
    wait; no page fails.
    """
    database = _database_answers()
    wrong = _wrong() if database else {"database"}
    words = {
        "database": "unprotected" if "role" in wrong else "ok",
        "keys": "missing" if "keys" in wrong else "ok",
    }
    rings = queue.depths()
    return JsonResponse(
        {
            "status": "unavailable" if wrong else "ok",
            **(words if database else {"database": "unreachable", "keys": "unknown"}),
            "redis": "unreachable" if rings is None else "ok",
            "rings": None if rings is None else sum(rings.values()),
            **(_reported(rings or {}) if database else {}),
        },
        status=503 if wrong else 200,
    )


def _reported(rings: dict[str, int]) -> dict[str, Any]:
    """What runs and workers do, in counts and seconds; nothing when that cannot be asked."""
    try:
        with session.overseeing():
            live, told = figures.live(), figures.told()
    except DatabaseError as error:
        logger.warning("runs were not counted (%s)", type(error).__name__)
        return {}
    return {
        "workers": {"alive": live.alive, "silent": live.silent},
        "reaper": {
            "last_sweep_s": _tenths(live.swept),
            "overdue_s": _tenths(live.overdue),
        },
        "runs": {
            "ready": live.of("ready"),
            "oldest_ready_s": _tenths(live.oldest_ready),
            "running": live.of("running"),
            "waiting": live.of("waiting"),
            "later": live.of("later"),
        },
        "deliveries": {
            "queued": told.queued,
            "oldest_due_s": _tenths(told.oldest_due),
            "undelivered": told.undelivered,
        },
        "expired_undecided": told.expired,
        "queues": {
            name: {
                "ready": line.ready,
                "oldest_ready_s": _tenths(line.oldest_ready),
                "running": line.running,
                "waiting": line.waiting,
                "later": line.later,
                "workers": line.workers,
                "rings": rings.get(name),
            }
            for name, line in live.queues.items()
        },
    }


def _tenths(seconds: float | None) -> float | None:
    return None if seconds is None else round(max(0.0, seconds), 1)


def require_role_and_keys() -> None:
    """Raises ImproperlyConfigured when this process is not held to its database role, or
    a key is missing that rows are under.

    Where that cannot be found out yet, it is asked again by `readyz`.
    """
    try:
        require_role()
        require_keks()
    except (DatabaseError, KeysUnavailable) as error:
        logger.warning("role and keys were not checked (%s)", type(error).__name__)
    else:
        _checked.set()
    finally:
        # A server that forks shares neither.
        connection.close()
        connection.close_pool()  # type: ignore[attr-defined]  # absent from the stubs


def _wrong() -> set[str]:
    """What is not as it must be, of "role" and "keys".

    Asked until all was well once: none of it changes under a process.
    """
    found = set()
    if not _checked.is_set():
        for name, check in (("role", require_role), ("keys", require_keks)):
            try:
                check()
            except (ImproperlyConfigured, KeysUnavailable, DatabaseError) as error:
                logger.error("not ready: %s", error)
                found.add(name)
        if not found:
            _checked.set()
    return found


def _database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return False
    return True
