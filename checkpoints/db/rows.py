"""Rows of models that a statement of our own reads, as the ORM would have read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, connection
from django.db.models import Model

M = TypeVar("M", bound=Model)


def columns(model: type[Model], name: str) -> str:
    """All columns of the model's table, which the statement calls `name`."""
    return ", ".join(f"{name}.{field.column}" for field in model._meta.concrete_fields)


def each(values: Sequence[Any], *models: type[Model]) -> Iterator[Any]:
    """A row of each of these models, from their `columns` behind one another."""
    at = 0
    for model in models:
        end = at + len(model._meta.concrete_fields)
        yield made(model, values[at:end])
        at = end


def made(model: type[M], values: Sequence[Any]) -> M:
    """The row with these values of `columns`."""
    fields = model._meta.concrete_fields
    return model.from_db(
        DEFAULT_DB_ALIAS,
        [field.attname for field in fields],
        [
            value
            if (read := getattr(field, "from_db_value", None)) is None
            # A text, of which the field makes something else (JSON).
            else read(value, None, connection)
            for field, value in zip(fields, values, strict=True)
        ],
    )
