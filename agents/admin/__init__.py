"""Operators' pages over agents, runs and approvals: metadata only."""

from __future__ import annotations

import re
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from agents.models import (
    Agent,
    AgentVersion,
    Approval,
    ApprovalNote,
    Channel,
    Decision,
    Delivery,
    Policy,
    PolicyUse,
    Price,
    Run,
    Snooze,
    StickyRule,
    ToolCall,
    Worker,
)
from agents.pure import prices
from checkpoints.admin.base import AuditedAdmin, ReadOnlyAdmin, ScopedAdmin


@admin.register(Agent)
class AgentAdmin(ScopedAdmin):
    list_display = ["name", "workspace", "enabled", "created_at"]
    list_filter = ["workspace", "enabled"]
    list_select_related = ["workspace"]
    search_fields = ["name"]
    readonly_fields = ["workspace", "name"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False  # agents come from code

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False


@admin.register(AgentVersion)
class AgentVersionAdmin(ReadOnlyAdmin):
    list_display = ["agent", "number", "workspace", "schema_version", "created_at"]
    list_filter = ["workspace", "created_at"]
    list_select_related = ["agent", "workspace"]
    search_fields = ["=id", "agent__name"]


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    list_display = [
        "id",
        "workspace",
        "agent_version",
        "status",
        "queue",
        "priority",
        "started_by",
        "attempts",
        "steps",
        "failed_step",
        "error_class",
        "created_at",
    ]
    list_filter = ["workspace", "status", "queue", "error_class", "created_at"]
    list_select_related = ["workspace", "agent_version__agent", "started_by"]
    search_fields = ["=id", "=thread__id", "=error_class", "started_by__username"]


@admin.register(ToolCall)
class ToolCallAdmin(ReadOnlyAdmin):
    list_display = [
        "id",
        "workspace",
        "tool",
        "effect",
        "status",
        "run",
        "attempts",
        "error_class",
        "created_at",
    ]
    list_filter = ["workspace", "status", "effect", "tool", "created_at"]
    list_select_related = ["workspace", "run"]
    search_fields = ["=id", "=run__id", "=thread__id", "=tool"]


@admin.register(Approval)
class ApprovalAdmin(ReadOnlyAdmin):
    list_display = [
        "__str__",
        "workspace",
        "kind",
        "status",
        "risk",
        "rule",
        "asked_at",
        "decided_at",
        "decided_by",
    ]
    list_filter = ["workspace", "status", "kind", "risk", "asked_at"]
    list_select_related = ["workspace", "decided_by"]
    search_fields = ["=id", "=number", "=run__id", "=thread__id"]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """APR-2041 is how pages write the number 2041."""
        numbers = re.sub(r"\bAPR-(?=[0-9])", "", search_term, flags=re.IGNORECASE)
        return super().get_search_results(request, queryset, numbers)


@admin.register(Price)
class PriceAdmin(AuditedAdmin):
    """US dollars for a million tokens; below it what Holdpoint ships with."""

    list_display = ["model", "since", "fresh", "cached", "output"]
    list_filter = ["since"]
    search_fields = ["model"]
    ordering = ["model", "-since"]
    change_list_template = "admin/agents/price/change_list.html"

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        shipped = {"shipped": prices.SHIPPED.items(), "as_of": prices.AS_OF}
        return super().changelist_view(request, {**(extra_context or {}), **shipped})


@admin.register(Decision)
class DecisionAdmin(ReadOnlyAdmin):
    list_display = [
        "id",
        "workspace",
        "approval",
        "revision",
        "verdict",
        "by",
        "role",
        "at",
    ]
    list_filter = ["workspace", "verdict", "at"]
    list_select_related = ["workspace", "approval", "by"]
    search_fields = ["=id", "=approval__id", "by__username"]


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    list_display = ["name", "queue", "turns", "started_at", "beat_at", "ending"]
    list_filter = ["queue", "ending"]
    search_fields = ["=name", "=host"]


@admin.register(Policy)
class PolicyAdmin(ReadOnlyAdmin):
    list_display = ["__str__", "workspace", "version", "note", "made_by", "made_at"]
    list_filter = ["workspace", "made_at"]
    list_select_related = ["workspace", "agent", "made_by"]
    search_fields = ["=id", "agent__name", "note"]


@admin.register(PolicyUse)
class PolicyUseAdmin(ReadOnlyAdmin):
    list_display = ["id", "workspace", "call", "at"]
    list_filter = ["workspace", "at"]
    list_select_related = ["workspace", "call"]
    search_fields = ["=id", "=call__id"]


@admin.register(StickyRule)
class StickyRuleAdmin(ReadOnlyAdmin):
    list_display = [
        "__str__",
        "workspace",
        "agent",
        "made_by",
        "expires_at",
        "hits",
        "revoked_at",
    ]
    list_filter = ["workspace", "scope", "expires_at"]
    list_select_related = ["workspace", "agent", "made_by"]
    search_fields = ["=id", "=tool", "=thread__id"]


@admin.register(ApprovalNote)
class ApprovalNoteAdmin(ReadOnlyAdmin):
    list_display = ["id", "workspace", "approval", "by", "at"]
    list_filter = ["workspace", "at"]
    list_select_related = ["workspace", "approval", "by"]
    search_fields = ["=id", "=approval__id", "by__username"]


@admin.register(Snooze)
class SnoozeAdmin(ReadOnlyAdmin):
    list_display = ["__str__", "workspace", "by", "until"]
    list_filter = ["workspace", "until"]
    list_select_related = ["workspace", "approval", "by"]
    search_fields = ["=id", "=approval__id", "by__username"]


@admin.register(Channel)
class ChannelAdmin(ReadOnlyAdmin):
    list_display = [
        "name",
        "workspace",
        "kind",
        "events",
        "active",
        "made_by",
        "made_at",
    ]
    list_filter = ["workspace", "kind", "active"]
    list_select_related = ["workspace", "made_by"]
    search_fields = ["=id", "name"]


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin):
    list_display = [
        "id",
        "workspace",
        "channel",
        "event",
        "approval",
        "recipient",
        "status",
        "attempts",
        "error_class",
        "created_at",
        "sent_at",
    ]
    list_filter = ["workspace", "status", "event", "error_class", "created_at"]
    list_select_related = ["workspace", "channel", "approval", "recipient"]
    search_fields = ["=id", "=approval__id", "=channel__id", "recipient__username"]
