"""Two questions that a load balancer or a supervisor asks."""

from __future__ import annotations

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from redis import Redis, RedisError

REDIS_PATIENCE = 1.0  # seconds


@require_safe
@never_cache
def healthz(request: HttpRequest) -> JsonResponse:
    """The process answers. It asks no one else, so an outage elsewhere restarts nobody."""
    return JsonResponse({"status": "ok"})


@require_safe
@never_cache
def readyz(request: HttpRequest) -> JsonResponse:
    """Pages can be served: 200, or 503 when PostgreSQL does not answer.

    Redis is only reported: without it runs start later, and no page fails.
    """
    database, queue = _database_answers(), _redis_answers()
    return JsonResponse(
        {
            "status": "ok" if database else "unavailable",
            "database": "ok" if database else "unreachable",
            "redis": "ok" if queue else "unreachable",
        },
        status=200 if database else 503,
    )


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
