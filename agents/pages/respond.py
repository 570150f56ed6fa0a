"""How a page answers: a fragment for HTMX, a redirect and a message for everyone else.

Every action is a form that posts and works without script. With script, the same
view swaps one part of the page. These helpers are the one place that knows both.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render, resolve_url
from django.template.loader import render_to_string
from django.utils.encoding import iri_to_uri
from django_htmx.http import HttpResponseClientRedirect

from checkpoints.db import session

if TYPE_CHECKING:
    from django_htmx.middleware import HtmxDetails


def is_fragment(request: HttpRequest) -> bool:
    """Whether HTMX asked, and so wants a part of a page."""
    return bool(getattr(request, "htmx", False))


def moved_on(
    request: HttpRequest, fragment: str, *, to: str, say: str = "", **context: Any
) -> HttpResponse:
    """The action was done: `fragment` shows what is there now.

    `to` is the page for a browser without script: a path, or the name of a URL.
    `say` tells what happened, in a toast and to screen readers.
    """
    if not is_fragment(request):
        return went_on(request, to, say=say)
    response = render(request, fragment, context)
    if say:
        response.write(said(request, say))
    return response


def went_on(request: HttpRequest, to: str, *, say: str = "") -> HttpResponse:
    """As `moved_on`, for a browser without script: the page, which says what happened."""
    if say:
        messages.success(request, say)
    return see_other(to)


def conflict(
    request: HttpRequest,
    fragment: str,
    lost: Exception,
    *,
    to: str,
    page: str = "",
    **context: Any,
) -> HttpResponse:
    """Someone or something was faster (409): `fragment` shows who, when and what.

    It is rendered with `lost`; the exception's text is what is said, where the request
    stands, and so in no toast as well. `page`: the whole page, where a browser without
    script would lose on its way to `to` what was typed.
    """
    if not is_fragment(request) and not page:
        messages.error(request, str(lost))
        return see_other(to)
    template = fragment if is_fragment(request) else page
    return render(request, template, {**context, "lost": lost}, status=409)


def invalid(
    request: HttpRequest, fragment: str, *, page: str, **context: Any
) -> HttpResponse:
    """What was sent cannot be taken (422): the form again, with what was typed.

    `page` is the whole page that holds the form, for a browser without script.
    """
    template = fragment if is_fragment(request) else page
    return render(request, template, context, status=422)


def hx_location(request: HttpRequest, to: str, *, say: str = "") -> HttpResponse:
    """On to another page, as after a form that starts something."""
    if not is_fragment(request):
        return went_on(request, to, say=say)
    if say:
        messages.success(request, say)
    return HttpResponseClientRedirect(resolve_url(to))


def see_other(to: str) -> HttpResponse:
    """A redirect that is fetched with GET whatever came before (303)."""
    return HttpResponse(status=303, headers={"Location": iri_to_uri(resolve_url(to))})


def download(
    request: HttpRequest, pieces: Iterator[str], *, name: str, content_type: str
) -> StreamingHttpResponse:
    """A file that is made while it is sent, so that its size is no matter.

    A streamed body runs after the view: each piece is fetched as the same role, for the
    workspace that the view was in.
    """
    here = session.current()

    def fetch() -> bytes | None:
        with session.acting_as(here.role):
            if here.workspace is not None:
                session.enter(here.workspace)
            piece = next(pieces, None)
        return None if piece is None else piece.encode()

    async def sent() -> AsyncIterator[bytes]:
        while (piece := await sync_to_async(fetch)()) is not None:
            yield piece

    # Each kind of server wants its own kind of iterator, and would hold all of another.
    served_async = isinstance(request, ASGIRequest)
    response = StreamingHttpResponse(
        sent() if served_async else iter(fetch, None), content_type=content_type
    )
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def said(request: HttpRequest, text: str, *, level: str = "success") -> str:
    """Markup that rides along with a fragment: announces `text`, and shows a toast."""
    return render_to_string("_said.html", {"text": text, "level": level}, request)


def login_expired(request: HttpRequest) -> HttpResponse:
    """To the login page and back; for a fragment the whole page goes (401)."""
    if not is_fragment(request):
        return redirect_to_login(request.get_full_path())
    htmx: HtmxDetails = request.htmx  # type: ignore[attr-defined]  # HtmxMiddleware
    login = redirect_to_login(htmx.current_url_abs_path or "/")
    return HttpResponse(status=401, headers={"HX-Redirect": login["Location"]})
