"""Tools, rules and agents, as code declares them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from typing import Any, Literal, TypeVar, get_args, overload

from agents.errors import (
    ArgumentsDoNotFit,
    BadDeclaration,
    ResultNotKept,
    UnknownTool,
)
from agents.pure import policy
from agents.pure.engine import Call
from agents.tools import titles
from agents.tools.context import IdempotencyKey, ToolContext
from agents.tools.limits import DEFAULT, Limits
from agents.tools.results import as_text
from agents.tools.schema import Schema, Signature
from checkpoints.errors import NotStorable
from checkpoints.pure.codec import State, canonical
from checkpoints.pure.schema import (
    MAX_VERSION,
    NONE,
    SCHEMA_VERSION,
    Migrations,
    migrate,
)

Effect = Literal["none", "read", "write", "external"]
Risk = Literal["low", "medium", "high", "critical"]
Verdict = Literal["approve", "edit", "reject", "respond"]
Busy = Literal["enqueue", "reject", "interrupt"]

REASON = "reason"  # the extra argument that the model sees
_REASON_SCHEMA = {
    "type": "string",
    "description": "Why this call is right, in one or two sentences, for the person "
    "who may have to approve it.",
}
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")  # what providers take

F = TypeVar("F", bound=Callable[..., Any])
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

    @property
    def has_effects(self) -> bool:
        return self.effect in ("write", "external")

    @property
    def schema(self) -> Schema:
        """Of the arguments that are kept and run: without the reason."""
        return self.signature.schema

    @property
    def schema_hash(self) -> str:
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

    def _without_reason(
        self, arguments: Mapping[str, Any] | None
    ) -> Mapping[str, Any] | None:
        if arguments is None or not self.takes_reason:
            return arguments
        return {name: item for name, item in arguments.items() if name != REASON}

    def spec(self) -> dict[str, Any]:
        """What of it belongs to an agent's version."""
        return {
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
            "reconcile": _source_version(self.reconcile, {})
            if self.reconcile
            else None,
        }


