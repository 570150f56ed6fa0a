"""What every admin page of ours keeps: metadata only, history read-only, every workspace.

The admin shows rows of all workspaces and opens none of their sealed columns. A
superuser has no right to read state; that takes a membership and the gate.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import get_fields_from_path
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Field, ForeignKey, Model, Q, QuerySet
from django.forms import ModelChoiceField
from django.http import HttpRequest, HttpResponse
from django.utils.text import smart_split, unescape_string_literal

from checkpoints import audit
from checkpoints.access import Reason, ScopedQuerySet, unscoped
from checkpoints.models import Workspace
from checkpoints.models.fields import SealedField

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin  # not generic when it runs


class AuditedAdmin(ModelAdmin):
    """An admin page whose every change is an event of the audit log, too.

    Django calls these where it keeps its own log: after forms, after a new password,
    before a deletion.
    """

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> LogEntry:
        _record(request, "admin_add", obj)
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> LogEntry:
        _record(request, "admin_change", obj)
        return super().log_change(request, obj, message)

    def log_deletions(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        for obj in queryset:
            _record(request, "admin_delete", obj)
        return super().log_deletions(request, queryset)


class ScopedAdmin(AuditedAdmin):
    """An admin page that looks across workspaces, and says so to the managers."""

    show_full_result_count = False
    list_per_page = 50

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return _every(self.model)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        # The filters' choices look across workspaces; an action is one change.
        with unscoped(Reason.ADMIN), transaction.atomic():
            return super().changelist_view(request, extra_context)

    def changeform_view(self, *args: Any, **kwargs: Any) -> Any:
        with unscoped(Reason.ADMIN):  # the constraints' checks
            return super().changeform_view(*args, **kwargs)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Rows in which each word is found.

        A field written as "=id" is compared as what it is, by its index; a word that
        cannot be one finds nothing there. Django would compare its text, or fail.
        """
        names = self.get_search_fields(request)
        for bit in smart_split(search_term):
            quoted = bit[0] in "\"'" and len(bit) > 1 and bit[0] == bit[-1]
            word = unescape_string_literal(bit) if quoted else bit
            found = [
                one
                for name in names
                if (one := _lookup(self.model, str(name), word)) is not None
            ]
            queryset = queryset.filter(reduce(or_, found)) if found else queryset.none()
        return queryset, False  # no search field of ours crosses to many rows

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


def _record(request: HttpRequest, action: str, obj: Any) -> None:
    audit.record(
        None,
        action,
        obj=obj,
        via="admin",
        workspace_id=obj.pk if isinstance(obj, Workspace) else None,
        actor_id=request.user.pk,
        # People and their permission groups have numbers for ids.
        **({} if isinstance(obj.pk, UUID) else {"id": obj.pk}),
    )


def _lookup(model: type[Model], name: str, word: str) -> Q | None:
    if not name.startswith("="):
        return Q((f"{name}__icontains", word))
    path = name.removeprefix("=")
    field: Any = get_fields_from_path(model, path)[-1]
    try:
        value = field.to_python(word)
        field.run_validators(value)
    except ValidationError:
        return None
    return Q((path, value))


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
