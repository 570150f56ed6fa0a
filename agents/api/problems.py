"""What a program is told when something does not go: problem+json (RFC 9457)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from agents.errors import AgentsError
from checkpoints.db.base import RETRY_AFTER, NoConnection
from checkpoints.errors import (
    BadToken,
    CheckpointsError,
    NotJson,
    TooManyRequests,
)

logger = logging.getLogger(__name__)

NOT_FOUND = "There is nothing here, or nothing that this token may see."
BUSY = "Too much is asked at once. Nothing was done; ask again in a few seconds."
INTERNAL = "Something went wrong inside Holdpoint. Nothing that was stored is lost."
KIND = "application/problem+json"


def problem(
    status: int,
    kind: str,
    detail: str,
    *,
    retry: bool = False,
    fields: Mapping[str, str] | None = None,
    about: Mapping[str, Any] | None = None,
) -> HttpResponse:
    """`kind` is for programs, `detail` for people; `fields` says what is wrong with which.

    `about` are further members: who was faster, and when.
    """
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": kind.replace("_", " "),
        "status": status,
        "code": kind,
        "detail": detail,
        "retry": retry,
    }
    body |= about or {}
    if fields:
        body["fields"] = dict(fields)
    response = JsonResponse(body, status=status, content_type=KIND)
    response["Cache-Control"] = "no-store"
    if status == 401:
        response["WWW-Authenticate"] = "Bearer"
    return response


def answer(request: HttpRequest, error: Any) -> HttpResponse:
    """The problem that an exception is."""
    match error:
        case TooManyRequests():
            response = _known(error)
            response["Retry-After"] = str(error.wait)
            return response
        case NoConnection():
            response = problem(503, "busy", BUSY, retry=True)
            response["Retry-After"] = str(RETRY_AFTER)
            return response
        case CheckpointsError() | AgentsError() if error.status < 500 or error.retry:
            return _known(error)
        case AuthenticationError():
            return _known(BadToken())
        case Http404():
            return problem(404, "not_found", NOT_FOUND)
        case ValidationError():
            return _invalid(error)
        case RequestDataTooBig():
            return problem(413, "too_large", "The body is larger than 2.5 MB.")
        case HttpError() if isinstance(error.__cause__, NotJson):
            return _known(error.__cause__)  # ninja says only that it could not be read
        case HttpError():
            return problem(error.status_code, "bad_request", str(error))
        case SuspiciousOperation():
            return problem(400, "bad_request", "This request was not understood.")
        case CheckpointsError() | AgentsError():
            logger.warning("an API request failed (%s)", error.code)
            return _known(error)
    # The process edge: what it says may quote state, so the log has it, redacted.
    logger.error("an API request failed", exc_info=error)
    return problem(500, "internal_error", INTERNAL, retry=True)


def known_methods(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """The view, with a problem for a method that its address does not take."""

    @wraps(view)
    def answered(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        response = view(request, *args, **kwargs)
        if response.status_code != 405:
            return response
        allowed = ", ".join(sorted(response["Allow"].split(", ")))
        told = problem(
            405, "method_not_allowed", f"This address takes {allowed} requests."
        )
        told["Allow"] = allowed
        return told

    return answered


def install(api: NinjaAPI) -> None:
    for kind in (
        Exception,
        Http404,
        HttpError,
        ValidationError,
        AuthenticationError,
    ):
        api.add_exception_handler(kind, answer)


def _known(error: CheckpointsError | AgentsError) -> HttpResponse:
    return problem(
        error.status,
        error.code,
        str(error),
        retry=error.retry,
        fields=getattr(error, "fields", None),
        about=getattr(error, "about", None),
    )


def _invalid(error: ValidationError) -> HttpResponse:
    """Where the request does not fit. What was sent is not repeated."""
    fields: dict[str, str] = {}
    for each in error.errors:
        # ("body", the view's argument, the field, …) or ("query", the field)
        place = [str(part) for part in each["loc"]]
        name = ".".join(place[2:] if place[0] == "body" else place[1:])
        fields[name or "body"] = str(each.get("msg", "does not fit"))
    said = "; ".join(f"{name}: {text}" for name, text in fields.items())
    return problem(422, "invalid", f"The request does not fit: {said}.", fields=fields)
