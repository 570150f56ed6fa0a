"""Operators' pages over the log: metadata only. Who may do what is in `people`, keys in `keys`."""

from __future__ import annotations

from uuid import UUID

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from checkpoints import grants
from checkpoints.admin import keys, people
from checkpoints.admin.base import ReadOnlyAdmin
from checkpoints.models import (
    ApiToken,
    Archive,
    AuditEvent,
    AuditLink,
    AuditPending,
    Blob,
    Branch,
    Checkpoint,
    CheckpointDelta,
    Deletion,
    Entry,
    EntryLock,
    EntryVector,
    EntryVersion,
    Grant,
    Remark,
    RetentionPolicy,
    RetentionTask,
    SearchField,
    Segment,
    SignInFailures,
    StoreMark,
    Thread,
    ThreadInput,
)

__all__ = ["keys", "people"]


@admin.register(Grant)
class GrantAdmin(ReadOnlyAdmin):
    list_display = [
        "id",
        "workspace",
        "thread",
        "user",
        "token",
        "created_at",
        "revoked_at",
    ]
    list_filter = ["workspace", "created_at"]
    list_select_related = ["workspace", "thread", "user", "token"]
    search_fields = ["=id", "=thread__id", "user__username"]
    actions = ["revoke"]

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("checkpoints.change_grant")

    @admin.action(permissions=["revoke"], description="Revoke selected grants")
    def revoke(self, request: HttpRequest, queryset: QuerySet[Grant]) -> None:
        """Their runs open nothing more, and wait for somebody who takes them over."""
        by_workspace: dict[UUID, list[UUID]] = {}
        for pk, workspace in queryset.values_list("pk", "workspace_id"):
            by_workspace.setdefault(workspace, []).append(pk)
        ended = sum(
            grants.revoke(
                Q(pk__in=ids),
                workspace_id=workspace,
                why="revoked by hand",
                via="admin",
                by_id=request.user.pk,
            )
            for workspace, ids in by_workspace.items()
        )
        self.message_user(request, f"Revoked: {ended}. Their runs wait for an owner.")


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    """Admins of a workspace make and revoke them, on their own page."""

    list_display = [
        "prefix",
        "name",
        "workspace",
        "scopes",
        "created_by",
        "created_at",
        "expires_at",
        "last_used_at",
        "revoked_at",
    ]
    list_filter = ["workspace", ("revoked_at", admin.EmptyFieldListFilter)]
    list_select_related = ["workspace", "created_by"]
    search_fields = ["=id", "prefix", "name"]


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


@admin.register(Remark)
class RemarkAdmin(ReadOnlyAdmin):
    list_display = [
        "id",
        "thread",
        "branch",
        "checkpoint",
        "kind",
        "by",
        "created_at",
        "removed_at",
    ]
    list_filter = ["workspace", "kind", "created_at"]
    list_select_related = ["thread", "branch", "checkpoint", "by"]
    search_fields = ["=id", "=thread__id", "by__username"]


@admin.register(Entry)
class EntryAdmin(ReadOnlyAdmin):
    list_display = [
        "id",
        "workspace",
        "scope",
        "user",
        "owner",
        "version",
        "deleted",
        "expires_at",
        "updated_at",
    ]
    list_filter = ["workspace", "scope", "deleted", "updated_at"]
    list_select_related = ["workspace", "user"]
    search_fields = ["=id", "=owner", "user__username"]


@admin.register(EntryLock)
class EntryLockAdmin(ReadOnlyAdmin):
    list_display = [
        "id",
        "workspace",
        "owner",
        "fence",
        "run",
        "until",
        "updated_at",
    ]
    list_filter = ["workspace", "updated_at"]
    list_select_related = ["workspace"]
    search_fields = ["=id", "=owner", "=run"]


@admin.register(EntryVector)
class EntryVectorAdmin(ReadOnlyAdmin):
    list_display = ["entry", "workspace"]
    list_filter = ["workspace"]
    list_select_related = ["entry", "workspace"]
    search_fields = ["=entry__id"]


