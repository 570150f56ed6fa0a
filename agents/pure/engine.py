"""The agent loop, one step at a time: a function of the state and two peers.

    the last reply has calls without a result
        one may run now      run the first such          Continue(tool step)
        all need a person    ask for those not yet asked Interrupted
    its window has to move   sum up what goes            Continue(summary step)
    otherwise                call the model
        it made calls        Continue(model step)
        it answered          Finished(model step)
        no reply came        Finished(error step, failure)
    the transcript ends with an answer: Finished, with no step

Nothing is kept between two calls of `advance` but the state, so a worker that takes
over after any commit goes on with the same next step. The model's reply is a step
of its own, committed before the first of its calls starts.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol
from uuid import NAMESPACE_OID, UUID, uuid5

from agents.errors import ModelFailed
from agents.pure.context import (
    PERSON,
    AsSent,
    Moved,
    Request,
    Window,
    answers,
    backwards,
    calls_of,
    compose,
    moved,
    summing_up,
)
from agents.pure.context.window import LONGEST
from agents.pure.labels import first_words
from checkpoints.errors import NotJson
from checkpoints.ids import uuid7
from checkpoints.pure import ops
from checkpoints.pure.codec import State, clean, load_strict
from checkpoints.pure.ops import Op
from checkpoints.pure.refs import Ref


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


@dataclass(frozen=True)
class RunIt:
    """The call may run now."""


@dataclass(frozen=True)
class Ask:
    """A person must decide first. `asked`: a request for it is already there."""

    title: str = field(repr=False)
    asked: bool = False


@dataclass(frozen=True)
class Refuse:
    """The call will not run; the model is told why, as the call's result."""

    text: str = field(repr=False)
    title: str = field(repr=False)
    error_class: str = ""
    name: str = ""  # the tool's, when it is registered


