"""A tool's schema and a call's arguments as the fields of a form (read: `typed.py`)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agents.tools.schema import Schema, resolve
from checkpoints.pure.pointer import pointer

Kind = Literal[
    "text",
    "choice",
    "boolean",
    "integer",
    "number",
    "decimal",
    "date",
    "datetime",
    "time",
    "lines",
    "json",
]

LONG_CHARACTERS = 80  # from here on a text gets an area instead of a line
NESTED_FIELDS = 20  # an object with more is edited as JSON

_FORMATS: dict[str, Kind] = {
    "decimal": "decimal",
    "date": "date",
    "date-time": "datetime",
    "time": "time",
}
_TYPES: dict[str, Kind] = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
}
ABSENT = object()  # no such argument


@dataclass(frozen=True)
class Field:
    """One argument in a form. `name` is the control's, `value` what it shows."""

    path: str  # JSON Pointer, as errors name it: "/price"
    label: str
    kind: Kind
    value: str = field(repr=False)
    required: bool
    locked: bool = False
    description: str = ""
    choices: tuple[tuple[str, Any], ...] = ()  # what is shown → what it stands for
    item: Kind = "text"  # of lines
    error: str = ""

    @property
    def name(self) -> str:
        return f"arg{self.path}"

    @property
    def id(self) -> str:
        return "arg" + re.sub(r"[^A-Za-z0-9]+", "-", self.path)

    @property
    def is_long(self) -> bool:
        """Whether it needs several lines."""
        return (
            self.kind in ("lines", "json")
            or "\n" in self.value
            or (self.kind == "text" and len(self.value) > LONG_CHARACTERS)
        )


def describe(
    schema: Schema,
    arguments: Mapping[str, Any],
    *,
    posted: Mapping[str, str] | None = None,
    problems: Mapping[str, str] | None = None,
    locked: Collection[str] = (),
) -> list[Field]:
    """The fields for these arguments, in the schema's order, objects taken apart.

    With `posted`, they show what was typed; `problems` (of InvalidDecision) stand at
    the field that they are about, or that holds what they are about.
    """
    fields = list(_fields(schema, schema, arguments, "", True, locked))
    errors, _ = _placed(problems or {}, fields)
    return [
        replace(
            shown,
            value=(posted or {}).get(shown.name, shown.value).replace("\r\n", "\n"),
            error=errors.get(shown.path, ""),
        )
        for shown in fields
    ]


def elsewhere(problems: Mapping[str, str], fields: Collection[Field]) -> list[str]:
    """Problems that no field can show."""
    return list(_placed(problems, fields)[1].values())


def _placed(
    problems: Mapping[str, str], fields: Collection[Field]
) -> tuple[dict[str, str], dict[str, str]]:
    """Problems by the path of the field that shows them, and those that none shows."""
    paths = {shown.path for shown in fields}
    here: dict[str, str] = {}
    other: dict[str, str] = {}
    for path, text in problems.items():
        place = path
        while place and place not in paths:
            place = place.rpartition("/")[0]
        if not place:
            other[path] = f"{path}: {text}" if path[:1] == "/" else text
        else:
            inner = path.removeprefix(place)
            said = f"{inner}: {text}" if inner else text
            here[place] = f"{here[place]}; {said}" if place in here else said
    return here, other


def _fields(
    schema: Schema,
    root: Schema,
    values: Mapping[str, Any],
    path: str,
    required: bool,
    locked: Collection[str],
) -> Iterator[Field]:
    needed = set(schema.get("required", ())) if required else set()
    for name, raw in schema.get("properties", {}).items():
        inner = resolve(raw, root)
        here = path + pointer(name)
        value = values.get(name, ABSENT)
        if _is_open_object(inner, value):
            nested = {} if value is ABSENT else value
            yield from _fields(inner, root, nested, here, name in needed, locked)
        else:
            yield _field(name, inner, root, value, here, name in needed, locked)


def _field(
    name: str,
    schema: Schema,
    root: Schema,
    value: Any,
    path: str,
    required: bool,
    locked: Collection[str],
) -> Field:
    kind, item, choices = _kind(schema, root)
    # A model may have put something else there than the schema says.
    if not _fits(kind, item, choices, value):
        kind, choices = "json", ()
    if "const" in schema and value is ABSENT:
        value = schema["const"]  # what the tool takes when nothing is said
    return Field(
        path=path,
        label=str(schema.get("title") or name.replace("_", " ").capitalize()),
        kind=kind,
        value=_shown(kind, choices, value),
        required=required,
        locked=path in locked or "const" in schema,
        description=str(schema.get("description", "")),
        choices=choices,
        item=item,
    )


def _kind(
    schema: Schema, root: Schema
) -> tuple[Kind, Kind, tuple[tuple[str, Any], ...]]:
    """Kind, kind of the lines' items, and choices."""
    if "enum" in schema:
        choices = tuple((_word(option), option) for option in schema["enum"])
        return "choice", "text", choices
    if "const" in schema:
        return "choice", "text", ((_word(schema["const"]), schema["const"]),)
    if schema.get("type") == "array" and isinstance(schema.get("items"), dict):
        item = _scalar(resolve(schema["items"], root))
        return ("lines", item, ()) if item else ("json", "text", ())
    return _scalar(schema) or "json", "text", ()


def _scalar(schema: Schema) -> Kind | None:
    if "enum" in schema or "anyOf" in schema:
        return None
    kind = schema.get("type")
    if kind == "string" and schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    return _TYPES.get(kind) if isinstance(kind, str) else None


def _is_open_object(schema: Schema, value: Any) -> bool:
    """An object whose properties are known, and are there or can be typed."""
    properties = schema.get("properties")
    return (
        schema.get("type") == "object"
        and isinstance(properties, dict)
        and 0 < len(properties) <= NESTED_FIELDS
        and (value is ABSENT or isinstance(value, dict))
        and set(value if isinstance(value, dict) else ()) <= set(properties)
    )


def _fits(
    kind: Kind, item: Kind, choices: tuple[tuple[str, Any], ...], value: Any
) -> bool:
    """Whether the field of this kind can show the value, and give it back."""
    if value is ABSENT or value is None:
        return True
    match kind:
        case "json":
            return True
        case "choice":
            return any(_word(value) == word for word, _ in choices)
        case "lines":
            return isinstance(value, list) and all(
                _fits(item, "text", (), one) and "\n" not in _word(one) and one != ""
                for one in value
                if one is not None
            )
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, str)


def _shown(kind: Kind, choices: tuple[tuple[str, Any], ...], value: Any) -> str:
    if value is ABSENT:
        return ""
    if kind == "json":
        return json.dumps(value, indent=2, ensure_ascii=False)
    if kind == "lines":
        return "\n".join(map(_word, value or ()))
    return _word(value)


def _word(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
