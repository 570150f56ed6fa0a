"""The request for the next reply: everything, or the facts and what came since.

By default everything: the system prompt from `params`, then all messages. Where the run
was resumed from the facts (`resumed.py`): the system prompt and what else is a system
message, the facts, the last message of a person, and the transcript from there on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.pure.context.facts import facts
from agents.pure.context.resumed import FACTUAL, WHOLE, resumed
from agents.pure.context.transcript import AsSent, as_sent, messages_of, transcript
from checkpoints.pure.codec import State

_SYSTEM = ("system", "developer")


@dataclass(frozen=True)
class Request:
    """One model call. `manifest` is what the step keeps, to rebuild and show it."""

    model: str
    messages: list[dict[str, Any]] = field(repr=False)
    tools: list[dict[str, Any]] = field(repr=False)
    temperature: float | None
    top_p: float | None
    seed: int | None
    manifest: dict[str, Any] = field(repr=False)


def compose(
    state: State, tools: Sequence[dict[str, Any]], *, as_whole: AsSent | None = None
) -> Request:
    """The request for the next reply, from any state, however it came about.

    `as_whole`: the same for the states of one run, which follow one another.
    """
    params = state.get("params")
    params = params if isinstance(params, dict) else {}
    system = params.get("system")
    system = system if isinstance(system, str) else ""
    prompt = [{"role": "system", "content": system}] if system else []
    sent, count, shape = _messages(state, prompt, as_whole or AsSent())
    temperature, top_p = _number(params, "temperature"), _number(params, "top_p")
    seed = params.get("seed")
    seed = seed if isinstance(seed, int) and not isinstance(seed, bool) else None
    model = params.get("model")
    model = model if isinstance(model, str) else ""
    return Request(
        model=model,
        messages=sent,
        tools=list(tools),
        temperature=temperature,
        top_p=top_p,
        seed=seed,
        manifest={
            **shape,
            "system": bool(system),
            # Not which ones: that follows from the state, and a step must not grow with
            # the transcript.
            "messages": count,
            "tools": [tool["function"]["name"] for tool in tools],
            "params": {
                "model": model,
                "temperature": temperature,
                "top_p": top_p,
                "seed": seed,
            },
        },
    )


def _messages(
    state: State, prompt: list[dict[str, Any]], as_whole: AsSent
) -> tuple[list[dict[str, Any]], int, dict[str, Any]]:
    """The messages as sent, how many of the state's those are, and by which policy.

    Of the factual one: which message is the facts, and for how many they stand.
    """
    stands = resumed(state)
    if stands is None or stands.policy != FACTUAL:
        sent, count = as_whole(transcript(state))
        return [*prompt, *sent], count, {"policy": WHOLE}
    messages = messages_of(state)
    first = stands.start(messages)
    said = [n for n, message in enumerate(messages) if message["role"] == "user"]
    last = said[-1] if said else first
    ahead, count = as_sent([m for m in messages[:first] if m["role"] in _SYSTEM])
    kept = messages[last:first][:1]  # none where it is sent with the rest
    rest, more = as_sent([*kept, *messages[first:]])
    left_out = [
        message
        for place, message in enumerate(messages[:first])
        if place != last and message["role"] not in _SYSTEM
    ]
    told = {"role": "user", "content": facts(state, left_out, stands)}
    ahead = [*prompt, *ahead]
    shape = {"policy": FACTUAL, "facts": len(ahead), "left_out": len(left_out)}
    return [*ahead, told, *rest], count + more, shape


def _number(params: dict[str, Any], name: str) -> float | None:
    value = params.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value