@dataclass(frozen=True)
class ToolOutcome:
    """What a tool gave: the text for the model, and its changes of working memory."""

    # Text; where a fork uses a recorded result, it may be a reference to a blob.
    content: str | Ref = field(repr=False)
    title: str = field(repr=False)
    name: str = ""  # the tool's, when it is registered
    ops: tuple[Op, ...] = field(default=(), repr=False)
    failed: bool = False
    error_class: str = ""
    stop: str = field(default="", repr=False)  # the run fails, for this reason
    latency_ms: int | None = None
    cost: Decimal | None = None  # US dollars, as the tool says
    context: dict[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ReplyMeta:
    """What is known about a model call, for the step's row."""

    model_requested: str = ""
    model_returned: str = ""
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    fingerprint: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_cached: int | None = None
    cost: Decimal | None = None
    latency_ms: int | None = None


@dataclass(frozen=True)
class Reply:
    """What the model said. `id` is the checkpoint that will hold it."""

    message: dict[str, Any] = field(repr=False)  # role, content, tool_calls
    meta: ReplyMeta = ReplyMeta()
    attempts: tuple[dict[str, Any], ...] = ()
    left_out: tuple[str, ...] = ()  # parameters that the model rejected
    finish_reason: str = ""
    id: UUID = field(default_factory=uuid7)


@dataclass(frozen=True)
class Step:
    """What to commit. `id` is the checkpoint's."""

    kind: str
    label: str = field(repr=False)
    ops: tuple[Op, ...] = field(default=(), repr=False)
    status: str = "ok"
    name: str = ""
    meta: ReplyMeta = ReplyMeta()
    error_class: str = ""
    context: dict[str, Any] | None = field(default=None, repr=False)
    id: UUID = field(default_factory=uuid7)
    call: UUID | None = None  # a tool step: the key of its call


@dataclass(frozen=True)
class Failure:
    """Why a run failed: a code to count by, and plain words."""

    error_class: str
    reason: str = field(repr=False)


@dataclass(frozen=True)
class Continue:
    """Commit the step, then advance again."""

    step: Step


@dataclass(frozen=True)
class Interrupted:
    """Every call that is left waits for a person.

    `calls` are those that nobody was asked about yet; `step` records the asking, and
    is None when there are none (a worker took over a run that already waits).
    """

    step: Step | None
    calls: tuple[Call, ...]


@dataclass(frozen=True)
class Finished:
    """The run is over: with an answer, or with a failure."""

    step: Step | None
    failure: Failure | None = None


class Model(Protocol):
    def reply(self, request: Request) -> Reply:
        """Raises ModelFailed."""
        ...


class Tools(Protocol):
    @property
    def schemas(self) -> Sequence[dict[str, Any]]: ...

    def title(self, name: str, arguments: dict[str, Any] | None) -> str: ...

    def consider(self, call: Call) -> RunIt | Ask | Refuse: ...

    def run(self, call: Call) -> ToolOutcome: ...


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


def advance(
    state: State,
    model: Model,
    tools: Tools,
    *,
    keys: Keys = call_key,
    waiting: Sequence[Call] | None = None,
    as_whole: AsSent | None = None,
    window: Window | None = None,
) -> Continue | Interrupted | Finished:
    """The next step of this state. Whatever the state, it raises nothing of its own.

    `waiting`: its unanswered calls, where they are known; `as_whole` as `compose` takes
    it; `window`: how much of the conversation is sent, if not all. What `tools.run` raises passes through: a tool's failure is an outcome, so an
    exception is a fault of the runner's.
    """
    if waiting is None:
        waiting = unanswered(state, keys)
    unasked: list[tuple[Call, str]] = []
    for call in waiting:
        match tools.consider(call):
            case RunIt():
                return _ran(call, tools.run(call))
            case Refuse() as refusal:
                return Continue(_refused(call, refusal))
            case Ask(asked=False, title=title):
                unasked.append((call, title))
    if unasked:
        titles = ", ".join(title for _, title in unasked)
        step = Step(kind="interrupt", status="waiting", label=first_words(titles))
        return Interrupted(step, tuple(call for call, _ in unasked))
    if waiting:
        return Interrupted(None, ())
    last = next(backwards(state), None)
    if last is not None and last["role"] == "assistant":
        return Finished(None)  # a worker stopped between its last step and saying so
    if window is not None and (move := moved(state, window)) is not None:
        return Continue(_summed_up(state, move, model))
    return _think(compose(state, tools.schemas, as_whole=as_whole), model, tools)


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
        _call(call, reply_id, ordinal, keys)
        for ordinal, call in enumerate(calls)
        if ordinal not in answered
    ]


def _call(raw: dict[str, Any], reply: UUID, ordinal: int, keys: Keys) -> Call:
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


def _ran(call: Call, outcome: ToolOutcome) -> Continue | Finished:
    stopped = bool(outcome.stop)
    step_id = uuid7()
    cleaned = clean(outcome.content)[1]  # of text that a step cannot hold as it is
    step = Step(
        id=step_id,
        kind="error" if stopped else "tool",
        status="failed" if outcome.failed or stopped else "ok",
        name=outcome.name,
        label=first_words(outcome.stop or outcome.title),
        ops=(*outcome.ops, result_op(step_id, call, outcome.content)),
        meta=ReplyMeta(latency_ms=outcome.latency_ms, cost=outcome.cost),
        error_class=outcome.error_class,
        context={**(outcome.context or {}), "cleaned": cleaned}
        if cleaned
        else outcome.context,
        call=call.key,
    )
    if stopped:
        error_class = outcome.error_class or "tool_stopped"
        return Finished(step, Failure(error_class, outcome.stop))
    return Continue(step)


def _refused(call: Call, refusal: Refuse) -> Step:
    step_id = uuid7()
    return Step(
        id=step_id,
        kind="tool",
        status="failed",
        name=refusal.name,
        label=first_words(refusal.title),
        ops=(result_op(step_id, call, refusal.text),),
        error_class=refusal.error_class,
        call=call.key,
    )


