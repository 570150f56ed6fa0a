"""A thread's rows as JSON, for its archive, and back.

Which rows those are is asked of the models: every model with a `thread`, in any app,
and what their foreign keys lead to. A model that is added is in the next archive.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any
from uuid import UUID

from django.apps import apps
from django.contrib.auth import get_user_model
from django.db.models import BinaryField, Field, ForeignKey, Model, Q, QuerySet
from django.utils.duration import duration_string

from checkpoints.access import Reason, ScopedQuerySet
from checkpoints.models import (
    ApiToken,
    Archive,
    Blob,
    Checkpoint,
    CheckpointDelta,
    DataKey,
    Deletion,
    RetentionTask,
    SearchField,
    Segment,
    Thread,
    ThreadInput,
)
from checkpoints.models.fields import BlindIndexField, NextPosition, SealedField
from checkpoints.pure.archived import Row

BATCH, LARGE_BATCH = 500, 20  # rows in memory at a time; of content, which is larger

# Content that goes as whole rows. Of other rows, the sealed columns that are not kept.
CONTENT_ROWS: tuple[type[Model], ...] = (CheckpointDelta, Segment, Blob, SearchField)
# Keys are an object of their own; the others speak of this database, not of the thread.
_LEFT_OUT = (DataKey, Archive, Deletion, RetentionTask)
# Parents before children, so that links can be followed while reading.
_ORDER: dict[type[Model], tuple[str, ...]] = {
    CheckpointDelta: ("step", "checkpoint_id"),
    Segment: ("first_step", "id"),
    Checkpoint: ("step", "id"),
    ThreadInput: ("position", "id"),
}
_OF_PEOPLE = ("id", "username", "first_name", "last_name")
# Operations come before the steps that they belong to (`verify`).
OPERATIONS = (CheckpointDelta, Segment)


@cache
def models_of_threads() -> tuple[type[Model], ...]:
    """Every model whose rows belong to a thread, in the order of an archive."""
    found = [
        model
        for model in apps.get_models()
        if model not in _LEFT_OUT and _leads_to_thread(model)
    ]
    return (
        Thread,
        *sorted(found, key=lambda m: (m not in OPERATIONS, m._meta.label_lower)),
    )


@cache
def content_columns(model: type[Model]) -> tuple[str, ...]:
    """The columns that are emptied when a thread's content goes: what is sealed, unless
    it is kept, and what is derived from it."""
    if model in CONTENT_ROWS:
        return ()
    return tuple(
        column.attname
        for column in model._meta.concrete_fields
        if isinstance(column, BlindIndexField)
        or (isinstance(column, SealedField) and not column.kept)
    )


def model_named(label: str) -> type[Model] | None:
    """The model of an archive's table; None for one that this release does not know."""
    try:
        return apps.get_model(label)
    except (LookupError, ValueError):
        return None


def everything(model: type[Model]) -> QuerySet[Any, Any]:
    """Every workspace's rows."""
    found = model._default_manager.all()
    return (
        found.unscoped(Reason.ARCHIVE) if isinstance(found, ScopedQuerySet) else found
    )


def of_thread(model: type[Model], thread_id: UUID) -> QuerySet[Any, Any]:
    column = "id" if model is Thread else "thread_id"
    return everything(model).filter(**{column: thread_id})


def pages(model: type[Model], rows: QuerySet[Any, Any]) -> Iterator[Row]:
    """Every row as its columns' values, in order, a batch in memory at a time."""
    order = _ORDER.get(model, ("id",))
    columns = {column.attname for column in model._meta.concrete_fields}
    size = LARGE_BATCH if model in CONTENT_ROWS else BATCH
    after: Row | None = None
    while True:
        page = rows if after is None else rows.filter(_beyond(order, after))
        found = list(page.order_by(*order).values(*columns)[:size])
        yield from found
        if len(found) < size:
            return
        after = found[-1]


def references(model: type[Model]) -> Iterator[tuple[str, type[Model]]]:
    """Columns that lead out of the thread, to people, agents, groups: to which model."""
    for column in model._meta.concrete_fields:
        if isinstance(column, ForeignKey):
            target: Any = column.related_model
            if target is not Thread and not _leads_to_thread(target):
                yield column.attname, target


def archived_columns(model: type[Model]) -> Iterator[Field[Any, Any]]:
    """Columns that an archive has: all but numbers that a sequence gives anew.

    Of people, who they are; not how they sign in. Nor how programs do: a token that is
    brought back opens nothing.
    """
    for column in model._meta.concrete_fields:
        if model is ApiToken and column.name == "digest":
            continue
        if model is get_user_model():
            if column.name in _OF_PEOPLE:
                yield column
        elif not isinstance(column.db_default, NextPosition):
            yield column


def to_json(model: type[Model], values: Row) -> Row:
    """One row; bytes as Base64, ids and times as text."""
    return {
        column.attname: plain(values[column.attname])
        for column in archived_columns(model)
    }


def from_json(model: type[Model], row: Row) -> Row:
    """The columns' values. Columns that the row does not have are left out.

    Raises ValueError, TypeError or ValidationError where one does not fit its column.
    """
    values: Row = {}
    for column in archived_columns(model):
        if column.attname not in row:
            continue
        value = row[column.attname]
        target: Any = column
        while isinstance(target, ForeignKey):
            target = target.target_field
        if value is not None:
            value = target.to_python(value)
            if isinstance(target, BinaryField):
                value = bytes(value)
        values[column.attname] = value
    return values


def _leads_to_thread(model: type[Model]) -> bool:
    return any(
        isinstance(column, ForeignKey)
        and column.name == "thread"
        and column.related_model is Thread
        for column in model._meta.concrete_fields
    )


def _beyond(names: Iterable[str], row: Row) -> Q:
    """Rows after this one in the order of these columns."""
    beyond, equal = Q(), Q()
    for name in names:
        beyond |= equal & Q(**{f"{name}__gt": row[name]})
        equal &= Q(**{name: row[name]})
    return beyond


def plain(value: Any) -> Any:
    match value:
        case bytes() | memoryview() | bytearray():
            return b64encode(value).decode()
        case datetime():
            return value.isoformat()
        case timedelta():
            return duration_string(value)
        case UUID():
            return str(value)
        case Decimal():
            return format(value, "f")
    return value


def from_base64(text: Any) -> bytes:
    """Raises ValueError, TypeError."""
    return b64decode(text, validate=True)
