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
from checkpoints.errors import KeysUnavailable
from checkpoints.keys import checks

logger = logging.getLogger(__name__)

_checked = threading.Event()  # the keys were found to be here


@require_safe
@never_cache
def healthz(request: HttpRequest) -> JsonResponse:
    """The process answers. It asks no one else, so an outage elsewhere restarts nobody."""
    return JsonResponse({"status": "ok"})


@require_safe
@never_cache
def readyz(request: HttpRequest) -> JsonResponse:
    """Pages can be served: 200, or 503 when PostgreSQL does not answer or a key is missing.

    The rest is only reported. Without Redis runs start later; without workers they
    wait; no page fails.
    """
    database = _database_answers()
    keys = database and _keys_are_here()
    rings = queue.depth()
    return JsonResponse(
        {
            "status": "ok" if keys else "unavailable",
            "database": "ok" if database else "unreachable",
            "keys": "ok" if keys else "missing" if database else "unknown",
            "redis": "unreachable" if rings is None else "ok",
            "rings": rings,
            **(_reported() if database else {}),
        },
        status=200 if keys else 503,
    )


def _reported() -> dict[str, Any]:
    """What runs and workers do, in counts and seconds; nothing when that cannot be asked."""
    try:
        with session.overseeing():
            live = figures.live()
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
            "ready": live.ready,
            "oldest_ready_s": _tenths(live.oldest_ready),
            "running": live.running,
            "waiting": live.waiting,
            "later": live.later,
        },
    }


def _tenths(seconds: float | None) -> float | None:
    return None if seconds is None else round(max(0.0, seconds), 1)


def require_keys() -> None:
    """Raises ImproperlyConfigured when a key is missing that rows are under.

    Where that cannot be found out yet, it is asked again by `readyz`.
    """
    try:
        checks.require_keks()
    except (DatabaseError, KeysUnavailable) as error:
        logger.warning("the keys were not checked (%s)", type(error).__name__)
    else:
        _checked.set()
    finally:
        # A server that forks shares neither.
        connection.close()
        connection.close_pool()  # type: ignore[attr-defined]  # absent from the stubs


def _keys_are_here() -> bool:
    """Asked until it was so once: neither keyring nor rows change under a process."""
    if not _checked.is_set():
        try:
            checks.require_keks()
        except (ImproperlyConfigured, KeysUnavailable, DatabaseError) as error:
            logger.error("keys are missing: %s", error)
            return False
        _checked.set()
    return True


def _database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return False
    return True
