"""What a `DEBUG` page tells whoever looks over one's shoulder."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import HttpRequest
from django.test import Client
from django.urls import path

OPENED = " ".join(["Helen", "flies", "on", "Monday"])  # the page shows lines of code


def fail(request: HttpRequest) -> Any:
    opened = {"messages": [OPENED]}
    raise LookupError(len(opened))


urlpatterns = [path("fail", fail)]


@pytest.mark.parametrize("html", [True, False])
def test_a_debug_page_shows_places_and_no_values(settings, html):
    settings.ROOT_URLCONF = __name__
    settings.DEBUG = True
    client = Client(raise_request_exception=False)
    client.cookies["messages"] = "-".join(["cookie", "mine"])
    accept = "text/html" if html else "text/plain"
    posted = {"message": " ".join(["the", "window", "seat"])}
    response = client.post("/fail", posted, headers={"Accept": accept})
    assert response.status_code == 500
    text = response.content.decode()
    assert "LookupError" in text
    assert "test_reports.py" in text
    for hidden in (OPENED, "window seat", "cookie-mine"):
        assert hidden not in text
