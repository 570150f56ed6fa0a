"""The request for the next reply: everything, or the facts and what came since.

By default everything: the system prompt from `params`, then all messages. Where the run
was resumed from the facts (`resumed.py`), or has a window (`window.py`): the system
prompt and what else is a system message, the facts, the last message of a person, and
the transcript from there on; with what comes back of older messages (`earlier.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.pure.context.earlier import earlier
from agents.pure.context.facts import facts
from agents.pure.context.resumed import WHOLE, resumed
from agents.pure.context.transcript import AsSent, as_sent, messages_of, transcript
from agents.pure.context.window import PROMPT, summed_until, to_sum_up
from checkpoints.pure.codec import State

SUMMARY = "summary"  # the policy of a call that writes one
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
    system = _params(state).get("system")
    system = system if isinstance(system, str) else ""
    prompt = [{"role": "system", "content": system}] if system else []
    sent, count, shape = _messages(state, prompt, as_whole or AsSent())
    # Not which ones: that follows from the state, and a step must not grow with the
    # transcript.
    return _request(state, sent, tools, {**shape, "messages": count}, system=system)


def summing_up(state: State, summed: int, upto: int) -> Request:
    """The request for a summary of the messages before `upto`; see `window.py`."""
    shape = {
        "policy": SUMMARY,
        "summed": summed,
        "upto": upto,
        "messages": upto - summed,
    }
    return _request(state, to_sum_up(state, summed, upto), (), shape, system=PROMPT)


def request_of(
    manifest: Mapping[str, Any], state: State, tools: Sequence[dict[str, Any]] = ()
) -> Request:
    """The request that a step's manifest is of, from the state before that step."""
    summed, upto = manifest.get("summed"), manifest.get("upto")
    if manifest.get("policy") != SUMMARY or not (
        type(summed) is int and type(upto) is int
    ):
        return compose(state, tools)
    return summing_up(state, summed, upto)


def _request(
    state: State,
    messages: list[dict[str, Any]],
    tools: Sequence[dict[str, Any]],
    shape: dict[str, Any],
    *,
    system: str,
) -> Request:
    params = _params(state)
    temperature, top_p = _number(params, "temperature"), _number(params, "top_p")
    seed = params.get("seed")
    seed = seed if isinstance(seed, int) and not isinstance(seed, bool) else None
    model = params.get("model")
    model = model if isinstance(model, str) else ""
    return Request(
        model=model,
        messages=messages,
        tools=list(tools),
        temperature=temperature,
        top_p=top_p,
        seed=seed,
        manifest={
            **shape,
            "system": bool(system),
            "tools": [tool["function"]["name"] for tool in tools],
            "params": {
                "model": model,
                "temperature": temperature,
                "top_p": top_p,
                "seed": seed,
            },
        },
    )


def _params(state: State) -> dict[str, Any]:
    params = state.get("params")
    return params if isinstance(params, dict) else {}


def _messages(
    state: State, prompt: list[dict[str, Any]], as_whole: AsSent
) -> tuple[list[dict[str, Any]], int, dict[str, Any]]:
    """The messages as sent, how many of the state's those are, and by which policy.

    Of the factual one: which message is the facts, and for how many they stand; and which
    one is what came back of those.
    """
    stands = resumed(state)
    if stands is None or not stands.tells:
        sent, count = as_whole(transcript(state))
        return [*prompt, *sent], count, {"policy": WHOLE}
    messages = messages_of(state)
    first = stands.start(messages)
    said = [n for n, message in enumerate(messages) if message["role"] == "user"]
    last = said[-1] if said else first
    ahead, count = as_sent([m for m in messages[:first] if m["role"] in _SYSTEM])
    kept = messages[last:first][:1]  # none where it is sent with the rest
    rest, more = as_sent([*kept, *messages[first:]])
    places = [
        place
        for place, message in enumerate(messages[:first])
        if place != last and message["role"] not in _SYSTEM
    ]
    left_out = [messages[place] for place in places]
    summed = summed_until(state, stands)
    unsummed = sum(place < summed for place in places)
    content = facts(state, left_out, stands, unsummed=unsummed)
    told = {"role": "user", "content": content}
    ahead = [*prompt, *ahead]
    shape: dict[str, Any] = {
        "policy": stands.policy,
        "facts": len(ahead),
        "left_out": len(left_out),
    }
    sent = [*ahead, told, *rest]
    if stands.recall and (
        found := earlier(
            left_out, [*kept, *messages[first:]], content, most=stands.recall
        )
    ):
        place = len(sent) - (sent[-1]["role"] == "user" and bool(rest))
        sent.insert(place, {"role": "user", "content": found})
        shape["earlier"] = place
    return sent, count + more, shape


def _number(params: dict[str, Any], name: str) -> float | None:
    value = params.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value
