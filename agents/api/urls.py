from __future__ import annotations

from django.urls import path

from agents.api.views import api, elsewhere

urlpatterns = [
    path("v1/", elsewhere, {"path": ""}, name="api_v1"),
    path("v1/", api.urls),
    path("<path:path>", elsewhere, name="api_elsewhere"),
    path("", elsewhere, {"path": ""}, name="api_root"),
]