def result_op(
    step_id: UUID, call: Call, content: str | Ref, *, by_person: bool = False
) -> Op:
    """Append the message that answers the call: what came of it, for the model."""
    message = {
        "id": str(step_id),
        "role": "tool",
        "tool_call_id": call.provider_id,
        "ordinal": call.ordinal,  # ours: providers repeat their ids
        "name": call.name,
        "content": content,
        **({"by": PERSON} if by_person else {}),
    }
    return ops.append("/messages", clean(message)[0])


def _think(request: Request, model: Model, tools: Tools) -> Continue | Finished:
    try:
        reply = model.reply(request)
    except ModelFailed as failed:
        failure = Failure(failed.error_class, str(failed))
        step = Step(
            kind="error",
            status="failed",
            label=first_words(failure.reason),
            meta=ReplyMeta(
                model_requested=request.model,
                temperature=request.temperature,
                top_p=request.top_p,
                seed=request.seed,
            ),
            error_class=failed.error_class,
            context={"request": request.manifest, "attempts": failed.attempts},
        )
        return Finished(step, failure)
    message, cleaned = clean({**reply.message, "id": str(reply.id)})
    calls = calls_of(message)
    parsed = [parse_arguments(call["function"].get("arguments")) for call in calls]
    for ordinal, (_, _, paths) in enumerate(parsed):
        cleaned += [f"$.tool_calls[{ordinal}].arguments{path[1:]}" for path in paths]
    titles = ", ".join(
        tools.title(_text(call["function"].get("name")), arguments)
        for call, (arguments, _, _) in zip(calls, parsed, strict=True)
    )
    step = Step(
        id=reply.id,
        kind="model",
        label=first_words(_text(message.get("content")) or titles),
        ops=(ops.append("/messages", message),),
        meta=reply.meta,
        context={
            "request": request.manifest,
            "attempts": list(reply.attempts),
            "left_out": list(reply.left_out),
            "finish_reason": reply.finish_reason,
            "cleaned": cleaned,  # paths of texts that held lone surrogates
        },
    )
    return Continue(step) if calls else Finished(step)


def _summed_up(state: State, move: Moved, model: Model) -> Step:
    """The step that moves the window, with a summary of what goes out of it.

    Where no summary comes, the window moves all the same, and what goes is told as facts.
    """
    if move.upto == move.summed:
        label = f"Works from the messages after the first {move.first}"
        return Step(kind="summary", label=label, ops=(move.how(summed=False).op(),))
    request = summing_up(state, move.summed, move.upto)
    try:
        reply = model.reply(request)
    except ModelFailed as failed:
        return _unsummed(
            move,
            request,
            str(failed),
            error_class=failed.error_class,
            attempts=failed.attempts,
        )
    message, cleaned = clean(reply.message)
    text = _text(message.get("content")).strip()
    if not text or calls_of({**message, "role": "assistant"}):
        why = "the model wrote none"
        return _unsummed(
            move,
            request,
            why,
            error_class="no_summary",
            attempts=reply.attempts,
            meta=reply.meta,
        )
    return Step(
        id=reply.id,
        kind="summary",
        label=f"Summed up the first {move.upto} messages",
        ops=(ops.set_("/summary", text[:LONGEST]), move.how(summed=True).op()),
        meta=reply.meta,
        context={
            "request": request.manifest,
            "attempts": list(reply.attempts),
            "left_out": list(reply.left_out),
            "finish_reason": reply.finish_reason,
            "cleaned": cleaned,
        },
    )


def _unsummed(
    move: Moved,
    request: Request,
    why: str,
    *,
    error_class: str,
    attempts: Sequence[dict[str, Any]],
    meta: ReplyMeta | None = None,
) -> Step:
    return Step(
        kind="summary",
        status="failed",
        label=first_words(f"No summary: {why}"),
        ops=(move.how(summed=False).op(),),
        meta=meta
        or ReplyMeta(
            model_requested=request.model,
            temperature=request.temperature,
            top_p=request.top_p,
            seed=request.seed,
        ),
        error_class=error_class,
        context={"request": request.manifest, "attempts": list(attempts)},
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
