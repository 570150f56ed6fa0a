"""Whether a run has used what its agent may use, or turns in a circle.

Looked at before each step. What is over is a failure with a reason that people read;
the run that a retry starts goes on from there with budgets of its own.
"""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db.models import Sum

from agents.models import Approval, Run, ToolCall
from agents.pure.context import backwards, calls_of
from agents.pure.step import Failure
from agents.runs.at_exit import AtExit
from agents.runs.claim import Claim
from agents.runs.progress import Progress
from agents.runs.used import Used, used_below
from agents.tools.declared import REASON
from agents.tools.limits import Limits
from checkpoints.pure.codec import State

ANEW = "Retry goes on from here, with as much again."


def reached(held: Claim, progress: Progress) -> Failure | None:
    """The first limit that is reached; None: the run may take a step."""
    limits = held.agent.limits
    own = _own(limits, held)
    return (
        _budget(own, progress.steps, _used(held, progress))
        or _asked_again(held, own)
        or _rejected(held, progress, limits)
        or _repeated(held, progress, limits)
    )


def _own(limits: Limits, held: Claim) -> Limits:
    """The agent's, and the run's own limit of cost where that is lower."""
    own = held.run.max_cost
    if own is None or (limits.max_cost is not None and limits.max_cost <= own):
        return limits
    return replace(limits, max_cost=own.normalize())


def _used(held: Claim, progress: Progress) -> Used:
    """By the run, and by those that it had started."""
    if not any(tool.delegates for tool in held.agent.tools):
        return progress.used
    return progress.used.with_children(*used_below(held.run.pk))


def _budget(limits: Limits, steps: int, used: Used) -> Failure | None:
    most_steps = min(limits.max_steps or settings.MAX_STEPS, settings.MAX_STEPS)
    if steps >= most_steps:
        return Failure(
            "too_many_steps", f"The run reached its limit of {most_steps} steps. {ANEW}"
        )
    if limits.max_tokens is not None and used.tokens >= limits.max_tokens:
        return Failure(
            "too_many_tokens",
            f"The run used {used.tokens} tokens; its limit is {limits.max_tokens}. {ANEW}",
        )
    if limits.max_cost is not None:
        if used.unpriced:
            return _unpriced(limits.max_cost)
        if used.cost is not None and used.cost >= limits.max_cost:
            return Failure(
                "too_expensive",
                f"The run cost ${used.cost:.4f}; its limit is ${limits.max_cost:f}. {ANEW}",
            )
    if limits.max_seconds is not None:
        seconds = used.worked.total_seconds()
        if seconds >= limits.max_seconds:
            return Failure(
                "too_long",
                f"The run worked for {seconds:.0f} s; its limit is {limits.max_seconds} s."
                f" {ANEW}",
            )
    return None


def _unpriced(most: Decimal) -> Failure:
    return Failure(
        "price_unknown",
        f"The run may cost ${most:f}, and what its model costs is not known. An admin can"
        " say it (Prices, in the admin); then retry.",
    )


def _asked_again(held: Claim, limits: Limits) -> Failure | None:
    """Whether the answers that were asked for of one step cost as much as one run may."""
    if held.run.asks_id is None or limits.max_cost is None:
        return None
    asked = Run.objects.for_run(held.principal).filter(asks=held.run.asks_id)
    together = asked.aggregate(cost=Sum("cost"), unpriced=Sum("unpriced"))
    if together["unpriced"]:
        return _unpriced(limits.max_cost)
    spent = together["cost"]
    if spent is None or spent < limits.max_cost:
        return None
    return Failure(
        "too_expensive",
        f"The answers that were asked for again of this step cost ${spent:.4f} together;"
        f" their limit is ${limits.max_cost:f}. The model was not asked.",
    )


def _rejected(held: Claim, progress: Progress, limits: Limits) -> Failure | None:
    """Whether people said no again and again. Looked up after decisions came only."""
    if limits.max_rejections is None or not progress.was_decided:
        return None
    verdicts = (
        Approval.objects.for_run(held.principal)
        .filter(
            run=held.run.pk,
            status__in=[Approval.Status.APPROVED, Approval.Status.REJECTED],
        )
        .order_by("-decided_at")
        .values_list("status", flat=True)
    )
    last = list(verdicts[: limits.max_rejections])
    if len(last) < limits.max_rejections or Approval.Status.APPROVED in last:
        return None
    return Failure(
        "too_many_rejections",
        f"People rejected {limits.max_rejections} requests in a row. Retry lets the agent"
        " try another way; a message can tell it which.",
    )


def _repeated(held: Claim, progress: Progress, limits: Limits) -> Failure | None:
    """Whether the call that comes next is the last of too many that are the same."""
    most = limits.max_repeats
    if most is None or not progress.open_calls:
        return None
    name = progress.open_calls[-1].name
    # From the state first, which asks nobody: few agents come near. Why a call is made is
    # no part of it, where the model is asked for that.
    reason = {tool.name: tool.takes_reason for tool in held.agent.tools}.get(name)
    if _same_calls(progress.state, most, but=REASON if reason else None) < most:
        return None
    # A retry has as many again: the calls of this run, by their keyed digests.
    if isinstance(progress, AtExit):  # its calls have no rows
        if progress.calls < most:
            return None
    elif not _same_rows(held, most):
        return None
    return Failure(
        "repeats_itself",
        f"The agent asked for {name} {most} times in a row with the same arguments, so the"
        " run stopped before the last. A message can tell it what else to do.",
    )


def _same_rows(held: Claim, most: int) -> bool:
    calls = (
        ToolCall.objects.for_run(held.principal)
        .filter(run=held.run.pk)
        .order_by("-created_at", "-ordinal")
        .values_list("arguments_digest", flat=True)
    )
    last = [bytes(digest) for digest in calls[:most]]
    return len(last) == most and len(set(last)) == 1


def _same_calls(state: State, most: int, *, but: str | None) -> int:
    """How many of the last calls are the same, up to `most`, since somebody spoke.

    `but`: the argument that makes no difference.
    """
    count, same = 0, None
    for message in backwards(state):
        if message["role"] == "tool":
            continue
        calls = calls_of(message) if message["role"] == "assistant" else []
        if not calls:
            return count
        for call in reversed(calls):
            this = _what(call["function"], but)
            same = this if same is None else same
            if this != same or count == most:
                return count
            count += 1
    return count


def _what(function: dict[str, Any], but: str | None) -> tuple[object, object]:
    name, text = function.get("name"), function.get("arguments")
    try:
        arguments = json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return name, text
    if isinstance(arguments, dict):
        arguments.pop(but, None)
    return name, arguments
