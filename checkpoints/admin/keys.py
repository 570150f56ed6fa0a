"""Keys in the admin: which there are, and how old. None of them is shown."""

from __future__ import annotations

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from checkpoints.admin.base import ReadOnlyAdmin
from checkpoints.keys import report
from checkpoints.models import DataKey, Workspace, WorkspaceKey


@admin.register(WorkspaceKey)
class WorkspaceKeyAdmin(ReadOnlyAdmin):
    change_list_template = "admin/checkpoints/workspacekey/change_list.html"
    list_display = ["id", "workspace", "version", "kek", "created_at", "rewrapped_at"]
    list_filter = ["workspace", "kek"]
    list_select_related = ["workspace"]
    search_fields = ["=id", "kek"]

    def get_urls(self) -> list[URLPattern]:
        report_url = path(
            "report/",
            self.admin_site.admin_view(self.report_view),
            name="checkpoints_keys",
        )
        return [report_url, *super().get_urls()]

    def report_view(self, request: HttpRequest) -> HttpResponse:
        """Ages and counts, and what ought to be done: a page of workspaces at a time."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        workspaces = Workspace.objects.order_by("slug")
        page = Paginator(workspaces, self.list_per_page).get_page(
            request.GET.get("page")
        )
        context = {
            **self.admin_site.each_context(request),
            "title": "Keys: ages and counts",
            "opts": self.model._meta,
            "keks": report.keks(),
            "page": page,
            "each": report.keys_of(page),
        }
        return TemplateResponse(request, "admin/checkpoints/keys.html", context)


@admin.register(DataKey)
class DataKeyAdmin(ReadOnlyAdmin):
    list_display = [
        "id",
        "workspace",
        "thread",
        "purpose",
        "version",
        "created_at",
        "destroyed_at",
    ]
    list_filter = ["workspace", "purpose", ("destroyed_at", admin.EmptyFieldListFilter)]
    list_select_related = ["workspace", "thread"]
    search_fields = ["=id", "=thread__id"]
