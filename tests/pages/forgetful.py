"""URLs with a page that forgot every filter, for test_forgotten_filters.py."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.db import connection, transaction
from django.http import HttpResponse, JsonResponse
from django.urls import path

from agents.pages.principal import MemberRequest, member
from checkpoints.access import Reason, unscoped
from checkpoints.models import Thread
from project.urls import urlpatterns as ours

# What says of which workspace a row is, where that is no column of its own.
WORKSPACE_OF = {
    "checkpoints_workspace": "id",
    "checkpoints_group_members": """
        (SELECT workspace_id FROM checkpoints_group WHERE id = group_id)""",
}
MODELS = {
    model._meta.db_table: model for model in apps.get_models(include_auto_created=True)
}
# Tables whose rows are of a workspace, each with its key.
TABLES = {
    table: model._meta.pk.column
    for table, model in MODELS.items()
    if table in WORKSPACE_OF
    or "workspace_id" in {field.column for field in model._meta.fields}
}


def everything() -> dict[str, list[str]]:
    """Primary keys of whatever the database shows, by table, in plain SQL."""
    found = {}
    with connection.cursor() as cursor:
        for table, key in TABLES.items():
            cursor.execute(f"SELECT {key}::text FROM {table}")  # noqa: S608
            found[table] = [key for (key,) in cursor.fetchall()]
    return found


@member
def in_sql(request: MemberRequest) -> HttpResponse:
    return JsonResponse(everything())


@member
def in_a_transaction(request: MemberRequest) -> HttpResponse:
    with transaction.atomic():
        return JsonResponse(everything())


@member
def through_models(request: MemberRequest) -> HttpResponse:
    """With each model's plain manager, and for a reason that pages do not have."""
    with unscoped(Reason.REAPER):
        return JsonResponse(
            {
                table: [
                    str(pk)
                    for pk in MODELS[table]._base_manager.values_list("pk", flat=True)
                ]
                for table in TABLES
            }
        )


def of_nobody(request: Any) -> HttpResponse:
    """A page that did not ask who is there."""
    return JsonResponse(everything())


@member
def moves(request: MemberRequest) -> HttpResponse:
    """How many rows of another workspace it could change."""
    theirs = request.GET["thread"]
    changed = Thread._base_manager.filter(pk=theirs).update(legal_hold=True)
    return JsonResponse({"changed": changed})


@member
def plants(request: MemberRequest) -> HttpResponse:
    """A row for another workspace, or one's own given away."""
    Thread._base_manager.filter(pk=request.GET["thread"]).update(
        workspace_id=request.GET["workspace"]
    )
    return HttpResponse()


urlpatterns = [
    *ours,
    path("in_sql", in_sql),
    path("in_a_transaction", in_a_transaction),
    path("through_models", through_models),
    path("of_nobody", of_nobody),
    path("moves", moves),
    path("plants", plants),
]
