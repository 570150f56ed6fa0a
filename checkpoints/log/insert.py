"""Put archived rows into a database that may know some of what they refer to.

A row that is here under its id stays as it is. A person is the one of the same user
name; other rows that a thread refers to say by which columns they are the same
(`same_by`), and which number they take anew where it was given away (`counted`).
Foreign keys are checked at commit, so the order of a thread's rows is free.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import make_password
from django.core.management.color import no_style
from django.db import connection
from django.db.models import Max, Model

from checkpoints.errors import BadArchive
from checkpoints.log import rows
from checkpoints.models import Branch, Checkpoint, Workspace
from checkpoints.pure.archived import Row

_BATCH = 200

# Who held a branch when it was archived holds nothing here.
_VACANT = {"holder": None, "worker": "", "lease_until": None}


class Inserter:
    """Inserts rows in batches, in the open transaction."""

    def __init__(self) -> None:
        self._waiting: dict[type[Model], list[Model]] = defaultdict(list)
        self._here: dict[type[Model], dict[Any, Any]] = defaultdict(dict)  # ids

    def add(self, model: type[Model], values: Row) -> None:
        """Raises BadArchive where the row cannot be had in this database."""
        if model is get_user_model():
            self._here[model][values["id"]] = _person(values)
            return
        values = self._translated(model, values)
        if model not in rows.models_of_threads():
            self._here[model][values["id"]] = _settle(model, values)
            return
        if model is Branch:
            values |= _VACANT
        _count(model, values)
        self._waiting[model].append(model(**values))
        if len(self._waiting[model]) >= _BATCH:
            self._write(model)

    def flush(self) -> None:
        for model in list(self._waiting):
            self._write(model)

    def _write(self, model: type[Model]) -> None:
        rows.everything(model).bulk_create(self._waiting.pop(model))

    def _translated(self, model: type[Model], values: Row) -> Row:
        """With the ids that the rows which it refers to have here."""
        translated = dict(values)
        for column, target in rows.references(model):
            was = values.get(column)
            now = self._here[target].get(was, was)
            translated[column] = now
            if model is Checkpoint and now != was:
                # The state chain covers the person's number.
                raise BadArchive(
                    f"A step names person {was}, who is number {now} in this database."
                    " Restore before other people are created, or into an empty one."
                )
        return translated


def _person(values: Row) -> Any:
    """The person of this user name; a new one cannot sign in until an admin lets them."""
    people = get_user_model()._default_manager
    known = people.filter(username=values["username"]).values_list("pk", flat=True)
    if known:
        return known[0]
    if people.filter(pk=values["id"]).exists():
        values = {name: value for name, value in values.items() if name != "id"}
    person = get_user_model()(**values, is_active=False, password=make_password(None))
    people.bulk_create([person])
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(
            no_style(), [get_user_model()]
        ):
            cursor.execute(statement)
    return person.pk


def _settle(model: type[Model], values: Row) -> Any:
    """The id of the row here that this one is, or becomes."""
    found = rows.everything(model).filter(pk=values["id"])
    if found.exists():
        return values["id"]
    if same_by := getattr(model, "same_by", ()):
        same = rows.everything(model).filter(**{name: values[name] for name in same_by})
        for pk in same.values_list("pk", flat=True):
            return pk
    if model is Workspace and (Workspace.objects.filter(slug=values["slug"]).exists()):
        raise BadArchive(
            f"This database has a workspace {values['slug']!r} that is not the archive's."
            " Rename it, or restore into an empty database."
        )
    _count(model, values)
    rows.everything(model).bulk_create([model(**values)])
    return values["id"]


def _count(model: type[Model], values: Row) -> None:
    """Take the next number where another row was given this one's meanwhile."""
    counted: tuple[str, str] | None = getattr(model, "counted", None)
    if counted is None:
        return
    within, number = counted
    others = rows.everything(model).filter(**{within: values[within]})
    if others.filter(**{number: values[number]}).exists():
        values[number] = others.aggregate(last=Max(number))["last"] + 1
