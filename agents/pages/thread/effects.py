"""Tool calls as pages show them: what was asked for, whether it ran, who let it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from agents.models import Approval, ToolCall
from agents.pages.damage import open_each
from agents.pages.thread.steps import Step
from checkpoints.gate import Pass


@dataclass(frozen=True)
class CallView:
    call: ToolCall
    title: str
    step: int | None  # of its result; while there is none, of the reply that made it
    checkpoint: UUID | None

    @property
    def approval(self) -> Approval | None:
        return getattr(self.call, "approval", None)

    @property
    def took(self) -> timedelta | None:
        if self.call.started_at and self.call.finished_at:
            return self.call.finished_at - self.call.started_at
        return None


def call_views(
    calls: Sequence[ToolCall], steps: Sequence[Step], opened: Pass | None
) -> list[CallView]:
    """Calls with their titles opened; without a pass, with their tool's name."""
    by_id: Mapping[UUID, Step] = {step.id: step for step in steps}
    titles = open_each(opened, calls, "title") if opened else [None] * len(calls)
    views: list[CallView] = []
    for n, call in enumerate(calls):
        place = by_id.get(call.result_checkpoint_id or call.reply_id)
        place = place or by_id.get(call.reply_id)
        views.append(
            CallView(
                call=call,
                title=titles[n] or call.tool or "unregistered tool",
                step=place.step if place else None,
                checkpoint=place.id if place else None,
            )
        )
    return views


def calls_at(
    calls: Sequence[ToolCall], steps: Sequence[Step], at: Step
) -> list[ToolCall]:
    """The calls that a step made, answered, asked about or decided."""
    if at.kind == "model":
        return [call for call in calls if call.reply_id == at.id]
    result = [call for call in calls if call.result_checkpoint_id == at.id]
    if result or at.kind not in {"interrupt", "decision", "error"}:
        return result
    reply = next(
        (step for step in reversed(steps[: at.step]) if step.kind == "model"), None
    )
    if reply is None:
        return []
    return [
        call
        for call in calls
        if call.reply_id == reply.id and getattr(call, "approval", None)
    ]
