"""The calls of a transcript: which have no result yet, by what key, and their results."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

from agents.pure.context import PERSON, answers, backwards, calls_of
from checkpoints.errors import NotJson
from checkpoints.pure import ops
from checkpoints.pure.codec import State, clean, load_strict
from checkpoints.pure.ops import Op
from checkpoints.pure.refs import Ref

BY_CODE = "code"  # `by` of a reply that an agent's own `advance` made (own.py)


@dataclass(frozen=True)
class Call:
    """One call of a reply. `arguments` is None when they are no JSON object."""

    key: UUID
    reply: UUID
    ordinal: int
    provider_id: str
    name: str
    arguments: dict[str, Any] | None = field(repr=False)
    problem: str = ""  # why there are no arguments
    by_code: bool = False  # not a model's: code reads its result


Keys = Callable[[UUID, int], UUID]


def call_key(reply: UUID, ordinal: int) -> UUID:
    """The key of a call, on the branch of the reply itself."""
    return uuid5(reply, str(ordinal))


def keys_on(branch: UUID, inherited: Container[UUID]) -> Keys:
    """Keys for a branch that shares the `inherited` checkpoints with its source.

    A call of an inherited reply is another call here than there: with another key.
    """

    def key(reply: UUID, ordinal: int) -> UUID:
        if reply in inherited:
            return uuid5(reply, f"{branch}/{ordinal}")
        return call_key(reply, ordinal)

    return key


def unanswered(state: State, keys: Keys = call_key) -> list[Call]:
    """The calls of the last reply that have no result yet, in order."""
    after: list[dict[str, Any]] = []
    for reply in backwards(state):
        if reply["role"] == "assistant":
            break
        after.append(reply)
    else:
        return []
    calls = calls_of(reply)
    answered = answers(calls, after[::-1])
    reply_id = _reply_id(reply)
    return [
        _call(call, reply_id, ordinal, keys, reply.get("by") == BY_CODE)
        for ordinal, call in enumerate(calls)
        if ordinal not in answered
    ]


def _call(
    raw: dict[str, Any], reply: UUID, ordinal: int, keys: Keys, by_code: bool
) -> Call:
    function = raw["function"]
    name, text = function.get("name"), function.get("arguments")
    arguments, problem, _ = parse_arguments(text)
    return Call(
        key=keys(reply, ordinal),
        reply=reply,
        ordinal=ordinal,
        provider_id=raw["id"] if isinstance(raw.get("id"), str) else "",
        name=name if isinstance(name, str) else "",
        arguments=arguments,
        problem=problem,
        by_code=by_code,
    )


def parse_arguments(text: object) -> tuple[dict[str, Any] | None, str, list[str]]:
    """The arguments as a model wrote them, or what is wrong with them.

    And where in them text held lone surrogates, which were replaced.
    """
    if text is None or text == "":
        return {}, "", []  # several servers write no arguments so
    if not isinstance(text, str):
        return None, "they are not text", []
    try:
        value = load_strict(text)
    except NotJson as error:
        return None, str(error), []
    if not isinstance(value, dict):
        return None, "they are not a JSON object", []
    arguments, cleaned = clean(value)
    return arguments, "", cleaned


def _reply_id(message: dict[str, Any]) -> UUID:
    """The id of the reply's checkpoint. Of a message from elsewhere: one made from it."""
    try:
        return UUID(message["id"])
    except (KeyError, ValueError, TypeError, AttributeError):
        return uuid5(NAMESPACE_OID, repr(message.get("id")))


def result_op(
    step_id: UUID,
    call: Call,
    content: str | Ref,
    *,
    by_person: bool = False,
    problem: str = "",
    ran_with: dict[str, Any] | None = None,
) -> Op:
    """Append the message that answers the call: what came of it, for the model.

    Code is told more than the text: `problem`, why the call did not succeed, and the
    arguments that people approved in place of its own.
    """
    message = {
        "id": str(step_id),
        "role": "tool",
        "tool_call_id": call.provider_id,
        "ordinal": call.ordinal,  # ours: providers repeat their ids
        "name": call.name,
        "content": content,
        **({"by": PERSON} if by_person else {}),
    }
    if call.by_code and problem:
        message["problem"] = problem
    if call.by_code and ran_with is not None:
        message["arguments"] = ran_with
    return ops.append("/messages", clean(message)[0])
