"""The summary step: a window moves, and what goes out of it is summed up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.errors import ModelFailed
from agents.pure.context import Moved, Request, calls_of, summing_up
from agents.pure.context.window import LONGEST
from agents.pure.labels import first_words
from agents.pure.step import Model, ReplyMeta, Step
from checkpoints.pure import ops
from checkpoints.pure.codec import State, clean


def summed_up(state: State, move: Moved, model: Model) -> Step:
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
    content = message.get("content")
    text = content.strip() if isinstance(content, str) else ""
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
        context=reply.context(request, cleaned),
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
        meta=meta or ReplyMeta.asked(request),
        error_class=error_class,
        context={"request": request.manifest, "attempts": list(attempts)},
    )
