"""Querysets that are put together and compiled once, and run for the values of each request.

Where a page follows keys through eight tables, Django takes longer to write the statement
than PostgreSQL takes to run it, and writes the same one every time. Here it is written
for stand-ins: values that occur nowhere else. Where one of them comes out as a parameter,
the request's own value goes in. Who may see what is still said once, by `for_user`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID, uuid4

from django.core.exceptions import EmptyResultSet
from django.db import DEFAULT_DB_ALIAS, connections, models
from psycopg.types.json import Jsonb

from checkpoints.access import ScopedQuerySet, UserPrincipal

Value = UUID | int | str
_KNOWN = ("select", "klass_info", "annotation_col_map", "col_count", "has_extra_select")


class Compiled:
    """What `build(principal, **values)` finds, as a list.

        FIND = Compiled(lambda by, pk: Thread.objects.for_user(by).filter(pk=pk))
        FIND.rows(request.principal, pk=pk)

    `build` may ask the principal's role, right to approve, and ids, and passes values on
    to the queryset as they are; it is called once for each role and number of groups.
    Raises AssertionError where a value went elsewhere: into another one, or nowhere.
    """

    def __init__(self, build: Callable[..., models.QuerySet[Any, Any]]) -> None:
        self._build = build
        self._statements: dict[tuple[Any, ...], _Statement | None] = {}

    def rows(self, principal: UserPrincipal | None, **values: Value) -> list[Any]:
        """Models, or what else the queryset is of. Raises Django's database errors.

        Without a principal where nobody is known yet: `build` is given None.
        """
        kind = principal and (
            principal.role,
            principal.can_approve,
            len(principal.groups),
        )
        shape = (kind, *((name, type(value)) for name, value in values.items()))
        if shape not in self._statements:
            self._statements[shape] = _statement(self._build, principal, values)
        statement = self._statements[shape]
        return [] if statement is None else statement.run(_named(principal, values))

    def first(self, principal: UserPrincipal | None, **values: Value) -> Any:
        """The first of them; None where there is none."""
        return next(iter(self.rows(principal, **values)), None)


@dataclass(frozen=True)
class _Statement:
    """SQL with the names of its values, and how Django makes rows of its answer."""

    queryset: models.QuerySet[Any, Any]
    sql: str
    parameters: Sequence[Any]  # values as they are, and names
    known: dict[str, Any]

    def run(self, values: dict[str, Value]) -> list[Any]:
        connection = connections[DEFAULT_DB_ALIAS]
        query = self.queryset.query
        compiler = query.get_compiler(connection=connection)
        for name, value in self.known.items():
            setattr(compiler, name, value)
        parameters = tuple(_filled(each, values) for each in self.parameters)
        compiler.as_sql = lambda *args, **options: (self.sql, parameters)
        written: Any = _Written(self.queryset, compiler)
        rows = self.queryset._iterable_class(written)
        return list(cast(Iterator[Any], rows))


class _Written:
    """What Django's iterables ask of a queryset, and of its query."""

    _known_related_objects: dict[Any, Any] = {}
    db = DEFAULT_DB_ALIAS

    def __init__(self, queryset: models.QuerySet[Any, Any], compiler: Any) -> None:
        self.model = queryset.model
        self.query = self
        self._compiler = compiler

    def get_compiler(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiler


@dataclass(frozen=True)
class _Name:
    """In the place of a value."""

    name: str


def _statement(
    build: Callable[..., models.QuerySet[Any, Any]],
    principal: UserPrincipal | None,
    values: dict[str, Value],
) -> _Statement | None:
    """None: there is nothing to be found, whatever the values are."""
    stands = principal and UserPrincipal(
        user_id=_stand_in(int, 0),
        workspace_id=uuid4(),
        role=principal.role,
        can_approve=principal.can_approve,
        name="",
        groups=frozenset(uuid4() for _ in principal.groups),
    )
    others = {
        name: _stand_in(type(value), n)
        for n, (name, value) in enumerate(values.items(), start=1)
    }
    queryset = build(stands, **others)
    if isinstance(queryset, ScopedQuerySet):
        queryset.require_scope()
    compiler = queryset.query.get_compiler(DEFAULT_DB_ALIAS)
    try:
        sql, parameters = compiler.as_sql()
    except EmptyResultSet:
        return None
    names = {value: name for name, value in _named(stands, others).items()}
    found = [_slot(parameter, names) for parameter in parameters]
    used = {name for each in found for name in _names_in(each)}
    assert set(others) <= used, f"No parameter is {set(others) - used}."
    written = [sql, *map(_written, found)]
    left = [form for value in names for form in _forms(value)]
    assert not any(form in text for form in left for text in written), (
        "A value went into another one."
    )
    known = {name: getattr(compiler, name) for name in _KNOWN}
    return _Statement(queryset, sql, found, known)


def _named(principal: UserPrincipal | None, values: dict[str, Value]) -> dict[str, Any]:
    """Each value under a name. Which group is which does not matter: it is a set."""
    if principal is None:
        return values
    groups = {f"group {n}": group for n, group in enumerate(principal.groups)}
    # Blanks, so that no value is named as what is the principal's own.
    own = {"own workspace": principal.workspace_id, "own id": principal.user_id}
    return {**own, **groups, **values}


def _stand_in(kind: type, number: int) -> Any:
    """A value that occurs nowhere else."""
    assert kind in (UUID, int, str), f"Nothing stands for any {kind.__name__}."
    if kind is int:
        return 2_100_000_007 + number
    return uuid4() if kind is UUID else kind(f"stand-in {uuid4()}")


def _written(parameter: Any) -> str:
    """All of it: psycopg cuts what it shows of JSON."""
    return repr(parameter.obj if isinstance(parameter, Jsonb) else parameter)


def _forms(value: Any) -> list[str]:
    """How it may be written within something else."""
    return [str(value), value.hex] if isinstance(value, UUID) else [str(value)]


def _slot(parameter: Any, names: dict[Any, str]) -> Any:
    """The parameter with names for stand-ins."""
    if isinstance(parameter, Jsonb):
        inside = copy.copy(parameter)
        inside.obj = _slot(parameter.obj, {str(key): names[key] for key in names})
        return inside
    if isinstance(parameter, list):
        return [_slot(each, names) for each in parameter]
    if isinstance(parameter, UUID | int | str) and parameter in names:
        return _Name(names[parameter])
    return parameter


def _filled(parameter: Any, values: dict[str, Any], *, as_text: bool = False) -> Any:
    match parameter:
        case _Name(name):
            return str(values[name]) if as_text else values[name]
        case Jsonb():
            filled = copy.copy(parameter)
            filled.obj = _filled(parameter.obj, values, as_text=True)
            return filled
        case list():
            return [_filled(each, values, as_text=as_text) for each in parameter]
    return parameter


def _names_in(parameter: Any) -> Iterator[str]:
    match parameter:
        case _Name(name):
            yield name
        case Jsonb():
            yield from _names_in(parameter.obj)
        case list():
            for each in parameter:
                yield from _names_in(each)
