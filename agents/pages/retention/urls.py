from __future__ import annotations

from django.urls import path

from agents.pages.retention.thread import thread_retention
from agents.pages.retention.workspace import retention_page

urlpatterns = [
    path("retention/", retention_page, name="retention"),
    path("threads/<uuid:pk>/retention/", thread_retention, name="thread_retention"),
]
