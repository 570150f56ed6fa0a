"""What a program is told when something does not go: problem+json (RFC 9457)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from agents.errors import AgentsError
from checkpoints.errors import BadToken, CheckpointsError, TooManyRequests

logger = logging.getLogger(__name__)

NOT_FOUND = "There is nothing here, or nothing that this token may see."
INTERNAL = "Something went wrong inside Holdpoint. Nothing that was stored is lost."
KIND = "application/problem+json"


def problem(
    status: int,
    kind: str,
    detail: str,
    *,
    retry: bool = False,
    fields: Mapping[str, str] | None = None,
) -> HttpResponse:
    """`kind` is for programs, `detail` for people; `fields` says what is wrong with which."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": kind.replace("_", " "),
        "status": status,
        "code": kind,
        "detail": detail,
        "retry": retry,
    }
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
