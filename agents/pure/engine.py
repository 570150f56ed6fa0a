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

An agent's own `advance` takes the place of the last three lines (`own.py`): calls that it
makes stand in the transcript as a model's do, and come to their results the same way.

Nothing is kept between two calls of `advance` but the state, so a worker that takes
over after any commit goes on with the same next step. The model's reply is a step
of its own, committed before the first of its calls starts.
"""

from __future__ import annotations

from collections.abc import Sequence

from agents.errors import AdvanceFailed, ModelFailed
from agents.pure.calls import (
    Call,
    Keys,
    call_key,
    parse_arguments,
    result_op,
    unanswered,
)
from agents.pure.context import (
    AsSent,
    Request,
    Window,
    backwards,
    calls_of,
    compose,
    moved,
)
from agents.pure.labels import first_words
from agents.pure.own import Own, Think, failed_step, step_of
from agents.pure.step import (
    Ask,
    Continue,
    Failure,
    Finished,
    Interrupted,
    Model,
    Refuse,
    ReplyMeta,
    RunIt,
    Step,
    ToolOutcome,
    Tools,
)
from agents.pure.summary import summed_up
from checkpoints.ids import uuid7
from checkpoints.pure import ops
from checkpoints.pure.codec import State, clean


def advance(
    state: State,
    model: Model,
    tools: Tools,
    *,
    keys: Keys = call_key,
    waiting: Sequence[Call] | None = None,
    as_whole: AsSent | None = None,
    window: Window | None = None,
    own: Own | None = None,
) -> Continue | Interrupted | Finished:
    """The next step of this state. Whatever the state, it raises nothing of its own.

    `waiting`: its unanswered calls, where they are known; `as_whole` as `compose` takes
    it; `window`: how much of the conversation is sent, if not all; `own`: what says the
    next step in the model's stead. What `tools.run` raises passes through: a tool's
    failure is an outcome, so an exception is a fault of the runner's.
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
    if own is not None:
        try:
            wanted = own.next(state)
        except AdvanceFailed as failed:
            return failed_step(failed)
        if not isinstance(wanted.next, Think):
            return step_of(wanted, tools)
    else:
        last = next(backwards(state), None)
        if last is not None and last["role"] == "assistant":
            # A worker stopped between its last step and saying so.
            return Finished(None)
    if window is not None and (move := moved(state, window)) is not None:
        return Continue(summed_up(state, move, model))
    thought = _think(compose(state, tools.schemas, as_whole=as_whole), model, tools)
    if own is not None and isinstance(thought, Finished) and thought.failure is None:
        assert thought.step is not None  # the reply
        return Continue(thought.step)  # whether that is the end, it says itself
    return thought


def ask_once(state: State, model: Model, tools: Tools) -> Finished:
    """The model's next reply to this state, and nothing more: none of its calls is
    considered, and what comes of them is for whoever goes on from there.
    """
    match _think(compose(state, tools.schemas), model, tools):
        case Continue(step):
            return Finished(step)
        case Finished() as over:
            return over


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
        ops=(
            *outcome.ops,
            result_op(
                step_id,
                call,
                outcome.content,
                problem=_problem(outcome.failed, outcome.error_class),
                ran_with=outcome.ran_with,
            ),
        ),
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
        ops=(
            result_op(
                step_id, call, refusal.text, problem=_problem(True, refusal.error_class)
            ),
        ),
        error_class=refusal.error_class,
        call=call.key,
    )


def _problem(failed: bool, error_class: str) -> str:
    return (error_class or "failed") if failed else ""


def _think(request: Request, model: Model, tools: Tools) -> Continue | Finished:
    try:
        reply = model.reply(request)
    except ModelFailed as failed:
        failure = Failure(failed.error_class, str(failed))
        step = Step(
            kind="error",
            status="failed",
            label=first_words(failure.reason),
            meta=ReplyMeta.asked(request),
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
        context=reply.context(request, cleaned),
    )
    return Continue(step) if calls else Finished(step)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
