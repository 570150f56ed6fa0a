"""Two questions that a load balancer or a supervisor asks."""

from __future__ import annotations

import logging
import threading

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import Error as DatabaseError
from django.db import connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from redis import Redis, RedisError

from checkpoints.errors import KeysUnavailable
from checkpoints.keys import checks

logger = logging.getLogger(__name__)

REDIS_PATIENCE = 1.0  # seconds

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

    Redis is only reported: without it runs start later, and no page fails.
    """
    database, queue = _database_answers(), _redis_answers()
    keys = database and _keys_are_here()
    return JsonResponse(
        {
            "status": "ok" if keys else "unavailable",
            "database": "ok" if database else "unreachable",
            "keys": "ok" if keys else "missing" if database else "unknown",
            "redis": "ok" if queue else "unreachable",
        },
        status=200 if keys else 503,
    )


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


def _redis_answers() -> bool:
    try:
        with Redis.from_url(
            settings.REDIS_URL,
            socket_timeout=REDIS_PATIENCE,
            socket_connect_timeout=REDIS_PATIENCE,
        ) as redis:
            return bool(redis.ping())
    except RedisError:
        return False
