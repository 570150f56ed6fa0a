"""Tool calls as pages show them: what was asked for, whether it ran, who let it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.db.models import prefetch_related_objects

from agents.models import Approval, ToolCall
from agents.pages.damage import open_each
from agents.pages.delegated import Relative
from agents.pages.thread.steps import Step
from agents.tools.retitled import retitled
from checkpoints.gate import Pass
from checkpoints.models import Checkpoint


@dataclass(frozen=True)
class CallView:
    call: ToolCall
    title: str
    step: int | None  # of its result; while there is none, of the reply that made it
    checkpoint: UUID | None
    child: Relative | None = None  # the run that does it, or did

    @property
    def approval(self) -> Approval | None:
        return getattr(self.call, "approval", None)

    @property
    def took(self) -> timedelta | None:
        if self.call.started_at and self.call.finished_at:
            return self.call.finished_at - self.call.started_at
        return None


def call_views(
    calls: Sequence[ToolCall],
    placed: Mapping[UUID, int],
    opened: Pass | None,
    children: Mapping[UUID, Relative],
) -> list[CallView]:
    """Calls with their titles opened; without a pass, with their tool's name.

    `placed`: the steps of checkpoints of the branch that is shown; `children`: the runs
    that its calls have started.
    """
    titles = _titles(calls, opened) if opened else [None] * len(calls)
    views: list[CallView] = []
    for n, call in enumerate(calls):
        result = call.result_checkpoint_id
        at: UUID = result if result and result in placed else call.reply_id
        views.append(
            CallView(
                call=call,
                title=titles[n] or call.tool or "unregistered tool",
                step=placed.get(at),
                checkpoint=at if at in placed else None,
                child=children.get(call.pk),
            )
        )
    return views


def _titles(calls: Sequence[ToolCall], opened: Pass) -> list[str | None]:
    """Of what would run, or ran; None for what does not open."""
    titles = open_each(opened, calls, "title")
    edited = [n for n, call in enumerate(calls) if call.effective is not None]
    if not edited:
        return titles
    changed = [calls[n] for n in edited]
    prefetch_related_objects(changed, "run__agent_version__agent")
    for n, effective in zip(
        edited, open_each(opened, changed, "effective"), strict=True
    ):
        call = calls[n]
        agent = call.run.agent_version.agent.name
        if titles[n] is not None:
            titles[n] = retitled(agent, call.tool, titles[n], effective)
    return titles


def calls_at(
    calls: Sequence[ToolCall],
    steps: Sequence[Step],
    at: Step,
    children: Mapping[UUID, Relative],
) -> list[ToolCall]:
    """The calls that a step made, answered, asked about, put to an agent or decided."""
    if at.kind in Checkpoint.REPLIES:
        return [call for call in calls if call.reply_id == at.id]
    result = [call for call in calls if call.result_checkpoint_id == at.id]
    if result or at.kind not in {"interrupt", "decision", "error"}:
        return result
    reply = next(
        (s for s in reversed(steps[: at.step]) if s.kind in Checkpoint.REPLIES), None
    )
    if reply is None:
        return []
    return [
        call
        for call in calls
        if call.reply_id == reply.id
        and (call.pk in children or getattr(call, "approval", None))
    ]
