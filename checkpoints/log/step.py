"""What one step is made of, and which bytes of it the state chain covers."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson

from checkpoints.gate import RECORD_SCHEMA
from checkpoints.ids import uuid7
from checkpoints.log.record import StepRow
from checkpoints.models import Checkpoint, CheckpointDelta, Segment
from checkpoints.pure import chain, codec
from checkpoints.pure.envelope import Context
from checkpoints.pure.ops import Op

_DELTA = f"{CheckpointDelta._meta.label_lower}.record"
_SEGMENT = f"{Segment._meta.label_lower}.record"

_BLOBS = b'{"blobs":'  # how such a text begins: its keys are sorted
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
            if value := getattr(self, name):
                put(self, name, _as_text(value))
        for name in ("temperature", "top_p"):
            if (value := getattr(self, name)) is not None:
                put(self, name, float(value))
        if self.cost is not None:
            put(self, "cost", self.cost.quantize(_COST_PLACES))
        put(self, "status", str(self.status))


META_COLUMNS = tuple(column.name for column in fields(StepMeta))
_NOTHING_KNOWN = StepMeta()  # one for all: to make it takes a twentieth of a step


@dataclass(frozen=True)
class NewStep:
    """A step to append. `id` becomes its checkpoint's: it is known before the commit."""

    kind: str
    ops: Sequence[Op] = field(repr=False)
    label: str = field(repr=False)
    meta: StepMeta = _NOTHING_KNOWN
    context: dict[str, Any] | None = field(default=None, repr=False)
    schema_version: int | None = None  # of the state after it; None: as before it
    blobs: Sequence[UUID] = ()  # that values of its own were put away as
    id: UUID = field(default_factory=uuid7)

    def plain(self) -> bytes:
        """The text that is sealed. Raises NotStorable."""
        text: dict[str, Any] = {
            "context": self.context,
            "label": self.label,
            "ops": list(self.ops),
        }
        if self.blobs:
            text["blobs"] = sorted(map(str, self.blobs))
        return codec.canonical(text)


def blobs_of(plain: bytes) -> list[UUID]:
    """The blobs that a step's sealed text names as its own: without them it is not whole.

    Other values may look like references and be none.
    """
    if not plain.startswith(_BLOBS):
        return []
    return [UUID(id) for id in codec.parse(plain)["blobs"]]


def delta_context(
    workspace_id: UUID, thread_id: UUID, checkpoint_id: UUID, step: int
) -> Context:
    """The place that a step's operations are bound to: `gate.context` of their row.

    Without making the row, which would cost more than opening the record.
    """
    return Context(
        purpose=_DELTA,
        workspace=workspace_id,
        thread=thread_id,
        object=checkpoint_id,
        step=step,
        schema=RECORD_SCHEMA,
    )


def segment_context(
    workspace_id: UUID, thread_id: UUID, segment_id: UUID, first_step: int
) -> Context:
    """The place that a segment is bound to: `gate.context` of its row."""
    return Context(
        purpose=_SEGMENT,
        workspace=workspace_id,
        thread=thread_id,
        object=segment_id,
        step=first_step,
        schema=RECORD_SCHEMA,
    )


def metadata(id: UUID, kind: str, schema_version: int, meta: object) -> bytes:
    """The canonical metadata that a step's MAC covers.

    Everything in the row that has a meaning of its own, but for `created_at`, which the
    database gives in the statement that stores the MAC, and `data_key`, which may change
    when records are sealed anew. Branch, step, parent and text are covered beside it.
    Raises NotStorable.
    """
    covered = (id, str(kind), schema_version, *_columns(meta))
    return _canonical(dict(zip(_SORTED, _sort(covered), strict=True)))


def _canonical(values: dict[str, Any]) -> bytes:
    if all(map(_is_plain, (values["temperature"], values["top_p"]))):
        try:
            # Flat and sorted already: the bytes are `codec.canonical`'s, ten times as
            # fast. They are made once a step to write it and once more to read it.
            return orjson.dumps(values, default=_in_json)
        except orjson.JSONEncodeError:
            pass  # canonical() says what is wrong
    return codec.canonical({name: _in_json(value) for name, value in values.items()})


def link(
    mac_key: bytes, previous: bytes, row: StepRow, *, parent: UUID | None, plain: bytes
) -> bytes:
    """The MAC that a stored step must have: of this row and text, after `parent`."""
    return chain.link(
        mac_key,
        previous,
        branch=row.branch_id,
        step=row.step,
        parent=parent,
        # As `metadata()`, of a row that has all of it.
        metadata=_canonical(dict(zip(_SORTED, _of_row(row), strict=True))),
        operations=plain,
    )


_NAMES = ("id", "kind", "schema_version", *META_COLUMNS)
_SORTED = sorted(_NAMES)
_columns = operator.attrgetter(*META_COLUMNS)
_of_row = operator.attrgetter(*_SORTED)
_sort = operator.itemgetter(*map(_NAMES.index, _SORTED))


def _is_plain(number: float | None) -> bool:
    """Whether both encoders write this number without an exponent, so in one form."""
    return number is None or number == 0 or 1e-4 <= abs(number) < 1e16


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
