"""A declared tool: a function that agents may call, and the rule by which it asks people."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from hashlib import sha256
from types import CodeType
from typing import Any, Literal, get_args
from uuid import UUID

from agents.errors import ArgumentsDoNotFit, BadDeclaration, ResultNotKept
from agents.pure import policy
from agents.pure.calls import Call
from agents.tools import guards, titles
from agents.tools.context import IdempotencyKey, ToolContext
from agents.tools.guards import Found, Guard, Previews, Seen
from agents.tools.results import as_text
from agents.tools.schema import Answers, Schema, Signature
from checkpoints.access import RunPrincipal
from checkpoints.errors import NotStorable
from checkpoints.pure.codec import canonical

Effect = Literal["none", "read", "write", "external"]
Risk = Literal["low", "medium", "high", "critical"]
Verdict = Literal["approve", "edit", "reject", "respond"]

REASON = "reason"  # the extra argument that the model sees
_REASON_SCHEMA = {
    "type": "string",
    "description": "Why this call is right, in one or two sentences, for the person "
    "who may have to approve it.",
}

Reconcile = Callable[..., Any]


@dataclass(frozen=True)
class Rule:
    """When a tool's call needs a person, and what that person may say.

    Without `when`, always. `when` is data (`agents/pure/policy.py`), never code.
    """

    name: str
    when: Mapping[str, Any] | None = None
    allowed: tuple[Verdict, ...] = ("approve", "edit", "reject")

    def __post_init__(self) -> None:
        if self.when is not None and (wrong := policy.problem(self.when)):
            raise BadDeclaration(f"Rule {self.name!r}: {wrong}.")
        if unknown := set(self.allowed) - set(get_args(Verdict)):
            raise BadDeclaration(f"Rule {self.name!r} allows {sorted(unknown)}.")

    def requires(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a person must decide a call with these arguments."""
        return self.when is None or policy.evaluate(self.when, arguments)

    @property
    def version(self) -> str:
        """Changes with anything that the rule says."""
        when = dict(self.when) if self.when is not None else None
        return _hash([self.name, when, sorted(self.allowed)])


class Never:
    """Says that a tool's calls never need a person."""

    def __repr__(self) -> str:
        return "never"


never = Never()


@dataclass(frozen=True)
class Fitted:
    """A call's arguments, checked: to keep, and to run with."""

    arguments: dict[str, Any] = field(repr=False)  # JSON, without the reason
    values: dict[str, Any] = field(repr=False)  # as the function takes them
    reason: str = field(repr=False)  # the model's, unverified; "" for none


@dataclass(frozen=True)
class Awaited:
    """A lock that another run holds, and how long a call waits for it at most."""

    lock: UUID
    most: timedelta


