from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from agents.pages import door
from project import health, metrics

admin.site.site_header = admin.site.site_title = "Holdpoint admin"

handler400 = "agents.pages.refusals.not_understood"
handler403 = "agents.pages.refusals.not_allowed"
handler404 = "agents.pages.refusals.not_found"
handler500 = "project.busy.broken"

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics.metrics, name="metrics"),
    *door.urlpatterns,  # the admin's, too
    path("admin/", admin.site.urls),
    path("django-rq/", include("django_rq.urls")),
    path("api/", include("agents.api.urls")),
    path("", include("agents.urls")),
]
