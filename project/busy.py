"""A request and its database connection: given back early, waited for so long, then 503.

The web process has few connections, as what they do waits for one processor and one
database anyhow. Many requests at once wait in line for them; who does not get one in time
is told to come again, before anything was done.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.template import loader
from django.views.defaults import server_error

from checkpoints.db.base import RETRY_AFTER, NoConnection

logger = logging.getLogger(__name__)


class ConnectionMiddleware:
    """Gives the connection back when the answer is made, not when it has been sent.

    With a hundred threads in one process, sending takes many turns of the interpreter's
    lock: as long again as the request. A streamed body takes one of its own.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        try:
            return self.get_response(request)
        finally:
            pooled = connection.settings_dict["OPTIONS"].get("pool")
            if pooled and not connection.in_atomic_block:
                connection.close()

    def process_exception(
        self, request: HttpRequest, exception: Exception
    ) -> HttpResponse | None:
        return busy(request) if isinstance(exception, NoConnection) else None


def broken(request: HttpRequest) -> HttpResponse:
    """500, or 503 where all that is wrong is that there was no connection."""
    if isinstance(sys.exc_info()[1], NoConnection):
        return busy(request)
    return server_error(request)


def busy(request: HttpRequest) -> HttpResponse:
    """503, without anything that would have to be asked of the database."""
    logger.warning("a request got no database connection in time")
    page = loader.get_template("503.html").render()
    response = HttpResponse(page, status=503)
    response["Retry-After"] = str(RETRY_AFTER)
    response["Cache-Control"] = "no-store"
    return response