@dataclass(frozen=True)
class Tool:
    """A function that agents may call. Made by `@tool`."""

    name: str
    function: Callable[..., Any] = field(repr=False)
    description: str
    signature: Signature = field(repr=False)
    effect: Effect
    idempotent: bool
    risk: Risk
    template: str
    rule: Rule | None  # None: never asks
    question: bool
    version: str
    # Finds out what came of a call by its key; None: it cannot.
    reconcile: Reconcile | None = field(default=None, repr=False)
    # A result that is not older is given again, for the same call in the same thread.
    cache: timedelta | None = None
    # How long one call is waited for; None: as long as the setting says.
    timeout: timedelta | None = None
    # For who approves it (guards.py): whether all is as it was, and what it would do.
    guard: Guard | None = field(default=None, repr=False)
    guard_age: timedelta = guards.AGE  # that its last look may have at an approval
    tolerance: Mapping[str, Any] = field(default_factory=dict)
    preview: Previews | None = field(default=None, repr=False)
    # How long what it does can be undone, in words; False: not at all; None: not said.
    reversible: str | Literal[False] | None = None
    # Of a question: the form of its answer; None: text.
    response: Answers | None = field(default=None, repr=False)
    # What it changes is its branch's own, as a board is: a fork makes the call for itself.
    of_branch: bool = False
    # The agent that does it, in a run of its own; the function itself never runs.
    delegates: str = ""
    # The lock that a call has to have first, where another run holds it; None: it waits
    # for none.
    awaits: Callable[[RunPrincipal, Mapping[str, Any]], Awaited | None] | None = field(
        default=None, repr=False
    )

    @property
    def has_effects(self) -> bool:
        return self.effect in ("write", "external")

    @property
    def schema(self) -> Schema:
        """Of the arguments that are kept and run: without the reason."""
        return self.signature.schema

    @property
    def schema_hash(self) -> str:
        if self.response is not None:  # people see a form of it
            return _hash([self.schema, self.response.schema])
        return _hash(self.schema)

    @property
    def takes_reason(self) -> bool:
        """Whether the model is asked why. A parameter of that name is the tool's own."""
        return self.rule is not None and REASON not in self.schema["properties"]

    @property
    def offered(self) -> dict[str, Any]:
        """The tool as the model sees it."""
        schema = self.schema
        if self.takes_reason:
            properties = {**schema["properties"], REASON: _REASON_SCHEMA}
            schema = {**schema, "properties": properties}
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": schema,
            },
        }

    def title(self, arguments: Mapping[str, Any] | None) -> str:
        if arguments is None or not self.template:
            return titles.plain(self.name, self._without_reason(arguments))
        properties = self.schema["properties"]
        readable = {
            name: titles.grouped(value)
            if properties.get(name, {}).get("format") == "decimal"
            else value
            for name, value in arguments.items()
        }
        return titles.fill(self.template, readable)

    def fit(self, call: Call) -> Fitted:
        """The arguments of a call that a model made. Raises ArgumentsDoNotFit."""
        if call.arguments is None:
            raise ArgumentsDoNotFit({"": call.problem})
        reason = call.arguments.get(REASON) if self.takes_reason else None
        kept, values = self.validate(dict(self._without_reason(call.arguments) or {}))
        return Fitted(kept, values, reason if isinstance(reason, str) else "")

    def validate(
        self, arguments: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Arguments as kept, and as the function takes them. ArgumentsDoNotFit."""
        try:
            return self.signature.fit(arguments)
        except NotStorable as error:
            raise ArgumentsDoNotFit({"": str(error)}) from None

    def answer(self, values: dict[str, Any]) -> dict[str, Any]:
        """An answer in the form that is declared, as it is kept. ArgumentsDoNotFit."""
        assert self.response is not None  # the caller looked
        try:
            return self.response.fit(values)[0]
        except NotStorable as error:
            raise ArgumentsDoNotFit({"": str(error)}) from None

    def requires(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a person must decide a call with these arguments."""
        return self.rule is not None and self.rule.requires(arguments)

    def execute(
        self, arguments: dict[str, Any], *, key: str, context: ToolContext
    ) -> str:
        """Run it; the result as text for the model, JSON unless it is text already.

        Raises what the tool raises, ArgumentsDoNotFit, and ResultNotKept.
        """
        values = self.validate(arguments)[1]
        values |= _given(self.signature, key, context)
        return _kept(self.function(**values))

    def found(self, *, key: str, context: ToolContext) -> str | None:
        """What the tool finds of a call that began: its result, or None: no such call.

        Raises what `reconcile` raises, and ResultNotKept.
        """
        assert self.reconcile is not None  # the caller looked
        signature = Signature(self.reconcile, self.name)
        result = self.reconcile(**_given(signature, key, context))
        return None if result is None else _kept(result)

    def look(
        self, arguments: dict[str, Any], seen: Seen, context: ToolContext
    ) -> Found:
        """What its guard finds for these arguments, where it saw `seen` before.

        Raises what the guard raises, ArgumentsDoNotFit, and NotAGuard.
        """
        assert self.guard is not None  # the caller looked
        return guards.find(self.guard, self.validate(arguments)[1], seen, context)

    def show(self, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """What its preview shows of a call with these arguments. Raises as `look`."""
        assert self.preview is not None  # the caller looked
        return guards.show(self.preview, self.validate(arguments)[1], context)

    def _without_reason(
        self, arguments: Mapping[str, Any] | None
    ) -> Mapping[str, Any] | None:
        if arguments is None or not self.takes_reason:
            return arguments
        return {name: item for name, item in arguments.items() if name != REASON}

    def spec(self) -> dict[str, Any]:
        """What of it belongs to an agent's version.

        What was declared later is in it where it is used: else the version stays.
        """
        timeout = self.timeout
        return {
            **({"timeout": timeout.total_seconds()} if timeout else {}),
            **self._shown_to_people(),
            **({"delegates": self.delegates} if self.delegates else {}),
            "name": self.name,
            "version": self.version,
            "description": self.description,
            "schema": self.schema,
            "effect": self.effect,
            "idempotent": self.idempotent,
            "risk": self.risk,
            "title": self.template,
            "rule": self.rule.name if self.rule else None,
            "rule_version": self.rule.version if self.rule else None,
            "cache": self.cache.total_seconds() if self.cache else None,
            "reconcile": source_version(self.reconcile, {}) if self.reconcile else None,
        }

    def _shown_to_people(self) -> dict[str, Any]:
        guard, preview = self.guard, self.preview
        declared = {
            "guard": source_version(guard, {}) if guard else None,
            "guard_age": None
            if self.guard_age == guards.AGE
            else self.guard_age.total_seconds(),
            "tolerance": {path: str(most) for path, most in self.tolerance.items()},
            "preview": source_version(preview, {}) if preview else None,
            "reversible": self.reversible or None,
            "response": self.response.schema if self.response else None,
        }
        said = {name: value for name, value in declared.items() if value}
        return {**said, "reversible": False} if self.reversible is False else said


def _given(signature: Signature, key: str, context: ToolContext) -> dict[str, Any]:
    """What a function gets from us, by the names of its parameters."""
    ours: dict[str, Any] = {"key": IdempotencyKey(key), "ctx": context}
    return {parameter: ours[kind] for kind, parameter in signature.injected.items()}


def _kept(result: Any) -> str:
    """Raises ResultNotKept."""
    try:
        return as_text(result)
    except NotStorable as problem:
        raise ResultNotKept(str(problem)) from problem


def source_version(
    function: Callable[..., Any], schema: Schema, *, with_helpers: bool = False
) -> str:
    """`with_helpers`: and of the functions of its module that it comes to."""
    if not with_helpers:
        return _hash([_source(function), schema])
    found: dict[str, str] = {}
    _sources(function, function.__module__, found)
    return _hash([found, schema])


def _sources(function: Callable[..., Any], module: str, found: dict[str, str]) -> None:
    found[function.__qualname__] = _source(function)
    for name in sorted(_names(function.__code__)):
        other = getattr(function, "__globals__", {}).get(name)
        if (
            inspect.isfunction(other)
            and other.__module__ == module
            and other.__qualname__ not in found
        ):
            _sources(other, module, found)


def _names(body: CodeType) -> set[str]:
    """That it and what is defined in it look up."""
    inner = (each for each in body.co_consts if isinstance(each, CodeType))
    return set(body.co_names).union(*map(_names, inner))


@cache
def _source(function: Callable[..., Any]) -> str:
    """As it was when it was first asked for: a deploy changes the file, not the code
    that this process runs."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):  # made by exec, or shipped without source
        return _compiled(function.__code__)


def _compiled(body: CodeType) -> str:
    """The same in every process: no addresses of code within it, no order of sets."""
    consts = [
        _compiled(each)
        if isinstance(each, CodeType)
        else sorted(map(repr, each))
        if isinstance(each, frozenset)
        else repr(each)
        for each in body.co_consts
    ]
    return repr([body.co_code, body.co_names, consts])


def _hash(value: Any) -> str:
    """Of code and declarations, which are no secret: unkeyed, 16 hex digits."""
    return sha256(canonical(value)).hexdigest()[:16]
