"""What every response carries, and who may see the pages that are not ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from csp.constants import NONE, SELF, UNSAFE_INLINE
from csp.middleware import CSPMiddleware, PolicyParts
from django.contrib import admin
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.http.response import HttpResponseNotFound
from django.utils.deprecation import MiddlewareMixin
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

from checkpoints.db import session
from checkpoints.db.base import NoConnection
from checkpoints.db.session import DatabaseRole
from project.busy import busy

# Django admin's and django-rq's pages carry inline code. They show no state: ids only.
INLINE_POLICY = {
    "default-src": [NONE],
    "script-src": [SELF, UNSAFE_INLINE],
    "style-src": [SELF, UNSAFE_INLINE],
    "img-src": [SELF, "data:"],
    "font-src": [SELF],
    "connect-src": [SELF],
    "form-action": [SELF],
    "base-uri": [NONE],
    "frame-ancestors": [NONE],
}


def _apps(request: HttpRequest) -> list[str]:
    return request.resolver_match.app_names if request.resolver_match else []


class PolicyMiddleware(CSPMiddleware):
    """The content security policy, and the headers that Django does not set."""

    def get_policy_parts(
        self,
        request: HttpRequest,
        response: HttpResponseBase,
        report_only: bool = False,
    ) -> PolicyParts:
        parts = super().get_policy_parts(request, response, report_only)
        if not report_only and {"admin", "django_rq"} & set(_apps(request)):
            parts.config = INLINE_POLICY
        return parts

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        response.headers.setdefault(
            "Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=()"
        )
        response.headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        return super().process_response(request, response)


class CharsetMiddleware(MiddlewareMixin):
    """Text comes as UTF-8. In other charsets that a request may name (UTF-7, Python's
    own escapes) it could be what no page can show and no column can hold."""

    def process_request(self, request: HttpRequest) -> None:
        named = (request.content_params or {}).get("charset", "utf-8")
        if named.strip().lower() not in ("utf-8", "utf8"):
            raise BadRequest("Only UTF-8 is understood.")


class DatabaseRoleMiddleware:
    """A request is the web role's, from here to the end of its answer.

    Of which workspace, the view's `member` says. The admin's pages show metadata of all
    of them, to staff. What a streamed body asks later is of none, and sees no row.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        with session.acting_as(DatabaseRole.WEB):
            return self.get_response(request)

    def process_view(
        self,
        request: HttpRequest,
        view: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> HttpResponse | None:
        try:  # what middleware raises is no view's, for which `ConnectionMiddleware` answers
            if "admin" in _apps(request) and admin.site.has_permission(request):
                session.enter_admin()
        except NoConnection:
            return busy(request)
        return None


class QueuePagesMiddleware(MiddlewareMixin):
    """django-rq lets every member of staff requeue and delete jobs; here superusers only.

    Everyone else gets a 404: the pages are not for them.
    """

    def process_view(
        self,
        request: HttpRequest,
        view: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> HttpResponse | None:
        # Its pages also hang below the admin, under the admin's names.
        module = getattr(view, "__module__", "") or ""
        of_queue = "django_rq" in _apps(request) or module.startswith("django_rq.")
        try:
            if of_queue and not (request.user.is_active and request.user.is_superuser):
                return HttpResponseNotFound()
        except NoConnection:
            return busy(request)
        return None


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]  # untyped
    """WhiteNoise, answering at once: Django warns when ASGI has to stream a plain file."""

    @staticmethod
    def serve(static_file: StaticFile, request: HttpRequest) -> HttpResponse:
        answer = static_file.get_response(request.method, request.META)
        body = b""
        if answer.file is not None:
            with answer.file:
                body = answer.file.read()
        response = HttpResponse(body, status=int(answer.status))
        del response["Content-Type"]
        for name, value in answer.headers:
            response[name] = value
        return response
