"""What one step is made of, and which bytes of it the state chain covers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any
from uuid import UUID

from checkpoints.gate import RECORD_SCHEMA
from checkpoints.ids import uuid7
from checkpoints.models import Checkpoint, CheckpointDelta
from checkpoints.pure import codec
from checkpoints.pure.envelope import Context
from checkpoints.pure.ops import Op

_TEXT_LENGTH = 100  # characters; what the columns hold
_COST_PLACES = Decimal("0.000001")  # dollars; what the column holds


@dataclass(frozen=True)
class StepMeta:
    """What is known about a step without opening it. Stored in clear, for SQL."""

    status: str = Checkpoint.Status.OK
    name: str = ""
    run: UUID | None = None
    actor_id: int | None = None
    agent_version: UUID | None = None
    model_requested: str = ""
    model_returned: str = ""
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    fingerprint: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_cached: int | None = None
    cost: Decimal | None = None
    latency_ms: int | None = None
    error_class: str = ""

    def __post_init__(self) -> None:
        """Bring values to the form in which the columns give them back."""
        put = object.__setattr__  # frozen
        for name in ("name", "model_requested", "model_returned", "fingerprint"):
            put(self, name, _as_text(getattr(self, name)))
        for name in ("temperature", "top_p"):
            value = getattr(self, name)
            put(self, name, None if value is None else float(value))
        if self.cost is not None:
            put(self, "cost", self.cost.quantize(_COST_PLACES))
        put(self, "status", str(self.status))


META_COLUMNS = tuple(column.name for column in fields(StepMeta))


@dataclass(frozen=True)
class NewStep:
    """A step to append. `id` becomes its checkpoint's: it is known before the commit."""

    kind: str
    ops: Sequence[Op] = field(repr=False)
    label: str = field(repr=False)
    meta: StepMeta = field(default_factory=StepMeta)
    context: dict[str, Any] | None = field(default=None, repr=False)
    schema_version: int | None = None  # of the state after it; None: as before it
    id: UUID = field(default_factory=uuid7)

    def plain(self) -> bytes:
        """The text that is sealed. Raises NotStorable."""
        return codec.canonical(
            {"context": self.context, "label": self.label, "ops": list(self.ops)}
        )


def delta_context(
    workspace_id: UUID, thread_id: UUID, checkpoint_id: UUID, step: int
) -> Context:
    """The place that a step's operations are bound to: `gate.context` of their row.

    Without making the row, which would cost more than opening the record.
    """
    return Context(
        purpose=f"{CheckpointDelta._meta.label_lower}.record",
        workspace=workspace_id,
        thread=thread_id,
        object=checkpoint_id,
        step=step,
        schema=RECORD_SCHEMA,
    )


def metadata(id: UUID, kind: str, schema_version: int, meta: object) -> bytes:
    """The canonical metadata that a step's MAC covers.

    Everything in the row that has a meaning of its own, but for `created_at`, which the
    database gives in the statement that stores the MAC, and `data_key`, which may change
    when records are sealed anew. Branch, step, parent and text are covered beside it.
    """
    values = {name: _in_json(getattr(meta, name)) for name in META_COLUMNS}
    return codec.canonical(
        values | {"id": str(id), "kind": str(kind), "schema_version": schema_version}
    )


def _in_json(value: Any) -> Any:
    match value:
        case UUID():
            return str(value)
        case Decimal():
            return format(value, "f")
    return value


def _as_text(value: str) -> str:
    """Some of these come from a provider: whatever it says, the step can be stored."""
    cleaned, _ = codec.clean(value.replace("\x00", ""))
    text: str = cleaned[:_TEXT_LENGTH]
    return text
