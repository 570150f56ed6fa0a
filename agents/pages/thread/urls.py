from __future__ import annotations

from django.urls import path

from agents.pages.thread import (
    blob,
    branches,
    file,
    history,
    message,
    search,
    views,
)

urlpatterns = [
    path("threads/<uuid:pk>/", views.thread, name="thread"),
    path("threads/<uuid:pk>/at/<uuid:checkpoint>/", views.thread, name="step"),
    path("threads/<uuid:pk>/at/<uuid:checkpoint>/file", file.file, name="file"),
    path("threads/<uuid:pk>/message", message.message, name="thread_message"),
    path("threads/<uuid:pk>/branches", branches.branches, name="thread_branches"),
    path("threads/<uuid:pk>/history", history.history, name="path_history"),
    path("threads/<uuid:pk>/search", search.search, name="thread_search"),
    path("threads/<uuid:pk>/blobs/<uuid:blob>/", blob.blob, name="blob"),
    path(
        "threads/<uuid:pk>/blobs/<uuid:blob>/download",
        blob.download,
        name="blob_download",
    ),
    path("threads/<uuid:pk>/blobs/<uuid:blob>/image", blob.image, name="blob_image"),
    path("f/threads/<uuid:pk>/", views.parts, name="thread_parts"),
    path(
        "f/threads/<uuid:pk>/at/<uuid:checkpoint>/",
        views.parts,
        name="step_parts",
    ),
    path("f/threads/<uuid:pk>/scrub", views.scrub, name="thread_scrub"),
    path("f/threads/<uuid:pk>/live", views.live, name="thread_live"),
    path(
        "f/threads/<uuid:pk>/live/<uuid:checkpoint>",
        views.live,
        name="step_live",
    ),
]
