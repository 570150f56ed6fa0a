"""Regions that poll: a tag says what is shown, and the same tag is answered by 304."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from django.http import HttpRequest, HttpResponse


def tag(parts: Iterable[object]) -> str:
    """A short name for what a region shows, made of ids, statuses and counts only."""
    text = "\n".join(map(str, parts))
    return hashlib.blake2b(text.encode(), digest_size=9).hexdigest()


def unchanged(request: HttpRequest, shown: str) -> HttpResponse | None:
    """304 when the page already shows `shown`; nothing is opened for it."""
    if request.headers.get("HX-PTag") == shown:
        return HttpResponse(status=304)
    return None
