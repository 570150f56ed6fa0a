"""400, 403 and 404, as a page or, for HTMX, as a note in the place of the fragment."""

from __future__ import annotations

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from agents.pages.principal import principal_of
from agents.pages.respond import is_fragment
from checkpoints import audit
from checkpoints.access import UserPrincipal

PURPOSE = 60  # characters that the audit log takes


def not_understood(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400. Django's own view reads the form, which is what could not be read."""
    stray = isinstance(exception, DisallowedHost)
    return render(request, "400.html", {"stray": stray}, status=400)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """404, and the same for what never was and for what others own."""
    return _refused(request, 404)


def not_allowed(request: HttpRequest, exception: Exception) -> HttpResponse:
    """403; the text of `PermissionDenied` says who can."""
    record_refused(request)
    return _refused(request, 403, reason=str(exception))


def record_refused(request: HttpRequest) -> None:
    """The audit log says who could not.

    What they wanted is the route and the id in it. That id was typed, perhaps: it is
    written down whether there is such a row or not, in the log of the one who asked.
    """
    principal = _principal(request)
    match = request.resolver_match
    if principal is not None and match is not None:
        audit.record(
            principal,
            "refused",
            purpose=match.view_name[:PURPOSE],
            outcome="refused",
            **match.kwargs,
        )


def _principal(request: HttpRequest) -> UserPrincipal | None:
    if not hasattr(request, "principal"):
        # No view has asked who this is; the navigation wants to know.
        request.principal = principal_of(request)  # type: ignore[attr-defined]  # as `member` sets it
    principal: UserPrincipal | None = request.principal  # type: ignore[attr-defined]  # set above, or by `member`
    return principal


def _refused(request: HttpRequest, status: int, **context: str) -> HttpResponse:
    if is_fragment(request):
        return render(request, f"_{status}.html", context, status=status)
    _principal(request)
    return render(request, f"{status}.html", context, status=status)
