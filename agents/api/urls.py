from __future__ import annotations

from django.urls import path

from agents.api.problems import known_methods
from agents.api.views import api, elsewhere

verbs, app, namespace = api.urls
for verb in verbs:
    assert verb.callback is not None  # each of ninja's is a view
    verb.callback = known_methods(verb.callback)

urlpatterns = [
    path("v1/", elsewhere, {"path": ""}, name="api_v1"),
    path("v1/", (verbs, app, namespace)),
    path("<path:path>", elsewhere, name="api_elsewhere"),
    path("", elsewhere, {"path": ""}, name="api_root"),
]
