"""JSON Schema from a function's signature, and arguments checked against it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from agents.errors import ArgumentsDoNotFit, BadDeclaration
from agents.tools.context import IdempotencyKey, ToolContext
from checkpoints.pure.codec import canonical, check_structure
from checkpoints.pure.pointer import pointer

Schema = dict[str, Any]

INJECTED = {IdempotencyKey: "key", ToolContext: "ctx"}  # ours to give, not the model's
_DECIMAL = {"type": "string", "format": "decimal"}


class _Generator(GenerateJsonSchema):
    """Exact numbers as decimal strings; no title that only repeats a name."""

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        return dict(_DECIMAL)

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


class Signature:
    """What a tool takes from the model, and what from us."""

    model: type[BaseModel]
    schema: Schema

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.injected: dict[str, str] = {}  # our kind of thing → parameter name
        fields: dict[str, Any] = {}
        hints = get_type_hints(function, include_extras=True)
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind in (
                inspect.Parameter.VAR_POSITIONAL,
                inspect.Parameter.VAR_KEYWORD,
                inspect.Parameter.POSITIONAL_ONLY,
            ):
                raise BadDeclaration(
                    f"Tool {name!r}: parameter {parameter.name!r} must be one that "
                    "can be given by name."
                )
            hint = hints.get(parameter.name)
            if hint is None:
                raise BadDeclaration(
                    f"Tool {name!r}: parameter {parameter.name!r} has no type."
                )
            if hint in INJECTED:
                self.injected[INJECTED[hint]] = parameter.name
            else:
                empty = parameter.default is inspect.Parameter.empty
                fields[parameter.name] = (hint, ... if empty else parameter.default)
        try:
            self.model = create_model(
                name,
                __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=False),
                **fields,
            )
            self.schema = _schema_of(self.model)
        except PydanticUserError as error:
            raise BadDeclaration(f"Tool {name!r}: {error.message}") from error

    def fit(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arguments as they are kept, and as the function takes them.

        They are kept as given, but that exact numbers become text. Raises
        ArgumentsDoNotFit, and NotStorable for what is no plain JSON.
        """
        check_structure(arguments)  # how deep it is, before anything goes down into it
        kept = exact(arguments, self.schema, self.schema)
        try:
            # As JSON, and strictly: "5" is no number and 1 is no boolean.
            made = self.model.model_validate_json(canonical(kept), strict=True)
        except ValidationError as error:
            raise ArgumentsDoNotFit(_problems(error)) from None
        return kept, {name: getattr(made, name) for name in type(made).model_fields}


class Answers(Signature):
    """What a question takes from whoever answers it: the fields of a pydantic model."""

    def __init__(self, model: Any, name: str) -> None:
        self.injected = {}
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            raise BadDeclaration(
                f"Tool {name!r}: response={model!r} is no pydantic model."
            )
        try:
            self.model = create_model(
                model.__name__, __base__=model, __cls_kwargs__={"extra": "forbid"}
            )
            schema = _schema_of(self.model)
        except PydanticUserError as error:
            raise BadDeclaration(f"Tool {name!r}: {error.message}") from error
        if not schema["properties"]:
            raise BadDeclaration(f"Tool {name!r}: its response has no fields.")
        self.schema = schema


def _schema_of(model: type[BaseModel]) -> Schema:
    schema = model.model_json_schema(schema_generator=_Generator)
    schema.pop("title", None)
    return {"properties": {}, **schema}


def exact(value: Any, schema: Schema, root: Schema) -> Any:
    """`value` with numbers as decimal strings where the schema wants those.

    Models write `"price": 1240.5` whatever the schema says; the digits are kept.
    """
    schema = resolve(schema, root)
    if schema.get("format") == "decimal" and type(value) in (int, float):
        return format(Decimal(json.dumps(value)), "f")
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        others = schema.get("additionalProperties")
        return {
            key: exact(
                item,
                properties.get(key, others if isinstance(others, dict) else {}),
                root,
            )
            for key, item in value.items()
        }
    if isinstance(value, list):
        items = schema.get("items")
        return [
            exact(item, items if isinstance(items, dict) else {}, root)
            for item in value
        ]
    return value


def resolve(schema: Schema, root: Schema) -> Schema:
    """What a `$ref` into the same schema names; else the schema itself.

    `X | None` counts as X.
    """
    for _ in range(10):  # references to references; a circle of them ends here
        if "$ref" in schema:
            name = str(schema["$ref"]).removeprefix("#/$defs/")
            schema = root.get("$defs", {}).get(name, {})
            continue
        options = [
            option for option in schema.get("anyOf", ()) if option.get("type") != "null"
        ]
        if len(options) != 1:
            break
        schema = {**schema, **options[0]}
        del schema["anyOf"]
    return schema


def _problems(error: ValidationError) -> dict[str, str]:
    """Path → what is wrong, without quoting the value."""
    return {
        pointer(*problem["loc"]): _PLAIN_WORDS.get(problem["type"])
        or _sentence(problem["msg"])
        for problem in error.errors(
            include_url=False, include_context=False, include_input=False
        )
    }


_PLAIN_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is not a field that there is",
    "decimal_parsing": "should be a number, written as text",
    "decimal_type": "should be a number, written as text",
}


def _sentence(message: str) -> str:
    message = message.removeprefix("Input ").removeprefix("Value error, ")
    return message[0].lower() + message[1:]
