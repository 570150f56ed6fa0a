"""The attempts at a model call, as events of its step; and whether another model answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.pages.text import duration
from checkpoints.log.hydrate import StepRecord

WORDS = {
    "ok": "answered",
    "429": "429: asked too often",
    "timeout": "no answer in time",
    "slow": "answered too slowly",
    "no connection": "no connection",
    "cut": "the connection was cut",
    "error": "broke off with an error",
    "garbage": "sent what is not JSON",
    "unusable": "sent an answer that cannot be used",
    "too large": "sent too much",
    "refused": "the model refused",
}


@dataclass(frozen=True)
class Attempt:
    """One try: what came of it, and what was done then."""

    number: int
    ok: bool
    what: str
    took: str
    then: str  # what was waited, or left out


def attempts(context: Mapping[str, Any] | None) -> list[Attempt]:
    """Of a step's context, where there is more to tell than that the model answered."""
    made = (context or {}).get("attempts")
    found = [
        _attempt(number, each)
        for number, each in enumerate(made if isinstance(made, list) else (), 1)
        if isinstance(each, dict)
    ]
    return [] if len(found) == 1 and found[0].ok else found


def _attempt(number: int, made: Mapping[str, Any]) -> Attempt:
    outcome = str(made.get("outcome", ""))
    status = f"status {outcome}" if outcome.isdigit() else outcome
    took, wait = made.get("took_ms"), made.get("wait_ms")
    then = ""
    if left_out := made.get("left_out"):
        then = f"asked again without {left_out}"
    elif isinstance(wait, int | float):
        then = f"waited {duration(wait)}"
    return Attempt(
        number,
        outcome == "ok",
        WORDS.get(outcome, status),
        duration(took) if isinstance(took, int | float) else "",
        then,
    )


def changed(records: Sequence[StepRecord], at: StepRecord) -> str:
    """How the model that answered this step is another than before, in the branch's
    ancestry: "" where it is the same, or is not known."""
    before = _last_reply(records[: at.step]) if _is_reply(at) else None
    return _differ(before, at) if before is not None else ""


def changed_since(records: Sequence[StepRecord], step: int) -> str:
    """As `changed`, of whom a run from this step on may meet: the model as it answered
    last on the branch."""
    before, now = _last_reply(records[: step + 1]), _last_reply(records)
    if before is None or now is None or before.model_requested != now.model_requested:
        return ""
    return _differ(before, now)


def _differ(before: StepRecord, now: StepRecord) -> str:
    if before.model_returned != now.model_returned:
        asked = before.model_requested != now.model_requested
        return (
            f"Step {now.step} was answered by {now.model_returned}; step {before.step}, "
            f"where a model answered last before it, by {before.model_returned}. "
            + ("It was asked for." if asked else "The same model was asked for.")
        )
    if before.fingerprint and now.fingerprint and before.fingerprint != now.fingerprint:
        return (
            f"{now.model_returned} answered step {now.step} with the fingerprint "
            f"{now.fingerprint}, and step {before.step} with {before.fingerprint}: the "
            "same request may get another reply."
        )
    return ""


def _last_reply(records: Sequence[StepRecord]) -> StepRecord | None:
    return next(filter(_is_reply, reversed(records)), None)


def _is_reply(record: StepRecord) -> bool:
    return record.kind == "model" and bool(record.model_returned)
