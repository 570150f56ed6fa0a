"""How code declares tools: `@tool` and `@ask`, and what they refuse."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal, get_args, overload

from pydantic import BaseModel

from agents.errors import BadDeclaration
from agents.pure.tolerance import Tolerance
from agents.tools import titles
from agents.tools.declared import (
    Effect,
    Never,
    Reconcile,
    Risk,
    Rule,
    Tool,
    never,
    source_version,
)
from agents.tools.guards import Guard, Previews, age_of, guard_of, preview_of
from agents.tools.schema import Answers, Signature

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")  # what providers take


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
    timeout: timedelta | None = None,
    guard: Guard | None = None,
    guard_age: timedelta | None = None,
    tolerance: Tolerance | None = None,
    preview: Previews | None = None,
    reversible: str | Literal[False] | None = None,
    response: type[BaseModel] | None = None,
    of_branch: bool = False,
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
    timeout: timedelta | None = None,
    guard: Guard | None = None,
    guard_age: timedelta | None = None,
    tolerance: Tolerance | None = None,
    preview: Previews | None = None,
    reversible: str | Literal[False] | None = None,
    response: type[BaseModel] | None = None,
    of_branch: bool = False,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a function a tool.

    `effect` undeclared means "external". A tool with effects and no `approve` asks
    each time; `approve=never` says that it need not. A `question` is put to a
    person, whose answer is the result: the function itself never runs.

    `reconcile` is a function of the call's key (and ToolContext, if it likes) that finds
    out what came of a call whose worker stopped: the result as the tool would have given
    it, None when it did not happen. It raises when it cannot tell; then, or without
    one, a person is asked.

    `timeout` is how long one call is waited for (TOOL_TIMEOUT_SECONDS where there is
    none). What is not over then goes on unheard: docs/tools.md says what becomes of it.

    `guard` finds out whether what people saw is still so: when they are asked, when they
    look, and before the call is made. Who approves is refused where the last look is
    older than `guard_age` (five minutes), and it looks again; `tolerance` says by how
    much which number may differ. `preview` shows what the call would do, `reversible`
    for how long that can be undone ("for 24 hours"; False: not at all).
    agents/tools/guards.py has their forms.

    `response`, of a question: a pydantic model, whose fields are the form that is
    answered; the agent reads the answer as JSON. Without it, an answer is text.

    `cache`, of a tool that only reads: for how long a result is given again when the
    same call comes again in the thread. Such a tool has no use of working memory.

    `of_branch`: what it changes is its branch's own, as a board is. A fork neither gets
    recorded results of it nor asks because it is a fork: it makes the call for itself.
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
        guarded, allowed = guard_of(called, signature, guard, tolerance)
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
            version=version or source_version(function, signature.schema),
            reconcile=_reconcile(called, effect_, idempotent, reconcile),
            cache=_cache(called, effect_, question, cache),
            timeout=_timeout(called, timeout),
            guard=guarded,
            guard_age=age_of(called, guard, guard_age),
            tolerance=allowed,
            preview=preview_of(called, signature, preview),
            reversible=_reversible(called, effect_, reversible),
            response=_response(called, question, response),
            of_branch=of_branch,
        )

    return declare(function) if function is not None else declare


def ask(
    *,
    title: str,
    name: str | None = None,
    describe: str | None = None,
    response: type[BaseModel] | None = None,
) -> Callable[[Callable[..., Any]], Tool]:
    """Make a function a question to a person. Its title is what they read.

    `response` is the form of the answer, as `tool` has it.
    """
    return tool(
        name=name,
        title=title,
        describe=describe,
        question=True,
        risk="low",
        response=response,
    )


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


def _timeout(name: str, timeout: timedelta | None) -> timedelta | None:
    if timeout is not None and timeout <= timedelta(0):
        raise BadDeclaration(
            f"Tool {name!r}: timeout={timeout!r} is no length of time."
        )
    return timeout


def _response(
    name: str, question: bool, response: type[BaseModel] | None
) -> Answers | None:
    if response is None:
        return None
    if not question:
        raise BadDeclaration(f"Tool {name!r}: only a question has a response.")
    return Answers(response, name)


def _reversible(
    name: str, effect: Effect, reversible: str | Literal[False] | None
) -> str | Literal[False] | None:
    if reversible is not None and effect in ("none", "read"):
        raise BadDeclaration(f"Tool {name!r}: without effects, nothing is undone.")
    if reversible is None or reversible is False:
        return reversible
    if not reversible:
        raise BadDeclaration(
            f"Tool {name!r}: reversible says for how long, in words, or is False."
        )
    return reversible
