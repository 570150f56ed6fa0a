"""A person decides: exactly one decision for what was shown, and one wake for the run.

Locks in the order branch, run, approval serialise decisions on one run, so the last
of several wakes it, exactly once. The compare-and-set on status, revision and digest
holds without them: nobody decides what they did not see, or what is decided.

The call itself stays `waiting` until the run takes the decision in, as a step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents.approvals import who
from agents.approvals.given import Given, Where
from agents.approvals.settle import Edited, Verdict, call_of, decide
from agents.approvals.who import ineligible
from agents.errors import (
    AlreadyDecided,
    ArgumentsDoNotFit,
    InvalidDecision,
    LostRace,
    NotEligible,
    Stale,
    UnknownAgent,
    UnknownTool,
)
from agents.models import Approval, Decision, Run
from agents.models.approvals import Seen
from agents.tools import Tool, registry
from agents.tools.schema import Schema
from agents.tools.secrets import capture, captured
from checkpoints.access import UserPrincipal
from checkpoints.pure import codec

__all__ = [
    "AlreadyDecided",
    "InvalidDecision",
    "LostRace",
    "NotEligible",
    "Seen",
    "Stale",
    "approve",
    "edit",
    "ineligible",
    "misfits",
    "reject",
    "respond",
    "response_of",
    "schema_of",
]

TEXT_CHARACTERS = 10_000  # of a reason or an answer
_TOO_LONG = f"At most {TEXT_CHARACTERS:,} characters."


def approve(
    approval: Approval,
    *,
    seen: Seen,
    by: UserPrincipal,
    password_ok: bool = False,
    typed: str = "",
    shown: bytes | None = None,
    place: Where = Where.PAGE,
) -> Decision:
    """Let the call go ahead as it was shown; wake the run once every call is decided.

    Where several people have to approve, the request stays pending until the last of
    them. Where the terms give a grace window, nothing runs until it is over. Of a call
    in doubt: it did not happen, and is made again.

    `password_ok`: the person just gave their password, and it was right; `typed`: what
    they typed to say that they mean it (`given.demanded` says what is asked for);
    `shown`: `given.hash_of_shown` of what was shown, and `place`: where; without it the
    audit log says that only revision and digest were named.

    Raises AlreadyDecided when someone was faster, or `by` has approved already, or it is
    past its deadline, Stale when the request changed since it was shown, NotAsShown when
    its preview did since `approval` was fetched, NotEligible when `by` may not decide it
    (it names the rule), and InvalidDecision when this request cannot be approved, or
    something is missing.
    """
    given = Given(None, password_ok, typed, shown, place=place)
    return decide(approval, seen, by, Verdict.APPROVE, given)


def edit(
    approval: Approval,
    *,
    seen: Seen,
    by: UserPrincipal,
    arguments: dict[str, Any],
    password_ok: bool = False,
    typed: str = "",
    shown: bytes | None = None,
) -> Decision:
    """Let the call go ahead with these arguments instead. They are kept apart.

    Where several people have to approve, or not who edits, that makes a new revision,
    which is pending: everybody approves it anew. Arguments that are what they were count
    as an approval. Raises as `approve`, and InvalidDecision with a message for each
    argument that does not fit.
    """
    if why := who.without_right(approval, by):
        raise NotEligible(why)
    tool = _tool(approval)
    try:
        kept, _ = tool.validate(arguments)
    except ArgumentsDoNotFit as wrong:
        raise InvalidDecision(wrong.fields) from None
    _require_no_secrets("arguments", kept)
    edited, given = Edited(tool, kept), Given(None, password_ok, typed, shown)
    if edited.digest(call_of(approval, by), approval) == seen.digest:
        return decide(approval, seen, by, Verdict.APPROVE, given)
    given = Given({"arguments": kept}, password_ok, typed, shown)
    return decide(approval, seen, by, Verdict.EDIT, given, edited)


def reject(
    approval: Approval,
    *,
    seen: Seen,
    by: UserPrincipal,
    reason: str,
    shown: bytes | None = None,
    place: Where = Where.PAGE,
    stop: Callable[[Run], object] | None = None,
) -> Decision:
    """Refuse the call; the agent reads the reason. Raises as `approve`.

    One is enough, however many have to approve. Of a call in doubt: leave it so. The
    third of one tool in a row pauses the run (`rejections`). `stop`: what ends the run as
    well, in the same transaction; what it raises undoes the rejection.
    """
    text = text_of("reason", reason, "Say why: the agent reads it and can do better.")
    given = Given({"reason": text}, shown=shown, place=place)
    return decide(approval, seen, by, Verdict.REJECT, given, stop=stop)


def respond(
    approval: Approval,
    *,
    seen: Seen,
    by: UserPrincipal,
    response: str | dict[str, Any],
    password_ok: bool = False,
    typed: str = "",
    shown: bytes | None = None,
) -> Decision:
    """Answer a question; the answer is the call's result. Raises as `approve`.

    Where its tool declares the form of an answer, `response` holds its values, and
    InvalidDecision has a message for each that does not fit. Of a call in doubt: it
    happened, and gave this.
    """
    if why := who.without_right(approval, by):
        raise NotEligible(why)
    kept = _answer(approval, response)
    given = Given({"response": kept}, password_ok, typed, shown)
    return decide(approval, seen, by, Verdict.RESPOND, given)


def _answer(approval: Approval, response: str | dict[str, Any]) -> str | dict[str, Any]:
    """An answer as it is kept. Raises InvalidDecision."""
    if (form := response_of(approval)) is not None:
        if isinstance(response, str):
            names = ", ".join(form["properties"])
            raise InvalidDecision({"response": f"An answer has fields: {names}."})
        try:
            kept = _tool(approval).answer(response)
        except ArgumentsDoNotFit as wrong:
            raise InvalidDecision(wrong.fields) from None
        _require_no_secrets("fields", kept)
        if codec.size(kept) > TEXT_CHARACTERS:
            raise InvalidDecision({"response": _TOO_LONG})
        return kept
    if not isinstance(response, str):
        raise InvalidDecision({"response": "This is answered with text."})
    empty = "Write an answer, or reject the question."
    if approval.kind == Approval.Kind.UNKNOWN:
        empty = "Write what it gave, or what you found: the agent goes on with it."
    return text_of("response", response, empty)


def schema_of(approval: Approval) -> Schema:
    """What the arguments of an edit are checked against.

    Raises InvalidDecision when this server does not know the tool.
    """
    return _tool(approval).schema


def response_of(approval: Approval) -> Schema | None:
    """The form of the answer to this question; None where it is answered with text.

    Raises InvalidDecision when this server does not know the tool.
    """
    if approval.kind != Approval.Kind.QUESTION:
        return None
    declared = _tool(approval).response
    return declared.schema if declared else None


def misfits(approval: Approval, values: dict[str, Any]) -> dict[str, str]:
    """What keeps these arguments, or fields of an answer, from fitting; by path.

    Raises InvalidDecision when this server does not know the tool.
    """
    tool = _tool(approval)
    try:
        if approval.kind == Approval.Kind.QUESTION:
            tool.answer(values)
        else:
            tool.validate(values)
    except ArgumentsDoNotFit as wrong:
        return wrong.fields
    return {}


def _require_no_secrets(what: str, kept: dict[str, Any]) -> None:
    if secrets := capture(kept)[1]:
        raise InvalidDecision(
            {
                "": f"The {what} hold what looks like a secret "
                f"({', '.join(secrets)}). Tools take secrets by name."
            }
        )


def _tool(approval: Approval) -> Tool:
    call = approval.call
    try:
        return registry.tool(approval.run.agent_version.agent.name, call.tool)
    except (UnknownAgent, UnknownTool):
        raise InvalidDecision(
            {"verdict": "This server does not know the tool, so it cannot check this."}
        ) from None


def text_of(name: str, text: str, empty: str) -> str:
    """What was written, without secrets. Raises InvalidDecision about this field."""
    stripped = captured(text.replace("\r\n", "\n").strip())
    if not stripped:
        raise InvalidDecision({name: empty})
    if len(stripped) > TEXT_CHARACTERS:
        raise InvalidDecision({name: _TOO_LONG})
    return stripped
