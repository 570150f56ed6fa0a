"""Workspaces, who is in them, and who may sign in: what an operator sets by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.contrib.auth import admin as auth
from django.contrib.auth.models import Group as PermissionGroup
from django.contrib.auth.models import User
from django.db.models import Q
from django.http import HttpRequest

from checkpoints import grants
from checkpoints.access import Reason, Role
from checkpoints.admin.base import AuditedAdmin, ScopedAdmin
from checkpoints.keys import hierarchy
from checkpoints.models import Group, Membership, Workspace

if TYPE_CHECKING:
    ModelForm = forms.ModelForm[Group]
    MembershipsField = forms.ModelMultipleChoiceField[Membership]
    DjangoUserAdmin = auth.UserAdmin[User]
else:  # not generic when they run
    ModelForm = forms.ModelForm
    MembershipsField = forms.ModelMultipleChoiceField
    DjangoUserAdmin = auth.UserAdmin

admin.site.unregister([User, PermissionGroup])


@admin.register(User)
class UserAdmin(AuditedAdmin, DjangoUserAdmin):
    """People who sign in. What they did is kept: deactivate instead of deleting."""

    def save_model(
        self, request: HttpRequest, obj: User, form: Any, change: bool
    ) -> None:
        super().save_model(request, obj, form, change)
        if change and not obj.is_active:
            for membership in Membership.objects.unscoped(Reason.ADMIN).filter(
                user=obj
            ):
                _end_grants(membership, request, why="user switched off")


@admin.register(PermissionGroup)
class PermissionGroupAdmin(AuditedAdmin, auth.GroupAdmin):
    """What staff may see and change in these pages; no right in a workspace."""


@admin.register(Workspace)
class WorkspaceAdmin(ScopedAdmin):
    list_display = ["name", "slug", "created_at"]
    search_fields = ["name", "slug"]
    fields = ["name", "slug", "approvals_made"]
    readonly_fields = ["approvals_made"]
    prepopulated_fields = {"slug": ["name"]}

    def save_model(
        self, request: HttpRequest, obj: Workspace, form: Any, change: bool
    ) -> None:
        super().save_model(request, obj, form, change)
        if not change:
            hierarchy.create_workspace_keys(obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # its keys and history would go with it


@admin.register(Membership)
class MembershipAdmin(ScopedAdmin):
    list_display = ["user", "workspace", "role", "can_approve", "created_at"]
    list_filter = ["workspace", "role", "can_approve"]
    list_select_related = ["user", "workspace"]
    search_fields = ["user__username", "user__first_name", "user__last_name"]
    autocomplete_fields = ["user"]

    def save_model(
        self, request: HttpRequest, obj: Membership, form: Any, change: bool
    ) -> None:
        super().save_model(request, obj, form, change)
        if change and obj.role not in (Role.OPERATOR, Role.ADMIN):
            _end_grants(obj, request, why=f"role is {obj.role}")

    def delete_model(self, request: HttpRequest, obj: Membership) -> None:
        _end_grants(obj, request, why="membership removed")
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        for membership in queryset:
            _end_grants(membership, request, why="membership removed")
        super().delete_queryset(request, queryset)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        # Another person in another workspace is another membership.
        return ["user", "workspace"] if obj else []


def _end_grants(membership: Membership, request: HttpRequest, *, why: str) -> None:
    """Runs that act for the person there wait for somebody else, from now on."""
    grants.revoke(
        Q(user_id=membership.user_id),
        workspace_id=membership.workspace_id,
        why=why,
        via="admin",
        by_id=request.user.pk,
    )


class MembersField(MembershipsField):
    """Memberships by the person's name; a membership itself shows ids."""

    def label_from_instance(self, obj: Membership) -> str:
        return f"{obj.user.get_full_name() or obj.user} ({obj.workspace})"


class GroupForm(ModelForm):
    """Refuses members of another workspace, which the database would take."""

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        workspace = cleaned.get("workspace")
        workspace_id = workspace.pk if workspace else self.instance.workspace_id
        strangers = sorted(
            member.user.get_username()
            for member in cleaned.get("members", ())
            if member.workspace_id != workspace_id
        )
        if strangers and workspace_id:
            self.add_error("members", f"Not in this workspace: {', '.join(strangers)}.")
        return cleaned


@admin.register(Group)
class GroupAdmin(ScopedAdmin):
    form = GroupForm
    list_display = ["name", "workspace"]
    list_filter = ["workspace"]
    list_select_related = ["workspace"]
    search_fields = ["name"]
    filter_horizontal = ["members"]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["workspace"] if obj else []  # its threads would not move along

    def formfield_for_manytomany(
        self, db_field: Any, request: HttpRequest, **kwargs: Any
    ) -> Any:
        members = Membership.objects.unscoped(Reason.ADMIN)
        return super().formfield_for_manytomany(
            db_field,
            request,
            form_class=MembersField,
            queryset=members.select_related("user", "workspace").order_by(
                "workspace__name", "user__username"
            ),
            **kwargs,
        )
