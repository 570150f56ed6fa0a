"""What a tool gives, as text for the model."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError

from checkpoints import blobs
from checkpoints.errors import NotStorable
from checkpoints.pure.codec import canonical, clean, text

LARGEST_RESULT = blobs.MAX_BYTES - 1024 * 1024  # bytes; some is put around it

_NO_JSON = (PydanticUserError, PydanticSerializationError)


def as_text(result: Any) -> str:
    """A tool's result as the model reads it. Raises NotStorable, which names the place.

    Lone surrogates in it are left for the step to replace, which says so.
    """
    if isinstance(result, str):
        if len(result.encode(errors="replace")) > LARGEST_RESULT:
            canonical(clean(result)[0], most=LARGEST_RESULT)  # says so
        return result
    try:
        if isinstance(result, BaseModel) or dataclasses.is_dataclass(result):
            result = TypeAdapter(type(result)).dump_python(result, mode="json")
        plain = json.loads(json.dumps(result, default=_plain))
    except _NO_JSON:
        for path, value in _places(result, "$"):
            if not _has_form(value):
                raise NotStorable(path, f"is a {type(value).__name__}") from None
        raise
    canonical(clean(plain)[0], most=LARGEST_RESULT)
    return text(plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, Iterable):
        return list(value)
    return TypeAdapter(type(value)).dump_python(value, mode="json")


def _places(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every value that is no list and no object, with where it is."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _places(one, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, one in enumerate(value):
            yield from _places(one, f"{path}[{index}]")
    else:
        yield path, value


def _has_form(value: Any) -> bool:
    try:
        json.dumps(value, default=_plain)
    except _NO_JSON:
        return False
    return True
