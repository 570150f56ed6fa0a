"""What every admin page of ours keeps: metadata only, history read-only, every workspace.

The admin shows rows of all workspaces and opens none of their sealed columns. A
superuser has no right to read state; that takes a membership and the gate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import Field, ForeignKey, Model, QuerySet
from django.forms import ModelChoiceField
from django.http import HttpRequest, HttpResponse

from checkpoints import audit
from checkpoints.access import Reason, ScopedQuerySet, unscoped
from checkpoints.models.fields import SealedField

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin  # not generic when it runs


class ScopedAdmin(ModelAdmin):
    """An admin page that looks across workspaces, and says so to the managers."""

    show_full_result_count = False
    list_per_page = 50

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return _every(self.model)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        with unscoped(Reason.ADMIN):  # the filters' choices
            return super().changelist_view(request, extra_context)

    def changeform_view(self, *args: Any, **kwargs: Any) -> Any:
        with unscoped(Reason.ADMIN):  # the constraints' checks
            return super().changeform_view(*args, **kwargs)

    def formfield_for_foreignkey(
        self, db_field: ForeignKey[Any, Any], request: HttpRequest, **kwargs: Any
    ) -> ModelChoiceField[Any] | None:
        related: Any = db_field.related_model
        kwargs.setdefault("queryset", _every(related))
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def formfield_for_manytomany(
        self, db_field: Any, request: HttpRequest, **kwargs: Any
    ) -> Any:
        kwargs.setdefault("queryset", _every(db_field.related_model))
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def get_exclude(self, request: HttpRequest, obj: Any = None) -> list[str]:
        excluded = list(super().get_exclude(request, obj) or [])
        return excluded + [field.name for field in _bytes(self.model)]

    def save_model(
        self, request: HttpRequest, obj: Any, form: Any, change: bool
    ) -> None:
        super().save_model(request, obj, form, change)
        audit.record(
            None,
            "admin_change" if change else "admin_add",
            obj=obj,
            via="admin",
            actor_id=request.user.pk,
        )


class ReadOnlyAdmin(ScopedAdmin):
    """History: it is looked at, never added to, changed or deleted by hand."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        hidden = {field.name for field in _bytes(self.model)}
        return [
            field.name for field in self.model._meta.fields if field.name not in hidden
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.get_fields(request, obj)


def _every(model: type[Model]) -> QuerySet[Any]:
    rows: QuerySet[Any] = model._default_manager.all()
    if isinstance(rows, ScopedQuerySet):
        return rows.unscoped(Reason.ADMIN)
    return rows


def _bytes(model: type[Model]) -> list[Field[Any, Any]]:
    """Sealed records, wrapped keys, MACs and digests: nothing that a person reads."""
    return [
        field
        for field in model._meta.fields
        if isinstance(field, SealedField) or field.get_internal_type() == "BinaryField"
    ]
