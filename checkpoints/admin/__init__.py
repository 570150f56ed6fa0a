"""Operators' pages over the log: metadata only."""

from __future__ import annotations

from django.contrib import admin

from checkpoints.admin.base import ReadOnlyAdmin, ScopedAdmin
from checkpoints.models import (
    AuditEvent,
    Branch,
    Checkpoint,
    CheckpointDelta,
    DataKey,
    Grant,
    Group,
    Membership,
    Thread,
    ThreadInput,
    Workspace,
    WorkspaceKey,
)


@admin.register(Workspace)
class WorkspaceAdmin(ScopedAdmin):
    list_display = ["name", "slug", "created_at"]
    search_fields = ["name", "slug"]
    readonly_fields = ["approvals_made"]

    def has_delete_permission(self, request: object, obj: object = None) -> bool:
        return False  # its keys and history would go with it


@admin.register(Membership)
class MembershipAdmin(ScopedAdmin):
    list_display = ["user", "workspace", "role", "can_approve", "created_at"]
    list_filter = ["workspace", "role", "can_approve"]
    list_select_related = ["user", "workspace"]
    search_fields = ["user__username", "user__first_name", "user__last_name"]
    autocomplete_fields = ["user"]


@admin.register(Group)
class GroupAdmin(ScopedAdmin):
    list_display = ["name", "workspace"]
    list_filter = ["workspace"]
    search_fields = ["name"]
    filter_horizontal = ["members"]


@admin.register(Grant)
class GrantAdmin(ReadOnlyAdmin):
    list_display = ["id", "workspace", "thread", "user", "created_at", "revoked_at"]
    list_filter = ["workspace", "created_at"]
    list_select_related = ["workspace", "thread", "user"]
    search_fields = ["=id", "=thread__id", "user__username"]


@admin.register(Thread)
class ThreadAdmin(ReadOnlyAdmin):
    list_display = [
        "id",
        "workspace",
        "owner",
        "visibility",
        "origin",
        "external_id",
        "created_at",
    ]
    list_filter = ["workspace", "visibility", "origin", "created_at"]
    list_select_related = ["workspace", "owner"]
    search_fields = ["=id", "=external_id", "owner__username"]


@admin.register(Branch)
class BranchAdmin(ReadOnlyAdmin):
    list_display = [
        "id",
        "thread",
        "fork_step",
        "head_step",
        "fence",
        "holder",
        "worker",
        "lease_until",
    ]
    list_filter = ["workspace", ("lease_until", admin.EmptyFieldListFilter)]
    list_select_related = ["thread"]
    search_fields = ["=id", "=thread__id", "=holder", "worker"]


@admin.register(ThreadInput)
class ThreadInputAdmin(ReadOnlyAdmin):
    list_display = [
        "position",
        "thread",
        "branch",
        "author",
        "checkpoint",
        "created_at",
    ]
    list_filter = ["workspace", ("checkpoint", admin.EmptyFieldListFilter)]
    list_select_related = ["thread", "branch", "author", "checkpoint"]
    search_fields = ["=id", "=thread__id", "author__username"]


@admin.register(Checkpoint)
class CheckpointAdmin(ReadOnlyAdmin):
    list_display = [
        "id",
        "thread",
        "branch",
        "step",
        "kind",
        "status",
        "name",
        "model_requested",
        "latency_ms",
        "cost",
        "created_at",
    ]
    list_filter = ["workspace", "kind", "status", "error_class", "created_at"]
    list_select_related = ["thread", "branch"]
    search_fields = ["=id", "=thread__id", "=run", "=name", "=error_class"]


@admin.register(CheckpointDelta)
class CheckpointDeltaAdmin(ReadOnlyAdmin):
    list_display = ["checkpoint", "thread", "branch", "step"]
    list_filter = ["workspace"]
    list_select_related = ["checkpoint", "thread", "branch"]
    search_fields = ["=checkpoint__id", "=thread__id"]


@admin.register(WorkspaceKey)
class WorkspaceKeyAdmin(ReadOnlyAdmin):
    list_display = ["id", "workspace", "version", "kek", "created_at", "rewrapped_at"]
    list_filter = ["workspace", "kek"]
    list_select_related = ["workspace"]
    search_fields = ["=id", "kek"]


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


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    list_display = [
        "at",
        "workspace",
        "actor",
        "via",
        "action",
        "object_type",
        "object_id",
        "purpose",
        "outcome",
    ]
    list_filter = ["workspace", "action", "via", "outcome", "at"]
    list_select_related = ["workspace", "actor"]
    search_fields = ["=object_id", "actor__username", "=action"]
    ordering = ["-position"]
