"""The bytes of a step's metadata that its MAC covers: canonical, however they are made."""

from __future__ import annotations

import json
from dataclasses import fields
from decimal import Decimal
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.errors import NotStorable
from checkpoints.log.step import META_COLUMNS, StepMeta, metadata
from checkpoints.pure import codec

texts = st.text(max_size=20) | st.sampled_from(['"', "\\", "\x7f", "\u2028", "\x01"])
floats = st.none() | st.floats(allow_nan=False, allow_infinity=False)
counts = st.none() | st.integers(0, 2**31 - 1)
ids = st.none() | st.uuids()
metas = st.builds(
    StepMeta,
    status=st.sampled_from(["ok", "failed"]),
    name=texts,
    run=ids,
    actor_id=counts,
    agent_version=ids,
    model_requested=texts,
    model_returned=texts,
    temperature=floats,
    top_p=floats,
    seed=st.none() | st.integers(-(2**63), 2**63 - 1),
    fingerprint=texts,
    tokens_in=counts,
    tokens_out=counts,
    tokens_cached=counts,
    cost=st.none() | st.decimals(0, 10**5, places=6),
    latency_ms=counts,
    error_class=st.sampled_from(["", "tool_stopped"]),
)


def in_json(value):
    match value:
        case UUID():
            return str(value)
        case Decimal():
            return format(value, "f")
    return value


@given(metas, st.uuids(), st.integers(1, 9))
def test_metadata_is_canonical_json(meta, id, version):
    values = {name: in_json(getattr(meta, name)) for name in META_COLUMNS}
    values |= {"id": str(id), "kind": "tool", "schema_version": version}
    assert metadata(id, "tool", version, meta) == codec.canonical(values)


def test_metadata_covers_every_column_that_a_step_gives():
    covered = json.loads(metadata(uuid4(), "tool", 1, StepMeta()))
    assert set(covered) == {
        *(column.name for column in fields(StepMeta)),
        "id",
        "kind",
        "schema_version",
    }


@pytest.mark.parametrize(
    "meta", [StepMeta(temperature=float("nan")), StepMeta(error_class="\ud800")]
)
def test_metadata_that_is_not_json_is_refused(meta):
    with pytest.raises(NotStorable):
        metadata(uuid4(), "tool", 1, meta)
