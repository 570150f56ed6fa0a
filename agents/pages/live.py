"""Regions that poll: a tag says what is shown, and the same tag is answered by 304."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

CHANGED = "inbox"  # the event of a stream at which parts of a page ask anew
HEARING = f"{CHANGED} from:body throttle:500ms, every 20s"  # as a trigger; or, without
ASKING = f"{CHANGED} from:body, every 4s"  # streams


def tag(parts: Iterable[object]) -> str:
    """A short name for what a region shows, made of ids, statuses and counts only."""
    text = "\n".join(map(str, parts))
    return hashlib.blake2b(text.encode(), digest_size=9).hexdigest()


def unchanged(request: HttpRequest, shown: str) -> HttpResponse | None:
    """304 when the page already shows `shown`; nothing is opened for it."""
    if request.headers.get("HX-PTag") == shown:
        return HttpResponse(status=304)
    return None


def region(
    request: HttpRequest, template: str, context: dict[str, Any], *, shown: str
) -> HttpResponse:
    """A region drawn anew, with the tag that its next poll sends."""
    response = render(request, template, context)
    response["HX-PTag"] = shown
    return response
