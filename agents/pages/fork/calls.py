"""What becomes of the source's later calls in a fork, as its page tells beforehand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.models import ToolCall
from agents.pages.damage import open_each
from agents.pages.text import name_of
from agents.pages.thread.steps import Step
from agents.pages.thread.subject import Subject
from agents.runs.fork_calls import choices_for, recorded_calls, usual
from checkpoints.models import Branch

CALLS = {
    Branch.Calls.RECORDED: (
        "Recorded results",
        "What the source got for the same call; a person is asked where there is none.",
    ),
    Branch.Calls.SIMULATE: (
        "Simulate",
        "Recorded results; any other call with an effect is not run, and the agent goes "
        "on as if it had been.",
    ),
    Branch.Calls.LIVE: (
        "Live",
        "Calls with effects run, for real and again; a person is asked about each.",
    ),
}


@dataclass(frozen=True)
class LaterCalls:
    """Calls of one tool that the source made after the step."""

    tool: str
    effect: str
    times: int
    said: dict[str, str]  # what becomes of them, by how the fork makes its calls


@dataclass(frozen=True)
class OneCall:
    """A recorded call of the source, and what may become of it in the fork."""

    id: str
    title: str
    effect: str
    step: int  # of its result
    usual: dict[str, str]  # in words, by how the fork makes its calls
    options: list[tuple[str, str]]
    chosen: str  # "": as the others


@dataclass(frozen=True)
class Answered:
    """A request that waited at the step, and how it was answered in the source."""

    id: str  # of its call
    request: str  # APR-2041
    title: str
    verdict: str
    who: str
    recorded: bool  # the source has a result that a fork would use unasked
    anew: bool  # it is to be asked again


def answered_here(
    subject: Subject,
    calls: Sequence[ToolCall],
    at: Step,
    chosen: Mapping[str, str],
    *,
    again: bool,
) -> list[Answered]:
    """The requests that were open at the step; `again`: each is to be asked anew."""
    assert subject.opened is not None  # `fork` sends away who may not read
    number = {step.id: step.step for step in subject.steps}
    after = len(subject.steps)
    found = [
        call
        for call in calls
        if hasattr(call, "approval")
        and call.branch_id == at.branch_id
        and number[call.reply_id] <= at.step
        and number.get(call.result_checkpoint_id or at.id, after) >= at.step
        and call.result_checkpoint_id != at.id
    ]
    titles = open_each(subject.opened, found, "title")
    return [
        Answered(
            id=str(call.pk),
            request=str(call.approval),
            title=title or call.tool,
            verdict=call.approval.get_status_display().lower(),
            who=_name(call.approval.decided_by),
            recorded=(recorded := call.status == ToolCall.Status.SUCCEEDED),
            anew=recorded and (again or chosen.get(str(call.pk)) == Branch.Calls.LIVE),
        )
        for call, title in zip(found, titles, strict=True)
    ]


def _name(person: Any) -> str:
    return "" if person is None else name_of(person)


LISTED = 60  # calls that are chosen for one by one, the first after the step

_WORDS = {
    Branch.Calls.RECORDED: "use the recorded result",
    Branch.Calls.SIMULATE: "simulate: not run",
    Branch.Calls.LIVE: "ask a person, then run",
}
_READS = {Branch.Calls.LIVE: "run again: it only looks"}


def single_calls(
    subject: Subject, at: Step, chosen: Mapping[str, str]
) -> tuple[list[OneCall], bool]:
    """The calls that the source recorded after the step; whether there are more."""
    assert subject.opened is not None  # `fork` sends away who may not read
    found = list(
        recorded_calls(at.branch_id, at.step, subject.principal)
        .select_related("result_checkpoint", "approval")
        .defer("arguments", "reason", "result")[: LISTED + 1]
    )
    calls = found[:LISTED]
    titles = open_each(subject.opened, calls, "title")
    return [
        _one_call(call, title or call.tool, subject, chosen.get(str(call.pk), ""))
        for call, title in zip(calls, titles, strict=True)
    ], len(found) > LISTED


def _one_call(call: ToolCall, title: str, subject: Subject, chosen: str) -> OneCall:
    words = _WORDS | (_READS if call.effect == ToolCall.Effect.READ else {})
    made = call.result_checkpoint
    assert made is not None  # it succeeded
    return OneCall(
        id=str(call.pk),
        title=title,
        effect=call.effect,
        step=made.step,
        usual={
            calls: words[Branch.Calls(usual(call.effect, calls))]
            for calls in Branch.Calls.values
        },
        options=[
            (choice, words[Branch.Calls(choice)])
            for choice in choices_for(
                call.effect, subject.principal, asked=hasattr(call, "approval")
            )
        ],
        chosen=chosen,
    )


def later_calls(
    calls: Sequence[ToolCall], steps: Sequence[Step], at: Step
) -> list[LaterCalls]:
    """By tool, what was called after the step, and what becomes of it in a fork."""
    found: dict[tuple[str, str], list[ToolCall]] = {}
    for call in _after(calls, steps, at):
        found.setdefault((call.tool or "unregistered tool", call.effect), []).append(
            call
        )
    return [
        LaterCalls(tool, effect, len(made), _becomes(effect, made))
        for (tool, effect), made in found.items()
    ]


def asked_again(
    calls: Sequence[ToolCall], steps: Sequence[Step], at: Step
) -> list[str]:
    """Requests of the source that a fork would have to make anew."""
    return [
        str(approval)
        for call in _after(calls, steps, at)
        if (approval := getattr(call, "approval", None)) is not None
    ]


def _after(
    calls: Sequence[ToolCall], steps: Sequence[Step], at: Step
) -> list[ToolCall]:
    number = {step.id: step.step for step in steps}
    return [
        call
        for call in calls
        if number.get(call.result_checkpoint_id or call.reply_id, -1) > at.step
        or call.result_checkpoint_id is None
    ]


def _becomes(effect: str, made: Iterable[ToolCall]) -> dict[str, str]:
    if effect in {ToolCall.Effect.NONE, ToolCall.Effect.READ}:
        return dict.fromkeys(Branch.Calls.values, "runs again: it only looks")
    recorded = any(call.status == ToolCall.Status.SUCCEEDED for call in made)
    same = "the recorded result, where the call is the same; else " if recorded else ""
    return {
        Branch.Calls.RECORDED: f"{same}asks a person",
        Branch.Calls.SIMULATE: f"{same}simulated: not run",
        Branch.Calls.LIVE: "asks a person, then runs",
    }