@dataclass(frozen=True)
class Agent:
    """An agent that code offers: prompt, model, parameters and tools."""

    name: str
    model: str
    system: str = field(repr=False)
    tools: Sequence[Tool] = ()
    temperature: float | None = 0
    top_p: float | None = None
    seed: int | None = None
    title: str = ""
    description: str = ""
    schema_version: int = SCHEMA_VERSION  # of the state that its code reads and writes
    migrations: Migrations = NONE  # how older state comes to be of that version
    busy: Busy = "enqueue"  # what a message does to a run that is not over
    limits: Limits = DEFAULT  # what one run of it may use

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,59}", self.name):
            raise BadDeclaration(
                f"Agent {self.name!r}: a name is up to 60 small letters, digits and -."
            )
        names = [tool.name for tool in self.tools]
        if twice := {name for name in names if names.count(name) > 1}:
            raise BadDeclaration(f"Agent {self.name!r} has two tools {sorted(twice)}.")
        if self.busy not in get_args(Busy):
            raise BadDeclaration(
                f"Agent {self.name!r}: busy={self.busy!r} is none of "
                f"{', '.join(get_args(Busy))}."
            )
        if not 1 <= self.schema_version <= MAX_VERSION:
            raise BadDeclaration(
                f"Agent {self.name!r}: schema version {self.schema_version} is not "
                f"from 1 to {MAX_VERSION}."
            )
        known = self.migrations.versions
        # The oldest may be given up; in between there is no gap.
        if known and known != list(range(known[0], self.schema_version)):
            raise BadDeclaration(
                f"Agent {self.name!r} has schema version {self.schema_version} and "
                f"migrations from {known}: one from each up to "
                f"{self.schema_version - 1} is needed, and none from later ones."
            )

    def tool(self, name: str) -> Tool:
        """Raises UnknownTool."""
        for tool in self.tools:
            if tool.name == name:
                return tool
        raise UnknownTool(name, [tool.name for tool in self.tools])

    @property
    def schemas(self) -> list[dict[str, Any]]:
        return [tool.offered for tool in self.tools]

    def current(self, state: State) -> State:
        """The state as this agent has it now; the same object where it is that already.

        Raises FutureSchema, MissingMigration and MigrationFailed.
        """
        return migrate(state, to=self.schema_version, migrations=self.migrations)

    def params(self) -> dict[str, Any]:
        """The `params` channel that a run of it starts with."""
        return {
            "system": self.system,
            "model": self.model,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "seed": self.seed,
        }

    def spec(self) -> dict[str, Any]:
        """All that makes it this version of the agent."""
        return {
            "name": self.name,
            "params": self.params(),
            "tools": [tool.spec() for tool in self.tools],
            "schema_version": self.schema_version,
            "busy": self.busy,
            "limits": self.limits.spec(),
        }


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    effect: Effect | None = None,
    idempotent: bool = False,
    risk: Risk = "medium",
    title: str = "",
    approve: Rule | Never | None = None,
    question: bool = False,
    version: str | None = None,
    describe: str | None = None,
    reconcile: Reconcile | None = None,
    cache: timedelta | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    effect: Effect | None = None,
    idempotent: bool = False,
    risk: Risk = "medium",
    title: str = "",
    approve: Rule | Never | None = None,
    question: bool = False,
    version: str | None = None,
    describe: str | None = None,
    reconcile: Reconcile | None = None,
    cache: timedelta | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a function a tool.

    `effect` undeclared means "external". A tool with effects and no `approve` asks
    each time; `approve=never` says that it need not. A `question` is put to a
    person, whose answer is the result: the function itself never runs.

    `reconcile` is a function of the call's key (and ToolContext, if it likes) that finds
    out what came of a call whose worker stopped: the result as the tool would have given
    it, None when it did not happen. It raises when it cannot tell; then, or without
    one, a person is asked.

    `cache`, of a tool that only reads: for how long a result is given again when the
    same call comes again in the thread. Such a tool has no use of working memory.
    """

    def declare(function: Callable[..., Any]) -> Tool:
        called = name or function.__name__
        if not _NAME.match(called):
            raise BadDeclaration(
                f"Tool {called!r}: a name is letters, digits, _ and -."
            )
        signature = Signature(function, called)
        if missing := set(titles.slots(title)) - set(signature.schema["properties"]):
            raise BadDeclaration(
                f"Tool {called!r}: the title names {sorted(missing)}, "
                "which the function does not take."
            )
        effect_ = effect or ("none" if question else "external")
        if effect_ not in get_args(Effect):
            raise BadDeclaration(f"Tool {called!r}: effect {effect!r} is none of ours.")
        return Tool(
            name=called,
            function=function,
            description=describe or inspect.getdoc(function) or "",
            signature=signature,
            effect=effect_,
            idempotent=idempotent,
            risk=risk,
            template=title,
            rule=_rule(called, effect_, approve, question),
            question=question,
            version=version or _source_version(function, signature.schema),
            reconcile=_reconcile(called, effect_, idempotent, reconcile),
            cache=_cache(called, effect_, question, cache),
        )

    return declare(function) if function is not None else declare


def ask(
    *, title: str, name: str | None = None, describe: str | None = None
) -> Callable[[Callable[..., Any]], Tool]:
    """Make a function a question to a person. Its title is what they read."""
    return tool(name=name, title=title, describe=describe, question=True, risk="low")


def _rule(
    name: str, effect: Effect, approve: Rule | Never | None, question: bool
) -> Rule | None:
    if question:
        return Rule(f"{name} asks a person", allowed=("respond", "reject"))
    if isinstance(approve, Rule):
        if "respond" in approve.allowed:
            # Models read an answer as success; a denial is always a rejection.
            raise BadDeclaration(f"Tool {name!r}: only a question may be responded to.")
        return approve
    if approve is never or effect in ("none", "read"):
        return None
    return Rule(f"{name} has effects")


def _reconcile(
    name: str, effect: Effect, idempotent: bool, reconcile: Reconcile | None
) -> Reconcile | None:
    if reconcile is None:
        return None
    if effect in ("none", "read") or idempotent:
        raise BadDeclaration(
            f"Tool {name!r}: reconcile is for calls that must not happen twice; this "
            "one may simply be made again."
        )
    if taken := sorted(Signature(reconcile, name).schema["properties"]):
        raise BadDeclaration(
            f"Tool {name!r}: reconcile takes the call's key (IdempotencyKey), and a "
            f"ToolContext if it likes, not {taken}."
        )
    return reconcile


def _cache(
    name: str, effect: Effect, question: bool, cache: timedelta | None
) -> timedelta | None:
    if cache is None:
        return None
    if effect not in ("none", "read") or question:
        raise BadDeclaration(
            f"Tool {name!r}: only what a tool reads is cached; declare effect='read', "
            "if that is all it does."
        )
    if cache <= timedelta(0):
        raise BadDeclaration(f"Tool {name!r}: cache={cache!r} is no length of time.")
    return cache


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


def _source_version(function: Callable[..., Any], schema: Schema) -> str:
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):  # made by exec, or shipped without source
        source = repr(function.__code__.co_code) + repr(function.__code__.co_consts)
    return _hash([source, schema])


def _hash(value: Any) -> str:
    """Of code and declarations, which are no secret: unkeyed, 16 hex digits."""
    return sha256(canonical(value)).hexdigest()[:16]
