"""A step of the engine as it is stored: its row, its calls, and no secrets in it."""

from __future__ import annotations

from dataclasses import fields, replace

from agents.models import Run
from agents.pure.context import calls_of
from agents.pure.step import ReplyMeta, Step
from agents.tools.secrets import capture
from checkpoints.log.append import NewStep, StepMeta
from checkpoints.models import Checkpoint


def checkpoint_of(
    step: Step, run: Run, *, actor_id: int | None, schema_version: int | None
) -> NewStep:
    """What is appended for a step of the run; `actor_id`: the person whose doing it is."""
    meta = step.meta
    return NewStep(
        id=step.id,
        kind=step.kind,
        ops=step.ops,
        label=step.label,
        context=step.context,
        schema_version=schema_version,
        meta=StepMeta(
            status=step.status,
            name=step.name,
            run=run.pk,
            actor_id=actor_id,
            agent_version=run.agent_version_id,
            error_class=step.error_class,
            **{column: getattr(meta, column) for column in _REPLY_COLUMNS},
        ),
    )


def counts(step: Step) -> bool:
    """Whether it is one of the steps that the run may take."""
    return step.kind != Checkpoint.Kind.PROGRESS


def calls_in(step: Step) -> int:
    """How many calls it proposes. One goes into the step's own statement."""
    if step.kind not in Checkpoint.REPLIES or not step.ops:
        return 0
    *_, last = step.ops
    return len(calls_of(last[2])) if last[:2] == ["append", "/messages"] else 0


def without_secrets(step: Step) -> Step:
    """The step as it may be stored; its context names what was taken out."""
    (ops, label, context), found = capture([list(step.ops), step.label, step.context])
    if not found:
        return step
    if label.endswith("…"):  # it was cut, maybe within a secret
        label = f"{label.rpartition(' ')[0]}…"
    return replace(
        step,
        ops=tuple(ops),
        label=label,
        context={**(context or {}), "secrets": found},
    )


_REPLY_COLUMNS = tuple(column.name for column in fields(ReplyMeta))