@admin.register(EntryVersion)
class EntryVersionAdmin(ReadOnlyAdmin):
    list_display = [
        "entry",
        "version",
        "deleted",
        "expires_at",
        "by",
        "run",
        "created_at",
    ]
    list_filter = ["workspace", "deleted", "created_at"]
    list_select_related = ["entry", "by"]
    search_fields = ["=id", "=entry__id", "=run", "by__username"]


@admin.register(SearchField)
class SearchFieldAdmin(ReadOnlyAdmin):
    list_display = ["id", "thread", "branch", "name"]
    list_filter = ["workspace", "name"]
    list_select_related = ["thread", "branch"]
    search_fields = ["=id", "=thread__id"]


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
    search_fields = ["=id", "=object_id", "actor__username", "=action"]
    ordering = ["-position"]


@admin.register(Segment)
class SegmentAdmin(ReadOnlyAdmin):
    list_display = ["id", "thread", "branch", "first_step", "last_step", "created_at"]
    list_filter = ["workspace", "created_at"]
    list_select_related = ["thread", "branch"]
    search_fields = ["=id", "=thread__id", "=branch__id", "=data_key"]


@admin.register(SignInFailures)
class SignInFailuresAdmin(ReadOnlyAdmin):
    list_display = ["failures", "since"]
    list_filter = ["since"]


@admin.register(Blob)
class BlobAdmin(ReadOnlyAdmin):
    list_display = ["id", "thread", "media_type", "size", "store", "created_at"]
    list_filter = ["workspace", "store", "created_at"]
    list_select_related = ["thread"]
    search_fields = ["=id", "=thread__id", "=object_name"]


@admin.register(StoreMark)
class StoreMarkAdmin(ReadOnlyAdmin):
    list_display = ["kind", "mark", "claimed_at"]
    list_filter = ["claimed_at"]
    search_fields = ["=kind"]


@admin.register(AuditLink)
class AuditLinkAdmin(ReadOnlyAdmin):
    list_display = ["number", "workspace", "event", "created_at"]
    list_filter = ["workspace"]
    list_select_related = ["workspace", "event"]
    search_fields = ["=event__id"]


@admin.register(AuditPending)
class AuditPendingAdmin(ReadOnlyAdmin):
    list_display = ["event", "workspace", "position"]
    list_filter = ["workspace"]
    list_select_related = ["workspace", "event"]
    search_fields = ["=event__id"]
    ordering = ["position"]


@admin.register(RetentionPolicy)
class RetentionPolicyAdmin(ReadOnlyAdmin):
    list_display = [
        "workspace",
        "agent",
        "keep_days",
        "then",
        "archive_days",
        "max_steps",
    ]
    list_filter = ["workspace", "then"]
    list_select_related = ["workspace"]
    search_fields = ["=agent"]


@admin.register(Archive)
class ArchiveAdmin(ReadOnlyAdmin):
    list_display = ["id", "thread", "status", "steps", "size", "created_at"]
    list_filter = ["workspace", "status", "store", "created_at"]
    list_select_related = ["thread"]
    search_fields = ["=id", "=thread__id", "=object_name"]


@admin.register(Deletion)
class DeletionAdmin(ReadOnlyAdmin):
    list_display = ["thread_id", "workspace", "what", "policy", "by", "at"]
    list_filter = ["workspace", "what", "at"]
    list_select_related = ["workspace", "policy", "by"]
    search_fields = ["=thread__id"]


@admin.register(RetentionTask)
class RetentionTaskAdmin(ReadOnlyAdmin):
    list_display = ["what", "thread", "workspace", "by", "outcome", "asked_at"]
    list_filter = ["workspace", "what", "outcome", "asked_at"]
    list_select_related = ["thread", "workspace", "by"]
    search_fields = ["=id", "=thread__id", "by__username"]
