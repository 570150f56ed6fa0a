"""What a tool may declare for the people who approve its calls: a guard, and a preview.

    def fare_now(flight: str, price: Decimal, *, seen: Seen) -> Found:
        \"\"\"Whether the fare is what it was.\"\"\"

    @tool(guard=fare_now, tolerance={"/price": "2%"}, preview=ticket, reversible="for 24 hours")
    def book_flight(flight: str, price: Decimal, …)

Both take arguments of the tool, by name and as the tool takes them, and a ToolContext if
they like, with no working memory. They run in a worker and must change nothing outside.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, get_type_hints

from agents.errors import BadDeclaration, NotAGuard
from agents.pure import tolerance as tolerances
from agents.pure.tolerance import Tolerance
from agents.tools.context import ToolContext
from agents.tools.previews import Preview
from agents.tools.results import as_text
from agents.tools.schema import Signature
from checkpoints.errors import NotStorable
from checkpoints.pure.codec import clean

Values = dict[str, Any]  # JSON; those that a decision depends on, by name
Seen = Values | None  # those that a guard gave when the request was asked

LARGEST = 100_000  # bytes of values, or of arguments, as JSON
MOST_SAID = 2_000  # characters

SEEN = "seen"  # the parameter of a guard

# How old its last look may be when somebody approves, where a tool declares nothing else.
AGE = timedelta(minutes=5)


@dataclass(frozen=True)
class Unchanged:
    """All is as it was seen, or, the first time, as the arguments say."""

    values: Values = field(repr=False)


@dataclass(frozen=True)
class Changed:
    """Something is other than it was. `new`: all values, as they are now.

    `arguments`: those that would do now what the call was meant to do, some or all;
    people are asked about them in place of the call's own.
    """

    old: Values = field(repr=False)
    new: Values = field(repr=False)
    text: str = field(repr=False)  # a sentence for whoever decides
    arguments: Values | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Invalid:
    """The call makes no sense any more: it cannot be approved."""

    text: str = field(repr=False)


Found = Unchanged | Changed | Invalid
Guard = Callable[..., Found]
Previews = Callable[..., Preview]


def guard_of(
    name: str, signature: Signature, guard: Guard | None, tolerance: Tolerance | None
) -> tuple[Guard | None, dict[str, Any]]:
    """A guard and its tolerance, as declared. Raises BadDeclaration."""
    allowed = dict(tolerance or {})
    if guard is None:
        if allowed:
            raise BadDeclaration(
                f"Tool {name!r}: a tolerance is for what a guard finds; it has none."
            )
        return None, {}
    taken = _parameters(name, "guard", signature, guard)
    if SEEN not in taken:
        raise BadDeclaration(
            f"Tool {name!r}: its guard must take `seen`, the values that it saw before."
        )
    for path, amount in allowed.items():
        if wrong := tolerances.problem(path, amount):
            raise BadDeclaration(f"Tool {name!r}: tolerance: {wrong}.")
    return guard, allowed


def age_of(name: str, guard: Guard | None, age: timedelta | None) -> timedelta:
    """How old a look may be, as declared. Raises BadDeclaration."""
    if age is None:
        return AGE
    if guard is None or age <= timedelta(0):
        raise BadDeclaration(
            f"Tool {name!r}: guard_age={age!r} is no age that a look of its guard can have."
        )
    return age


def preview_of(
    name: str, signature: Signature, preview: Previews | None
) -> Previews | None:
    """A preview, as declared. Raises BadDeclaration."""
    if preview is not None and SEEN in _parameters(name, "preview", signature, preview):
        raise BadDeclaration(
            f"Tool {name!r}: `seen` is for its guard, not its preview."
        )
    return preview


def find(
    guard: Guard, values: Mapping[str, Any], seen: Seen, context: ToolContext
) -> Found:
    """What the guard finds, checked. Raises what it raises, and NotAGuard."""
    given = {**values, SEEN: seen}
    match guard(**_given(guard, given, context)):
        case Unchanged(now):
            return Unchanged(_plain(now))
        case Changed(old, new, text, arguments):
            return Changed(
                _plain(old),
                _plain(new),
                _said(text),
                None if arguments is None else _plain(arguments),
            )
        case Invalid(text):
            return Invalid(_said(text))
        case other:
            raise NotAGuard(f"A guard gave a {type(other).__name__}.")


def show(
    preview: Previews, values: Mapping[str, Any], context: ToolContext
) -> dict[str, Any]:
    """A preview as it is kept: JSON. Raises what it raises, and NotAGuard."""
    made = preview(**_given(preview, values, context))
    if not isinstance(made, Preview):
        raise NotAGuard(f"A preview gave a {type(made).__name__}.")
    return made.kept()


def _parameters(
    name: str, what: str, signature: Signature, function: Callable[..., Any]
) -> set[str]:
    """The names that it takes. Raises BadDeclaration."""
    known = {*signature.schema["properties"], SEEN}
    taken = set()
    hints = get_type_hints(function)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise BadDeclaration(
                f"Tool {name!r}: what its {what} takes must be taken by name."
            )
        if hints.get(parameter.name) is ToolContext:
            continue
        if parameter.kind == parameter.VAR_KEYWORD or parameter.name not in known:
            raise BadDeclaration(
                f"Tool {name!r}: its {what} takes {parameter.name!r}, which is no "
                "argument of the tool."
            )
        taken.add(parameter.name)
    return taken


def _given(
    function: Callable[..., Any], values: Mapping[str, Any], context: ToolContext
) -> dict[str, Any]:
    hints = get_type_hints(function)
    return {
        name: context if hints.get(name) is ToolContext else values[name]
        for name in inspect.signature(function).parameters
    }


def _plain(values: Any) -> Values:
    """As JSON. Raises NotAGuard."""
    if not isinstance(values, Mapping):
        raise NotAGuard(f"A guard's values are an object, not a {_kind(values)}.")
    try:
        plain = json.loads(as_text(dict(values)))
    except NotStorable as problem:
        raise NotAGuard("A guard's values are no JSON.") from problem
    kept, _ = clean(plain)
    if len(json.dumps(kept)) > LARGEST:
        raise NotAGuard(f"A guard's values take more than {LARGEST:,} bytes.")
    return dict(kept)


def _said(text: Any) -> str:
    if not isinstance(text, str):
        raise NotAGuard(f"What a guard says is text, not a {_kind(text)}.")
    kept = str(clean(text)[0])
    return kept if len(kept) <= MOST_SAID else f"{kept[:MOST_SAID]}…"


def _kind(value: Any) -> str:
    return type(value).__name__
