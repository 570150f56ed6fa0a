"""The chain and the segment that docs/sealed-record.md publishes, made without our code."""

from __future__ import annotations

import hmac
import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from checkpoints.pure import chain, segment


@pytest.fixture
def vector() -> dict[str, Any]:
    page = Path(__file__).parents[2] / "docs" / "sealed-record.md"
    blocks = re.findall(r"```json\n(.*?)```", page.read_text(), re.DOTALL)
    found: dict[str, Any] = json.loads(blocks[-1])
    return found


def test_the_published_chain_holds(vector):
    key, branch = bytes.fromhex(vector["mac_key"]), UUID(vector["branch"])
    previous, parent = bytes(32), b""
    for step, each in enumerate(vector["steps"]):
        parts = (
            b"holdpoint state chain 1",
            previous,
            branch.bytes,
            step.to_bytes(8, "big"),
            parent,
            each["metadata"].encode(),
            sha256(each["text"].encode()).digest(),
        )
        said = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        assert hmac.digest(key, said, "sha256").hex() == each["mac"]
        made = chain.link(
            key,
            previous,
            branch=branch,
            step=step,
            parent=UUID(bytes=parent) if parent else None,
            metadata=each["metadata"].encode(),
            operations=each["text"].encode(),
        )
        assert made.hex() == each["mac"]
        previous, parent = made, UUID(each["checkpoint"]).bytes


def test_the_published_segment_holds(vector):
    steps = vector["steps"]
    texts = [each["text"].encode() for each in steps]
    by_hand = b"".join(
        (
            b"HPs\x01",
            len(steps).to_bytes(4, "big"),
            vector["first"].to_bytes(8, "big"),
            UUID(vector["branch"]).bytes,
            bytes(16),
            bytes(32),
            bytes.fromhex(steps[-1]["mac"]),
            *(UUID(each["checkpoint"]).bytes for each in steps),
            *(len(text).to_bytes(4, "big") for text in texts),
            b"[" + b",".join(texts) + b"]",
        )
    )
    assert by_hand.hex() == vector["segment"]
    packed = segment.unpack(by_hand)
    assert packed.plains == texts
    assert [str(id) for id in packed.ids] == [each["checkpoint"] for each in steps]
    assert (packed.branch, packed.first, packed.last, packed.parent) == (
        UUID(vector["branch"]),
        0,
        1,
        None,
    )
